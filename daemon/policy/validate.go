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

// Policies are checked by Cedar's own validator, in strict mode, against one kind
// of call after the other. The validator has no type for a value of which nothing
// is known, and no partial schemas. So a condition that reads one such value must fit
// some type by itself, and is then checked no further than for whether the value is
// present. What this leaves unchecked is settled when a call is judged: a condition
// that can't be evaluated refuses the call.

// callType is a kind of call, as far as the validator tells calls apart.
type callType struct {
	name      string // in messages: server/tool, the method, or "a tool"
	action    cedar.EntityUID
	principal cedar.EntityType
	resource  cedar.EntityType
	takes     *shape.Shape      // the arguments; nil: not known
	present   bool              // where takes is nil: an argument that is read is taken to be present
	groups    []cedar.EntityUID // that the action is in, the nearest first
	resources []cedar.EntityUID // the resource and what it is in; nil: not known
}

// callOf returns the type of the calls of a tool.
func callOf(server, tool string, takes *shape.Shape) *callType {
	id := qualified(server, tool)
	return &callType{
		name: id, action: actionOf(id), principal: typeAgent, resource: typeTool, takes: takes, groups: toolGroups,
		resources: []cedar.EntityUID{cedar.NewEntityUID(typeTool, cedar.String(id)), cedar.NewEntityUID(typeServer, cedar.String(server))},
	}
}

// nameless is the name of an action and of a member of the context that no policy
// can write. The action stands for any tool, the member for any condition.
const nameless = "\x00"

