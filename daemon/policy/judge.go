package policy

import (
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
)

// Whether a policy can be evaluated is judged by Cedar's own validator, strictly.
// It knows no type for what may be anything, and JSON Schemas are full of that;
// so for such a place each type that a value can have is tried. A policy that
// fits none of them can't be evaluated whatever comes.

// neutral is a member of the context that no policy can name, since it is no
// name. It stands for a condition of which nothing is known.
const neutral = "\x00"

// trial is one policy in one situation.
type trial struct {
	reading   *reading
	situation *situation
	guess     guess
	tooMany   bool // things of which nothing is known, to guess at them
}

// context is the type of the context, as far as the policy looks at it, and the
// paths in it of which nothing is known.
func (t *trial) context() (resolved.RecordType, []string) {
	seen := &t.reading.context
	ty := typing{guess: t.guess, sure: t.situation.sure}
	r := resolved.RecordType{neutral: resolved.Attribute{Type: boolType}}
	for name, a := range contextShape {
		if seen.whole || seen.at(string(name)) != nil {
			r[name] = a
		}
	}
	if seen.whole || seen.at("arguments") != nil {
		r["arguments"] = resolved.Attribute{Type: ty.arguments(t.situation.takes, seen.at("arguments"))}
	}
	if seen.whole || seen.at("lists") != nil {
		r["lists"] = resolved.Attribute{Type: ty.lists(t.situation.takes, seen.at("lists"))}
	}
	if seen.whole || seen.at("inputResponses") != nil {
		ty.sure = false // whoever made the first call has nothing to answer yet
		r["inputResponses"] = resolved.Attribute{Type: ty.object(openShape, seen.at("inputResponses"), "inputResponses")}
	}
	if seen.whole || seen.at("params") != nil {
		ty.sure = false // who calls need not say anything beside the arguments
		r["params"] = resolved.Attribute{Type: ty.object(openShape, seen.at("params"), "params")}
	}
	return r, ty.unknown
}

// signature tells trials apart that can end differently.
func (t *trial) signature() string {
	context, unknown := t.context()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s ", t.situation.principal, t.situation.resource)
	if t.reading.action {
		fmt.Fprintf(&b, "%s ", t.situation.action)
	}
	signature(&b, context)
	fmt.Fprintf(&b, " %q %v", unknown, t.situation.sure)
	return b.String()
}

// schema is a Cedar schema of the one situation. Actions that the policy names
// are in it, but apply to nothing.
func (t *trial) schema() *resolved.Schema {
	context, _ := t.context()
	actions := map[types.EntityUID]resolved.Action{
		actionCall:  {Entity: types.Entity{UID: actionCall}},
		actionTools: {Entity: types.Entity{UID: actionTools, Parents: inCall}},
	}
	for _, uid := range t.reading.actions {
		if _, ok := actions[uid]; !ok {
			parents := inTools
			if isMethod(string(uid.ID)) {
				parents = inCall
			}
			actions[uid] = resolved.Action{Entity: types.Entity{UID: uid, Parents: parents}}
		}
	}
	actions[t.situation.action] = resolved.Action{
		Entity: types.Entity{UID: t.situation.action, Parents: t.situation.parents()},
		AppliesTo: &resolved.AppliesTo{
			Principals: []types.EntityType{t.situation.principal}, Resources: []types.EntityType{t.situation.resource}, Context: context,
		},
	}
	return &resolved.Schema{Entities: entityShapes, Actions: actions}
}

// judge returns what Cedar's validator has against body as the condition of a
// policy in this situation.
func (t *trial) judge(body ast.IsNode) (faults []string) {
	defer func() {
		// The validator is young, and a policy that it stumbles over is none that
		// can be relied on.
		if p := recover(); p != nil {
			faults = []string{fmt.Sprintf("it can't be checked: panic: %v", p)}
		}
	}()
	p := ast.Policy{
		Effect: ast.EffectForbid, Principal: ast.ScopeTypeAll{}, Action: ast.ScopeTypeEq{Entity: t.situation.action}, Resource: ast.ScopeTypeAll{},
		Conditions: []ast.ConditionType{{Condition: ast.ConditionWhen, Body: body}},
	}
	return messages(validate.New(t.schema(), validate.WithStrict()).Policy("", &p))
}

