package policy

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"
	cedarast "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/shape"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Policies are checked by Cedar's own validator, in strict mode, against one kind of call after
// another. The validator has no partial schemas and no type for a value about which nothing is
// known. So a condition that reads one such value must be valid by itself for some type; beyond
// that, it is only checked whether the value is present. If the schema of the tool is known, one
// type must fit all conditions that read the value. What this leaves unchecked is decided when a
// call is judged: a condition that cannot be evaluated denies the call.

// callType is a kind of call that the validator distinguishes from others.
type callType struct {
	name      string // for messages: server/tool, the method, or "a tool"
	action    cedar.EntityUID
	groups    []cedar.EntityUID // ancestors of the action, nearest first
	principal cedar.EntityType
	resource  cedar.EntityType
	resources []cedar.EntityUID // the resource and its ancestors; nil if not known
	takes     *shape.Shape      // shape of the arguments; nil if not known
	present   bool              // take arguments of unknown type to be present
}

// callOf returns the type of the calls of a tool.
func callOf(server, tool string, takes *shape.Shape) *callType {
	id := qualified(server, tool)
	return &callType{
		name: id, action: actionOf(id), principal: typeAgent, resource: typeTool, takes: takes, groups: toolGroups,
		resources: []cedar.EntityUID{cedar.NewEntityUID(typeTool, cedar.String(id)), cedar.NewEntityUID(typeServer, cedar.String(server))},
	}
}

// listed reports whether c is the type of the calls of a tool with a known schema.
func (c *callType) listed() bool { return c.resources != nil && c.takes != nil }

// nameless is the name of an action that stands for any tool, and of a context member that stands
// for any condition. No policy uses it.
const nameless = "\x00"

var (
	toolGroups = []cedar.EntityUID{actionTools, actionCall}
	callGroups = []cedar.EntityUID{actionCall}

	// anyTool is the type of the calls of a tool about which nothing is known.
	anyTool = &callType{name: "a tool", action: actionOf(nameless), principal: typeAgent, resource: typeTool, groups: toolGroups}

	// methodCalls are the types of calls of all methods except tools/call.
	methodCalls = allMethodCalls()
)

func allMethodCalls() []*callType {
	var all []*callType
	add := func(c callType) {
		same := func(o *callType) bool {
			return o.action == c.action && o.principal == c.principal && o.resource == c.resource
		}
		if !slices.ContainsFunc(all, same) {
			all = append(all, &c)
		}
	}
	for _, method := range mcp.Methods(wire.FromAgent) {
		for _, on := range resourcesOf(method) {
			add(callType{
				name: method, action: actionOf(method), principal: typeAgent, resource: on, takes: methodParams[method], groups: callGroups,
				// A call about a task does not have the arguments of the tool call that created
				// it. A policy that reads them denies such a call.
				present: on == typeTool,
			})
		}
	}
	for _, method := range mcp.Methods(wire.FromServer) {
		c := callType{name: method, action: actionOf(method), principal: typeAgent, resource: typeMethod, groups: callGroups}
		if mcp.IsAsk(method) {
			c.principal, c.resource, c.takes = typeServer, typeAgent, methodParams[method]
		}
		add(c)
	}
	return all
}

func actionOf(id string) cedar.EntityUID { return cedar.NewEntityUID(typeAction, cedar.String(id)) }

// resourcesOf returns what a call of a method can be about, in agreement with subject.setAct.
func resourcesOf(method string) []cedar.EntityType {
	switch mcp.SubjectKind(method) {
	case mcp.Tool:
		return nil
	case mcp.Resource:
		return []cedar.EntityType{typeResource}
	case mcp.Prompt:
		return []cedar.EntityType{typePrompt}
	case mcp.Reference:
		return []cedar.EntityType{typePrompt, typeResource}
	case mcp.Task:
		return []cedar.EntityType{typeTool, typeMethod} // not every task is known
	}
	return []cedar.EntityType{typeMethod}
}