var (
	toolGroups = []cedar.EntityUID{actionTools, actionCall}
	callGroups = []cedar.EntityUID{actionCall}

	// anyTool is the type of the calls of a tool of which nothing is known.
	anyTool = &callType{name: "a tool", action: actionOf(nameless), principal: typeAgent, resource: typeTool, groups: toolGroups}

	// methodCalls are the types of all calls of known methods but tools/call.
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
				// A call about a task has none of the arguments that the tool was called
				// with. A policy over the tool that reads them refuses it when it is made.
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

// resourcesOf lists what a call of a method can be about, as subject.setAct reads it.
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

// names reports whether a scope is open, or names one of the entities.
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

// entityTypesOf are the types of the principal and the resource of a call.
type entityTypesOf struct{ principal, resource cedar.EntityType }

// typesCovered returns those that the scope of p covers, of those that there are.
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

// schema is a Cedar schema of the calls of type c. The actions that p names are in
// it, and only that of c has calls.
func (p *policy) schema(c *callType, context resolved.RecordType) *resolved.Schema {
	actions := map[types.EntityUID]resolved.Action{
		actionCall:  {Entity: types.Entity{UID: actionCall}},
		actionTools: {Entity: types.Entity{UID: actionTools, Parents: inCall}},
	}
	for _, uid := range append(scopeEntities(p.scope.Action), p.reading.actions...) {
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

// faults returns what Cedar's validator reports of a policy, each message once.
func faults(s *resolved.Schema, p *ast.Policy) (messages []string) {
	defer func() {
		// The validator is young. A policy at which it panics is not relied on.
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
	return messages
}

// when is a forbid under a condition, over the calls of type c.
func (c *callType) when(condition ast.IsNode) *ast.Policy {
	return &ast.Policy{
		Effect: ast.EffectForbid, Principal: ast.ScopeTypeAll{}, Action: ast.ScopeTypeEq{Entity: c.action}, Resource: ast.ScopeTypeAll{},
		Conditions: []ast.ConditionType{{Condition: ast.ConditionWhen, Body: condition}},
	}
}

// check returns what is wrong with the conditions of p in calls of type c.
func (p *policy) check(c *callType) []finding {
	if p.reading.body == nil {
		return nil
	}
	context, unknown := c.context(&p.reading, textType, false)
	key := c.signature(&p.reading, context, unknown)
	if _, ok := p.clean.Load(key); ok {
		return nil
	}
	schema, n := p.schema(c, context), 0
	body := mapConditions(p.reading.body, func(condition ast.IsNode) ast.IsNode {
		of := readBy(condition, unknown)
		if n++; len(of) == 0 || len(of) == 1 && n <= maxConditions && !hasRecord(condition) && !p.fits(c, condition) {
			return condition
		}
		return present(condition)
	})
	var found []finding
	for _, fault := range faults(schema, c.when(body)) {
		f := p.finding(c, fault)
		if f.place == p.place {
			p.quote(c, &f, fault)
		}
		if !slices.Contains(found, f) {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		p.clean.Store(key, nil)
	}
	return found
}

// signature tells call types apart that can have other faults.
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

// maxConditions is how many conditions of a policy are checked by themselves.
const maxConditions = 128

// fits reports whether a condition that reads a value of unknown type can be
// evaluated with any type that the value can have, by itself.
func (p *policy) fits(c *callType, condition ast.IsNode) bool {
	return slices.ContainsFunc(unknownTypes, func(t resolved.IsType) bool {
		context, _ := c.context(&p.reading, t, true)
		return len(faults(p.schema(c, context), c.when(condition))) == 0
	})
}

// readBy lists those of the unknown values that a condition reads.
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

// hasRecord reports whether an expression holds a record or a set of sets: types
// that are not tried.
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

// present is what is left to check of a condition that reads values of unknown
// type: that they are present, unless the condition itself tests which are.
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

// mapConditions replaces the conditions that n is put together from by &&, ||, !
// and if with what f returns for them.
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

// finding is something that is wrong with a policy in some calls.
type finding struct {
	place config.Place
	how   how
	text  string
	hint  string
}

// how says how the text of a finding is put together with the calls that it is of.
type how uint8

const (
	alone  how = iota // they are not named
	clause            // they are the subject
	ofCall            // they come first
)

// message is the text of a finding. about names the calls that it is of.
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

// finding explains a fault, and finds its place in the text where it names a member.
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
		f.hint = "decimals are compared as in `context.arguments.amount.lessThan(decimal(\"1.5\"))`"
	}
	return f
}

// quote adds to a finding the condition that is at fault, and its place if it stands
// in the file as Cedar writes it.
func (p *policy) quote(c *callType, f *finding, fault string) {
	context, _ := c.context(&p.reading, textType, true) // what it tests for stands in other conditions
	schema, n := p.schema(c, context), 0
	mapConditions(p.reading.body, func(condition ast.IsNode) ast.IsNode {
		if n++; n > maxConditions || !slices.Contains(faults(schema, c.when(condition)), fault) {
			return condition
		}
		n = maxConditions
		text := cedarText(condition)
		f.text += fmt.Sprintf(" in `%s`", text)
		start := min(p.cedar.Position().Offset, len(p.text))
		if i := bytes.Index(p.text[start:], []byte(text)); i >= 0 {
			f.place = placeAt(p.place.File, p.text, start+i)
		}
		return condition
	})
}

// cedarText writes an expression as Cedar does.
func cedarText(n ast.IsNode) string {
	p := cedar.NewPolicyFromAST((*cedarast.Policy)(&ast.Policy{
		Effect: ast.EffectPermit, Principal: ast.ScopeTypeAll{}, Action: ast.ScopeTypeAll{}, Resource: ast.ScopeTypeAll{},
		Conditions: []ast.ConditionType{{Condition: ast.ConditionWhen, Body: n}},
	}))
	_, text, _ := strings.Cut(string(p.MarshalCedar()), "when { ")
	return strings.TrimSuffix(text, " };")
}

// find returns the place where the policy first names the last member of r, or that
// of the policy. Cedar's parser does not tell where an expression stands.
func (p *policy) find(r ref) config.Place {
	before := `\.\s*`
	if r.has {
		before = `(?:\.|\bhas)\s*`
	}
	return p.findWord(before+`(`+regexp.QuoteMeta(r.path[len(r.path)-1])+`)\b`, r.path[len(r.path)-1])
}

// findWord returns the place of the first match of pattern, which has one group, or
// of text as a string, outside of comments and other strings.
func (p *policy) findWord(pattern, text string) config.Place {
	start := min(p.cedar.Position().Offset, len(p.text))
	words := regexp.MustCompile(`//[^\n]*|"(?:[^"\\]|\\.)*"|;|` + pattern)
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

// noMember says that there is no such member, and which may be meant.
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

// lacks reports whether no member at a path has that name.
func (c *callType) lacks(root string, path []string, name string) bool {
	return len(path) > 0 && path[0] == "lists" || !slices.Contains(c.members(root, path), name)
}

// members lists the names of the members at a path from a variable.
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

func words[T ~string](names []T) []string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = string(n)
	}
	return all
}

// meant is a hint at which of the known names may be meant.
func meant(name string, known []string) string {
	if near := config.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) > 0 && len(known) <= 12 {
		return "there are " + strings.Join(known, ", ")
	}
	return ""
}

// unguarded says that a member may be absent, and how to test for it.
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

// identifier is a name as it is written behind has.
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

// plain is a fault without the names of the validator's own types.
func plain(fault string) string {
	if m := unexpected.FindStringSubmatch(fault); m != nil {
		fault = fmt.Sprintf("expected %s, found %s", m[1], m[2])
	}
	return plainer.Replace(fault)
}
