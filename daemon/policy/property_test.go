package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Random policies and calls use these few names, so that they match often.
var (
	servers = []string{"a", "b", "a/x"}
	tools   = []string{"read", "write", "x"}
)

func oneOf(t *rapid.T, label string, words ...string) string {
	return rapid.SampledFrom(words).Draw(t, label)
}

func entity(kind, id string) string { return fmt.Sprintf("ThoughtGate::%s::%q", kind, id) }

func drawTool(t *rapid.T) string {
	return qualified(oneOf(t, "server", servers...), oneOf(t, "tool", tools...))
}

func drawAction(t *rapid.T) string {
	return entity("Action", oneOf(t, "action", drawTool(t), "tools/call", "call", "resources/read", "sampling/createMessage"))
}

// drawActions draws a set of actions. It may be empty, and may have groups and duplicates.
func drawActions(t *rapid.T) string {
	return "[" + strings.Join(rapid.SliceOfN(rapid.Custom(drawAction), 0, 4).Draw(t, "actions"), ", ") + "]"
}

func drawResource(t *rapid.T) string {
	return oneOf(t, "resource", entity("Tool", drawTool(t)), entity("Server", oneOf(t, "server", servers...)),
		entity("Resource", "a/file:///etc/x"), entity("Agent", "claude-code"), entity("User", "ann"), entity("Session", "s1"))
}

func drawType(t *rapid.T) string {
	return "ThoughtGate::" + oneOf(t, "type", "Agent", "Server", "Tool", "Resource", "Session", "User")
}

// drawPolicy draws the text of a policy with any kind of scope, and with conditions that hold, do
// not hold or fail.
func drawPolicy(t *rapid.T) string {
	principal := oneOf(t, "principal scope", "principal", "principal", "principal is "+drawType(t),
		"principal == "+entity("Agent", "claude-code"), "principal in "+drawResource(t), "principal == "+entity("Server", "a"),
		"principal is "+drawType(t)+" in "+drawResource(t))
	action := oneOf(t, "action scope", "action", "action == "+drawAction(t), "action in "+drawAction(t), "action in "+drawActions(t))
	resource := oneOf(t, "resource scope", "resource", "resource == "+drawResource(t), "resource in "+drawResource(t),
		"resource is "+drawType(t), "resource is "+drawType(t)+" in "+drawResource(t))
	condition := oneOf(t, "condition", "", "", "when { context.arguments has n }", "unless { context.arguments has n }",
		"when { context.arguments.n > 1 }", "when { [context].contains(context) && context has time }",
		"when { context.time.hour == 12 && context.session.calls == 7 }", "when { context.nosuch == 1 }", `when { resource.server == "a" }`, "when { false }",
		"when { action in "+drawActions(t)+" }", "when { resource in ["+drawResource(t)+", "+drawResource(t)+"] }",
		"when { principal is "+drawType(t)+" }", "unless { resource is "+drawType(t)+" in "+drawResource(t)+" }", `when { principal.sha256 == "abc" }`)
	return fmt.Sprintf("%s (%s, %s, %s) %s;\n", oneOf(t, "effect", "permit", "permit", "forbid"), principal, action, resource, condition)
}

func drawPolicies(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.Custom(drawPolicy), 0, 12).Draw(t, "policies"), "")
}

func drawCall(t *rapid.T, tb testing.TB) *gate.Call {
	server := oneOf(t, "server", servers...)
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return fromAgent(tb, server, "resources/read", fmt.Sprintf(`{"uri":%q}`, oneOf(t, "uri", "file:///etc/x", "file:///etc/../etc/x", "memo:x")))
	case 1:
		return fromServer(tb, server, "sampling/createMessage", `{"messages":[],"maxTokens":1,"n":2}`)
	}
	return toolCall(tb, server, oneOf(t, "tool", tools...), oneOf(t, "arguments", `{}`, `{"n":2}`, `{"n":0}`, `{"n":"x"}`))
}