// scopeAllows reports whether a scope is open or names one of the entities.
func scopeAllows(s ast.IsScopeNode, entities ...cedar.EntityUID) bool {
	return slices.ContainsFunc(scopeEntities(s), func(e cedar.EntityUID) bool { return e == (cedar.EntityUID{}) || slices.Contains(entities, e) })
}

// covers reports whether the scope of p can match a call of type c.
func (p *policy) covers(c *callType) bool {
	actions := append([]cedar.EntityUID{c.action}, c.groups...)
	if _, is := p.scope.Action.(ast.ScopeTypeEq); is {
		actions = actions[:1]
	}
	return scopeAllows(p.scope.Action, actions...) && (c.resources == nil || scopeAllows(p.scope.Resource, c.resources...)) && p.types[entityTypesOf{c.principal, c.resource}]
}

// entityTypesOf holds the types of the principal and the resource of a call.
type entityTypesOf struct{ principal, resource cedar.EntityType }

// typesCovered reports for the types of each call whether the scope of p covers them.
func (p *policy) typesCovered() map[entityTypesOf]bool {
	covered := map[entityTypesOf]bool{}
	for _, c := range append(slices.Clip(methodCalls), anyTool) {
		e := entityTypesOf{c.principal, c.resource}
		if _, done := covered[e]; !done {
			scope := *p.scope
			scope.Action = ast.ScopeTypeEq{Entity: c.action}
			covered[e] = len(faults(p.schema(c, nil), &scope)) == 0
		}
	}
	return covered
}

// schema returns a Cedar schema for calls of type c. It declares the actions that p names, of
// which only the action of c applies to anything.
func (p *policy) schema(c *callType, context resolved.RecordType) *resolved.Schema {
	actions := map[types.EntityUID]resolved.Action{
		actionCall:  {Entity: types.Entity{UID: actionCall}},
		actionTools: {Entity: types.Entity{UID: actionTools, Parents: inCall}},
	}
	for _, uid := range slices.Concat(scopeEntities(p.scope.Action), p.reading.actions) {
		if _, ok := actions[uid]; !ok && uid.Type == typeAction {
			parents := inTools
			if isMethod(string(uid.ID)) {
				parents = inCall
			}
			actions[uid] = resolved.Action{Entity: types.Entity{UID: uid, Parents: parents}}
		}
	}
	actions[c.action] = resolved.Action{
		Entity:    types.Entity{UID: c.action, Parents: cedar.NewEntityUIDSet(c.groups[0])},
		AppliesTo: &resolved.AppliesTo{Principals: []types.EntityType{c.principal}, Resources: []types.EntityType{c.resource}, Context: context},
	}
	return &resolved.Schema{Entities: entityShapes, Actions: actions}
}

// faults returns what Cedar's validator reports about a policy, sorted, without duplicates.
func faults(s *resolved.Schema, p *ast.Policy) (messages []string) {
	defer func() {
		// The validator is experimental. A panic counts as a fault of the policy.
		if p := recover(); p != nil {
			messages = []string{fmt.Sprintf("it can't be checked: panic: %v", p)}
		}
	}()
	var add func(err error)
	add = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				add(e)
			}
		} else if err != nil && !slices.Contains(messages, err.Error()) {
			messages = append(messages, err.Error())
		}
	}
	add(validate.New(s, validate.WithStrict()).Policy("", p))
	slices.Sort(messages) // the validator's order is random
	return messages
}

// when returns a policy that forbids calls of type c under a condition.
func (c *callType) when(condition ast.IsNode) *ast.Policy {
	return &ast.Policy{
		Effect: ast.EffectForbid, Principal: ast.ScopeTypeAll{}, Action: ast.ScopeTypeEq{Entity: c.action}, Resource: ast.ScopeTypeAll{},
		Conditions: []ast.ConditionType{{Condition: ast.ConditionWhen, Body: condition}},
	}
}

