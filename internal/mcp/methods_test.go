package mcp

import (
	"slices"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

func TestMethods(t *testing.T) {
	for side, want := range map[wire.Side][]string{
		wire.FromAgent:  {"tools/call", "resources/read", "subscriptions/listen", "notifications/cancelled", "ping"},
		wire.FromServer: {"sampling/createMessage", "roots/list", "notifications/message", "ping"},
	} {
		got := Methods(side)
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("side %v: %q is not in order, each once", side, got)
		}
		for _, method := range want {
			if !slices.Contains(got, method) {
				t.Errorf("side %v: %s is not among %q", side, method, got)
			}
		}
		if slices.Contains(got, "acme/go") {
			t.Error("acme/go is known")
		}
	}
	for method, want := range map[string]Subject{
		"tools/call": Tool, "resources/read": Resource, "resources/subscribe": Resource, "subscriptions/listen": Listen,
		"prompts/get": Prompt, "completion/complete": Reference, "tasks/update": Task, "tools/list": None, "sampling/createMessage": None, "acme/go": None,
	} {
		if got := SubjectKind(method); got != want {
			t.Errorf("%s: got %v, want %v", method, got, want)
		}
	}
}