// The index must give Cedar every policy that could matter.
func TestIndexIsPlainAuthorize(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := drawPolicies(rt)
		list, err := cedar.NewPolicyListFromBytes("t", []byte(text))
		if err != nil {
			rt.Fatalf("%s: %v", text, err)
		}
		all := cedar.PolicyMap{}
		var policies []*policy
		for i, c := range list {
			p := newPolicy(c)
			p.id, p.order = fmt.Sprint("p", i), i
			policies = append(policies, p)
			all[cedar.PolicyID(p.id)] = c
		}
		ix := newIndex(policies)
		c := drawCall(rt, t)
		sub, err := subjectOf(c)
		if err != nil {
			rt.Fatal(err)
		}
		k := known(c)
		for _, name := range sub.names {
			w, err := newCedarCall(sub, name, c, &k)
			if err != nil {
				rt.Fatal(err)
			}
			w.used = useAll | useHash
			request := func(policies candidates) cedar.Request {
				context, err := newContext(sub, c, &k, nil, "", policies, nil)
				if err != nil {
					rt.Fatal(err)
				}
				return cedar.Request{Principal: w.principal, Action: w.action, Resource: w.resource, Context: context}
			}
			wantDecision, want := cedar.Authorize(all, w, request(candidates{{policies: policies, uses: useAll, whole: true}}))
			found := ix.candidates(w.actions(), w.resources())
			gotDecision, got := cedar.Authorize(found, w, request(found))
			if gotDecision != wantDecision || !slices.Equal(reasonIDs(got), reasonIDs(want)) || !slices.Equal(errorIDs(got), errorIDs(want)) {
				rt.Fatalf("policies:\n%s\ncall: %s on %s\ngot  %v %v\nwant %v %v", text, c.Line, c.Server, gotDecision, got, wantDecision, want)
			}
		}
	})
}

func reasonIDs(d cedar.Diagnostic) []string {
	var ids []string
	for _, r := range d.Reasons {
		ids = append(ids, string(r.PolicyID))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func errorIDs(d cedar.Diagnostic) []string {
	var ids []string
	for _, e := range d.Errors {
		ids = append(ids, string(e.PolicyID))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

const drawnYAML = `schema: 1
governance:
  defaults: {action: forward, asks: policy}
  rules:
    - {match: write, action: policy}
    - {match: x, source: a, action: approve}
    - {match: x, source: b, action: deny}
    - {when: secret, action: approve}
`

// drawnSet builds a set without files.
func drawnSet(t *rapid.T, text string) *Set {
	cfg, ds := config.Parse("/nowhere/thoughtgate.yaml", []byte(drawnYAML), func(string) string { return "" })
	if cfg == nil {
		t.Fatal(ds)
	}
	s, ds := Load(cfg, WithKnown(known))
	if s == nil {
		t.Fatal(ds)
	}
	list, err := cedar.NewPolicyListFromBytes("t", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s.policies, s.byID = nil, map[string]*policy{}
	for i, c := range list {
		p := newPolicy(c)
		p.id, p.order = fmt.Sprint("p", i), i
		s.policies = append(s.policies, p)
		s.byID[p.id] = p
	}
	s.index = newIndex(s.policies)
	return s
}

// refused returns the strictness of an outcome, where an error counts as a denial, as it does for
// the caller.
func refused(r gate.Ruling, err error) int {
	if err != nil {
		return 2
	}
	return strictness(&r)
}

// No failure may open the gate: adding a policy that fails wherever it applies never loosens a
// verdict.
func TestErrorsNeverLoosen(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := drawPolicies(rt)
		scope := oneOf(rt, "scope", "action", "action in "+drawAction(rt))
		failing := oneOf(rt, "effect", "permit", "forbid") + " (principal, " + scope + ", resource) when { context.nothing.here == 1 };\n"
		c := drawCall(rt, t)
		facts := []gate.Fact{{Name: oneOf(rt, "fact", "secret", "sends")}}
		before, beforeErr := drawnSet(rt, text).Rule(context.Background(), c, facts)
		after, afterErr := drawnSet(rt, text+failing).Rule(context.Background(), c, facts)
		least := refused(before, beforeErr)
		if scope == "action" {
			least = 2 // it applies to every call
		}
		if refused(after, afterErr) < least {
			rt.Fatalf("policies:\n%s%scall: %s\nbefore %s\nafter  %s", text, failing, c.Line, inShort(before, beforeErr), inShort(after, afterErr))
		}
	})
}

// A forbid can only tighten, and a rule that denies cannot be overridden.
func TestPoliciesOnlyTighten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := drawPolicies(rt)
		c := drawCall(rt, t)
		none, noneErr := drawnSet(rt, "").Rule(context.Background(), c, nil)
		with, withErr := drawnSet(rt, text).Rule(context.Background(), c, nil)
		needsPermit := none.Gate == "permit"
		if !needsPermit && refused(with, withErr) < refused(none, noneErr) {
			rt.Fatalf("policies:\n%scall: %s\nwithout %s\nwith    %s", text, c.Line, inShort(none, noneErr), inShort(with, withErr))
		}
		forbid := "forbid (principal, action, resource);\n"
		if r, err := drawnSet(rt, text+forbid).Rule(context.Background(), c, nil); refused(r, err) != 2 {
			rt.Fatalf("policies:\n%s%scall: %s\ngot %s, want a refusal", text, forbid, c.Line, inShort(r, err))
		}
	})
}
