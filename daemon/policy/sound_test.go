package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// The members of random tools, with their schemas.
var drawnSchemas = []string{
	`{"type":"string"}`, `{"type":"integer"}`, `{"type":"number"}`, `{"type":"boolean"}`, `{"type":"array","items":{"type":"string"}}`,
	`{"type":"array","items":{"type":"number"}}`, `{}`, `{"type":["string","null"]}`,
	`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"]}`,
}

func drawSchema(t *rapid.T) string {
	var members, required []string
	for _, name := range []string{"a", "b", "c"} {
		switch rapid.IntRange(0, 3).Draw(t, "member") {
		case 0:
			continue
		case 1:
			required = append(required, fmt.Sprintf("%q", name))
		}
		members = append(members, fmt.Sprintf("%q:%s", name, oneOf(t, "schema", drawnSchemas...)))
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s]}`, strings.Join(members, ","), strings.Join(required, ","))
}

// drawCondition draws a condition over the members a, b and c, which may be present or not and
// have any type. It omits arithmetic, which can overflow whatever the types are.
func drawCondition(t *rapid.T, depth int) string {
	at := "context.arguments." + oneOf(t, "member", "a", "b", "c")
	if rapid.IntRange(0, 5).Draw(t, "deeper") == 0 {
		at += "." + oneOf(t, "member", "a", "b")
	}
	has := strings.Replace(at, "arguments.", "arguments has ", 1)
	n := 11
	if depth > 2 {
		n = 8
	}
	switch rapid.IntRange(0, n).Draw(t, "condition") {
	case 0:
		return at + " " + oneOf(t, "operator", "<", "<=", ">", ">=", "==", "!=") + " " + oneOf(t, "number", "1", "-5", "7")
	case 1:
		return at + ` like "x*"`
	case 2:
		return at + "." + oneOf(t, "method", "lessThan", "greaterThan") + `(decimal("1.5"))`
	case 3:
		return at + "." + oneOf(t, "method", `contains("x")`, `contains(decimal("2.0"))`, "isEmpty()", `containsAny(["x", "y"])`)
	case 4:
		return at
	case 5:
		return at + " == " + "context.arguments." + oneOf(t, "member", "a", "b", "c")
	case 6:
		return has
	case 7:
		return has + " && " + at + " == " + oneOf(t, "literal", "1", `"x"`, "true", `decimal("1.5")`)
	case 8:
		return fmt.Sprintf("context.lists has a && context.lists.a like %q", "[1*")
	case 9:
		return "(" + drawCondition(t, depth+1) + ") && (" + drawCondition(t, depth+1) + ")"
	case 10:
		return "(" + drawCondition(t, depth+1) + ") || (" + drawCondition(t, depth+1) + ")"
	}
	return "!(" + drawCondition(t, depth+1) + ")"
}

// drawArguments draws arguments that may fit a schema or not.
func drawArguments(t *rapid.T) string {
	var members []string
	for _, name := range []string{"a", "b", "c"} {
		value := oneOf(t, "value", "", `"x"`, `"1"`, "1", "7", "2.0", "2.5", "0.123456", "true", `["x"]`, "[1,2.5]", "[]", `{"a":1,"b":"x"}`, `{"a":"x"}`, "null", `{}`)
		if value != "" {
			members = append(members, fmt.Sprintf("%q:%s", name, value))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

// A checked policy does not fail: if it fits a tool, it can be evaluated on every call whose
// arguments fit the tool. (This does not cover members that the server does not declare.)
func TestCheckedPoliciesCanBeEvaluated(t *testing.T) {
	passed := 0
	rapid.Check(t, func(rt *rapid.T) {
		schema := drawSchema(rt)
		takes, err := shape.Read([]byte(schema))
		if err != nil {
			rt.Fatal(err)
		}
		tools := &listed{listings: []shape.Listing{{Server: "bank", Tools: []*shape.Tool{{Server: "bank", Name: "pay", Takes: takes}}}}}
		text := fmt.Sprintf("%s (principal, %s, resource) when { %s };\n", oneOf(rt, "effect", "permit", "forbid"),
			oneOf(rt, "action", `action == ThoughtGate::Action::"bank/pay"`, `action in ThoughtGate::Action::"tools/call"`), drawCondition(rt, 0))
		s, ok := drawnLoad(rt, text, tools)
		if !ok {
			return
		}
		passed++
		arguments := drawArguments(rt)
		r, err := s.Rule(context.Background(), toolCall(t, "bank", "pay", arguments), nil)
		if err != nil && !strings.Contains(err.Error(), "does not fit the tool's input schema") && !strings.Contains(schema, "{}") && !undeclared(takes, arguments) {
			rt.Fatalf("%s\n%s%s\ngot %s", schema, text, arguments, inShort(r, err))
		}
	})
	t.Logf("%d policies passed", passed)
	if passed == 0 {
		t.Error("no policy passed: this tests nothing")
	}
}

// drawnLoad loads one policy against tools. It returns false if the policy is rejected.
func drawnLoad(t *rapid.T, text string, tools Tools) (*Set, bool) {
	cfg, ds := config.Parse("/nowhere/thoughtgate.yaml", []byte("schema: 1\n"), func(string) string { return "" })
	if cfg == nil {
		t.Fatal(ds)
	}
	s := newSet(cfg)
	s.known, s.tools = known, tools
	l := &loader{Set: s}
	s.policies = l.parsePolicies("/nowhere/p.cedar", []byte(text))
	s.byID = map[string]*policy{}
	for _, p := range s.policies {
		s.byID[p.id] = p
	}
	s.index = newIndex(s.policies)
	s.digest = "a digest"
	l.compileRules()
	l.checkGenerated()
	return s, !config.HasErrors(l.found)
}

// undeclared reports whether arguments has members that are not declared.
func undeclared(s *shape.Shape, arguments string) bool {
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(arguments), &m); err != nil {
		panic(err)
	}
	for name, raw := range m {
		member, ok := s.Member(name)
		if !ok || member.Shape.Kind == shape.Object && raw[0] == '{' && undeclared(member.Shape, string(raw)) {
			return true
		}
	}
	return false
}