// check returns the faults of the conditions of p in calls of type c.
func (p *policy) check(c *callType) []finding {
	if p.reading.body == nil {
		return nil
	}
	context, unknown := c.context(&p.reading, textType, false)
	key := c.signature(&p.reading, context, unknown)
	if _, ok := p.clean.Load(key); ok {
		return nil
	}
	var found []finding
	var checked []ast.IsNode
	fitting := map[string]uint{} // types of each unknown value that fit all conditions so far
	for _, u := range unknown {
		fitting[u] = ^uint(0)
	}
	n := 0
	body := mapConditions(p.reading.body, func(condition ast.IsNode) ast.IsNode {
		of := readBy(condition, unknown)
		if n++; len(of) > 1 || len(of) == 1 && (n > maxConditions || hasRecord(condition)) {
			return present(condition)
		}
		if len(of) == 1 {
			if types := p.fitting(c, condition); types != 0 {
				if fitting[of[0]] &= types; fitting[of[0]] == 0 && c.listed() {
					found = append(found, p.conflict(of[0]))
				}
				return present(condition)
			}
		}
		checked = append(checked, condition)
		return condition
	})
	for _, fault := range faults(p.schema(c, context), c.when(body)) {
		f := p.finding(c, fault)
		all := []finding{f}
		if f.place == p.place && len(checked) <= maxConditions {
			all = p.quote(c, f, fault, checked)
		}
		for _, f := range all {
			if !slices.Contains(found, f) {
				found = append(found, f)
			}
		}
	}
	if len(found) == 0 {
		p.clean.Store(key, nil)
	}
	return found
}

// signature returns a key that differs between call types whose faults can differ.
func (c *callType) signature(reads *reading, context resolved.RecordType, unknown []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %q ", c.principal, c.resource, unknown)
	if len(reads.actions) > 0 {
		b.WriteString(c.action.String())
	}
	var write func(resolved.IsType)
	write = func(t resolved.IsType) {
		switch t := t.(type) {
		case resolved.RecordType:
			for _, name := range sortedKeys(t) {
				fmt.Fprintf(&b, "{%q %v ", name, t[name].Optional)
				write(t[name].Type)
			}
		case resolved.SetType:
			b.WriteByte('[')
			write(t.Element)
		default:
			fmt.Fprintf(&b, "%T%v", t, t)
		}
		b.WriteByte(';')
	}
	write(context)
	return b.String()
}

// maxConditions is the maximum number of conditions of a policy that are checked separately.
const maxConditions = 128

// fitting returns the types of a value of unknown type for which a condition that reads it is
// valid by itself, as a bit set of indices into unknownTypes. Unless c is the type of a listed
// tool, it returns only the first of them.
func (p *policy) fitting(c *callType, condition ast.IsNode) (types uint) {
	for i, t := range unknownTypes {
		context, _ := c.context(&p.reading, t, true)
		if len(faults(p.schema(c, context), c.when(condition))) == 0 {
			types |= 1 << i
			if !c.listed() {
				break
			}
		}
	}
	return types
}

// conflict returns the finding that no single type of the value at path fits all conditions that
// read it.
func (p *policy) conflict(path string) finding {
	name := strings.TrimRight(path[strings.LastIndexByte(path, '.')+1:], "[]")
	return finding{place: p.find(ref{path: []string{name}}), how: ofCall, text: fmt.Sprintf("context.%s is read as values of different types", path)}
}

// readBy returns the unknown values that a condition reads.
func readBy(n ast.IsNode, unknown []string) []string {
	var read []string
	for _, r := range outermost(n) {
		path := strings.Join(r.path, ".")
		for _, u := range unknown {
			if r.root == "context" && !r.has && (u == path || strings.HasPrefix(u, path+"[]") || strings.HasPrefix(u, path+".")) && !slices.Contains(read, u) {
				read = append(read, u)
			}
		}
	}
	return read
}