// messages takes a joined error apart.
func messages(err error) []string {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{err.Error()}
	}
	var all []string
	for _, e := range joined.Unwrap() {
		all = append(all, messages(e)...)
	}
	return all
}

// maxConditions is how many elementary conditions are tried one by one when a
// policy is at fault. Of a larger one it is told that it is, and not where.
const maxConditions = 128

// blamed is an elementary condition, and what is wrong with it.
type blamed struct {
	node   ast.IsNode
	before []chain // that the policy looks at before this condition
	faults []string
}

// blame finds the elementary conditions that are at fault: those without which
// the validator has less to say. What it says without any of them, it has
// against the policy as a whole.
func (t *trial) blame(faults []string) (all []blamed, rest []string) {
	rest = faults
	conditions := elementary(t.reading.body)
	if len(conditions) > maxConditions {
		return nil, rest
	}
	var before []chain
	for _, node := range conditions {
		left := t.judge(without(t.reading.body, node.at))
		if gone := missing(faults, left); len(left) < len(faults) {
			all = append(all, blamed{node.node, before, gone})
			rest = missing(rest, gone)
		}
		before = append(before, chains(node.node)...)
	}
	return all, rest
}

// missing lists what of all is not in left, counting doubles.
func missing(all, left []string) []string {
	count := map[string]int{}
	for _, m := range left {
		count[m]++
	}
	var gone []string
	for _, m := range all {
		if count[m]--; count[m] < 0 {
			gone = append(gone, m)
		}
	}
	return gone
}

// condition is an elementary condition, and its number among them.
type condition struct {
	node ast.IsNode
	at   int
}

// elementary lists the conditions that a condition is put together from by &&,
// ||, ! and if, in the order in which they are written.
func elementary(n ast.IsNode) []condition {
	var all []condition
	visit(n, func(n ast.IsNode) ast.IsNode {
		all = append(all, condition{n, len(all)})
		return n
	})
	return all
}

// without is n with the elementary condition at that number made neutral.
func without(n ast.IsNode, at int) ast.IsNode {
	i := -1
	return visit(n, func(n ast.IsNode) ast.IsNode {
		if i++; i != at {
			return n
		}
		return ast.NodeTypeAccess{StrOpNode: ast.StrOpNode{Arg: ast.NodeTypeVariable{Name: "context"}, Value: neutral}}
	})
}

// visit calls f for each elementary condition and puts what it returns together
// again.
func visit(n ast.IsNode, f func(ast.IsNode) ast.IsNode) ast.IsNode {
	switch n := n.(type) {
	case ast.NodeTypeAnd:
		return ast.NodeTypeAnd{BinaryNode: ast.BinaryNode{Left: visit(n.Left, f), Right: visit(n.Right, f)}}
	case ast.NodeTypeOr:
		return ast.NodeTypeOr{BinaryNode: ast.BinaryNode{Left: visit(n.Left, f), Right: visit(n.Right, f)}}
	case ast.NodeTypeNot:
		return ast.NodeTypeNot{UnaryNode: ast.UnaryNode{Arg: visit(n.Arg, f)}}
	case ast.NodeTypeIfThenElse:
		return ast.NodeTypeIfThenElse{If: visit(n.If, f), Then: visit(n.Then, f), Else: visit(n.Else, f)}
	}
	return f(n)
}

// actionsOf are the action and the resource of a tool with all they are in, by
// which the policies are found that may be about it.
func actionsOf(server, tool string) (actions, resources []cedar.EntityUID) {
	id := qualified(server, tool)
	return []cedar.EntityUID{actionOf(id), actionTools, actionCall},
		[]cedar.EntityUID{cedar.NewEntityUID(typeTool, cedar.String(id)), cedar.NewEntityUID(typeServer, cedar.String(server))}
}