// hasRecord reports whether an expression contains a record or a set of sets, whose types are not
// in unknownTypes.
func hasRecord(n ast.IsNode) bool {
	found := false
	ast.Inspect(ast.NewNode(n), func(n ast.IsNode) bool {
		switch n := n.(type) {
		case ast.NodeTypeRecord:
			found = true
		case ast.NodeTypeSet:
			found = found || slices.ContainsFunc(n.Elements, func(e ast.IsNode) bool {
				_, isSet := e.(ast.NodeTypeSet)
				return isSet
			})
		}
		return true
	})
	return found
}

// present returns the part that can be checked of a condition that reads values of unknown type:
// that they are present, unless the condition itself tests for that.
func present(condition ast.IsNode) ast.IsNode {
	var left ast.IsNode
	for _, r := range outermost(condition) {
		if r.has {
			return ast.NodeTypeAccess{StrOpNode: ast.StrOpNode{Arg: ast.NodeTypeVariable{Name: "context"}, Value: nameless}}
		}
		left = and(left, ast.NodeTypeEquals{BinaryNode: ast.BinaryNode{Left: r.node, Right: r.node}})
	}
	return left
}

// mapConditions applies f to the conditions that n combines by &&, ||, ! and if, and returns the
// result.
func mapConditions(n ast.IsNode, f func(ast.IsNode) ast.IsNode) ast.IsNode {
	switch n := n.(type) {
	case ast.NodeTypeAnd:
		return ast.NodeTypeAnd{BinaryNode: ast.BinaryNode{Left: mapConditions(n.Left, f), Right: mapConditions(n.Right, f)}}
	case ast.NodeTypeOr:
		return ast.NodeTypeOr{BinaryNode: ast.BinaryNode{Left: mapConditions(n.Left, f), Right: mapConditions(n.Right, f)}}
	case ast.NodeTypeNot:
		return ast.NodeTypeNot{UnaryNode: ast.UnaryNode{Arg: mapConditions(n.Arg, f)}}
	case ast.NodeTypeIfThenElse:
		return ast.NodeTypeIfThenElse{If: mapConditions(n.If, f), Then: mapConditions(n.Then, f), Else: mapConditions(n.Else, f)}
	}
	return f(n)
}

// finding is a fault of a policy in some calls.
type finding struct {
	place config.Place
	how   how
	text  string
	hint  string
}

// how specifies how the message of a finding refers to the calls concerned.
type how uint8

const (
	alone  how = iota // not at all
	clause            // as the subject of text
	ofCall            // before text
)

// message returns the message of a finding. about names the calls concerned.
func (f *finding) message(about string) string {
	switch f.how {
	case clause:
		return about + " " + f.text
	case ofCall:
		return "in a call of " + about + ": " + f.text
	}
	return f.text
}

var (
	notFound   = regexp.MustCompile("(?s)^attribute `(.*)` (in context for|on entity type) .* not found$")
	notGuarded = regexp.MustCompile("(?s)^unable to guarantee safety of access to optional attribute `(.*)` in context for ")
	unexpected = regexp.MustCompile("(?s)^unexpected type: expected (.*) but saw (.*)$")
)

// finding explains a fault. Its place is where the policy names the member concerned, if there is
// one.
func (p *policy) finding(c *callType, fault string) finding {
	missing, optional := notFound.FindStringSubmatch(fault), notGuarded.FindStringSubmatch(fault)
	for _, r := range refs(p.reading.body) {
		name, parent := r.path[len(r.path)-1], r.path[:len(r.path)-1]
		var f finding
		switch {
		case r.has:
			continue
		case missing != nil && missing[1] == name && (r.root == "context") == (missing[2] == "in context for") && c.lacks(r.root, parent, name):
			f = c.noMember(r)
		case optional != nil && optional[1] == strings.Join(r.path, ".") && r.root == "context":
			f = unguarded(r)
		default:
			continue
		}
		f.place = p.find(r)
		return f
	}
	f := finding{place: p.place, how: ofCall, text: plain(fault)}
	if strings.Contains(f.text, "decimal") {
		f.hint = "compare decimals as in `context.arguments.amount.lessThan(decimal(\"1.5\"))`"
	}
	return f
}

// quote returns f once for each condition that causes the fault, with the condition quoted. If
// the text of the policy contains the condition in Cedar's formatting, the finding gets its
// place.
func (p *policy) quote(c *callType, f finding, fault string, conditions []ast.IsNode) []finding {
	context, _ := c.context(&p.reading, textType, true) // tests for members are in other conditions
	schema := p.schema(c, context)
	var all []finding
	for _, condition := range conditions {
		if !slices.Contains(faults(schema, c.when(condition)), fault) {
			continue
		}
		quoted, text := f, cedarText(condition)
		start := min(p.cedar.Position().Offset, len(p.text))
		if i := bytes.Index(p.text[start:], []byte(text)); i >= 0 {
			quoted.place = placeAt(p.place.File, p.text, start+i)
		}
		if len(text) > maxPrintable {
			text = strings.ToValidUTF8(text[:maxPrintable], "") + "…"
		}
		quoted.text += fmt.Sprintf(" in `%s`", text)
		all = append(all, quoted)
	}
	if len(all) == 0 {
		return []finding{f}
	}
	return all
}

// cedarText returns an expression in Cedar's formatting.
func cedarText(n ast.IsNode) string {
	p := cedar.NewPolicyFromAST((*cedarast.Policy)(&ast.Policy{
		Effect: ast.EffectPermit, Principal: ast.ScopeTypeAll{}, Action: ast.ScopeTypeAll{}, Resource: ast.ScopeTypeAll{},
		Conditions: []ast.ConditionType{{Condition: ast.ConditionWhen, Body: n}},
	}))
	_, text, _ := strings.Cut(string(p.MarshalCedar()), "when { ")
	return strings.TrimSuffix(text, " };")
}

// find returns the place where the policy first names the last member of r. Cedar's parser does
// not keep the places of expressions.
func (p *policy) find(r ref) config.Place {
	before := `\.\s*`
	if r.has {
		before = `(?:\.|\bhas)\s*`
	}
	return p.findWord(before+`(`+regexp.QuoteMeta(r.path[len(r.path)-1])+`)\b`, r.path[len(r.path)-1])
}

// findWord returns the place of the first match of pattern, or of text as a string literal,
// outside of comments and other strings. pattern must have one group. If there is no match,
// findWord returns the place of the policy.
func (p *policy) findWord(pattern, text string) config.Place {
	start := min(p.cedar.Position().Offset, len(p.text))
	words, err := regexp.Compile(`//[^\n]*|"(?:[^"\\]|\\.)*"|;|` + pattern)
	if err != nil {
		return p.place
	}
	for _, at := range words.FindAllSubmatchIndex(p.text[start:], -1) {
		switch word := string(p.text[start+at[0] : start+at[1]]); {
		case word == ";":
			return p.place
		case at[2] >= 0:
			return placeAt(p.place.File, p.text, start+at[2])
		case word == strconv.Quote(text):
			return placeAt(p.place.File, p.text, start+at[0])
		}
	}
	return p.place
}

// noMember returns the finding that a member does not exist.
func (c *callType) noMember(r ref) finding {
	name, parent := r.path[len(r.path)-1], r.path[:len(r.path)-1]
	hint := meant(name, c.members(r.root, parent))
	switch {
	case r.root != "context":
		of := c.principal
		if r.root == "resource" {
			of = c.resource
		}
		return finding{how: ofCall, text: fmt.Sprintf("the %s is a %s, which has no attribute %q", r.root, of, name), hint: hint}
	case !r.inArguments():
		return finding{text: fmt.Sprintf("%s has no member %q", strings.Join(append([]string{r.root}, parent...), "."), name), hint: hint}
	case parent[0] == "lists":
		return finding{how: clause, text: fmt.Sprintf("has no list %q among its arguments", name), hint: hint}
	case len(parent) > 1:
		return finding{how: clause, text: fmt.Sprintf("has no member %q in its argument %q", name, strings.Join(parent[1:], ".")), hint: hint}
	}
	return finding{how: clause, text: fmt.Sprintf("has no argument %q", name), hint: hint}
}

// lacks reports whether the record at path has no member with this name.
func (c *callType) lacks(root string, path []string, name string) bool {
	return len(path) > 0 && path[0] == "lists" || !slices.Contains(c.members(root, path), name)
}

// members returns the names of the members at a path from a variable.
func (c *callType) members(root string, path []string) []string {
	r := entityShapes[c.principal].Shape
	switch {
	case root == "resource":
		r = entityShapes[c.resource].Shape
	case root == "context" && len(path) > 0 && (path[0] == "arguments" || path[0] == "lists"):
		s := c.takes
		for _, name := range path[1:] {
			if s == nil {
				break
			}
			m, _ := s.Member(name)
			s = m.Shape
		}
		if s == nil {
			return nil
		}
		return s.Names()
	case root == "context" && len(path) == 0:
		return words(sortedKeys(memberNames))
	case root == "context":
		r = contextShape
	}
	for _, name := range path {
		r, _ = r[types.String(name)].Type.(resolved.RecordType)
	}
	return words(sortedKeys(r))
}

// each returns the text of every element of all.
func each[T any](all []T, text func(T) string) []string {
	var texts []string
	for _, one := range all {
		texts = append(texts, text(one))
	}
	return texts
}

func words[T ~string](names []T) []string {
	return each(names, func(n T) string { return string(n) })
}

// meant returns a hint at the known name that is probably meant, or all known names if they are
// few.
func meant(name string, known []string) string {
	hint := didYouMean("%q", name, known)
	if hint == "" && len(known) > 0 && len(known) <= 12 {
		hint = "known are " + strings.Join(known, ", ")
	}
	return hint
}

// unguarded returns the finding that a member may be absent and that the policy does not test for
// it.
func unguarded(r ref) finding {
	name, parent := r.path[len(r.path)-1], ref{root: r.root, path: r.path[:len(r.path)-1]}
	f := finding{how: clause, hint: fmt.Sprintf("write `%s has %s && ...`", parent, identifier(name))}
	switch {
	case !r.inArguments():
		f.how, f.text = alone, fmt.Sprintf("%s may lack the member %q", parent, name)
	case r.path[0] == "lists":
		f.text = fmt.Sprintf("may be called without a list %q", name)
	case len(r.path) == 2:
		f.text = fmt.Sprintf("may be called without the argument %q", name)
	default:
		f.text = fmt.Sprintf("may be called without %q in its argument %q", name, strings.Join(parent.path[1:], "."))
	}
	return f
}

// identifier returns a name in the form that Cedar requires after has.
func identifier(name string) string {
	for i := range len(name) {
		if !wordByte(name[i]) || i == 0 && '0' <= name[i] && name[i] <= '9' {
			return strconv.Quote(name)
		}
	}
	return name
}

var plainer = strings.NewReplacer(
	"Set<__cedar::internal::AnyEntity>, or __cedar::internal::AnyEntity", "an entity or a set of them",
	"__cedar::internal::AnyEntity, or __cedar::internal::OpenRecord{}", "a record or an entity",
	"Set<__cedar::internal::Any>", "a set",
	"__cedar::internal::AnyEntity", "an entity",
	"__cedar::internal::True", "Bool",
	"__cedar::internal::False", "Bool",
	"Set<__cedar::internal::Never>", "an empty set",
	"datetime, or duration, or Long", "Long",
)

// plain returns a message of the validator without the names of internal types.
func plain(fault string) string {
	if m := unexpected.FindStringSubmatch(fault); m != nil {
		fault = fmt.Sprintf("expected %s, found %s", m[1], m[2])
	}
	return plainer.Replace(fault)
}
