package traces

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// docs/metrics.md lists every attribute that a span can have, and no other.
func TestDocumentedAttributes(t *testing.T) {
	text, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- attributes: begin -->")
	table, _, ok := strings.Cut(rest, "<!-- attributes: end -->")
	if !ok {
		t.Fatal("there is no table of attributes")
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(table, -1) {
		documented[row[1]] = true
	}
	now := time.Now()
	used := map[string]bool{}
	for _, method := range []string{"tools/call", "prompts/get"} {
		trace := &gate.Trace{
			ID: "c", Session: "s", Agent: "a", Server: "s", Method: method, Target: "t", MessageID: "1", Start: now, End: now,
			Verdict: "forward", Gate: "ask", Rule: "r", Policies: []string{"p"}, Extensions: []string{"e"}, Profile: "development", Would: "WOULD_ASK",
			Approval: "A-1", Answer: "approved", Outcome: "tool_error",
			Parts: []gate.Part{{Stage: gate.StageGate, Within: -1}, {Stage: gate.StageCedar}, {Stage: gate.StageAsk, Within: -1}, {Stage: gate.StageHooks, Within: -1}, {Stage: gate.StageServer, Within: -1}},
		}
		for _, span := range newSpanMaker(nil, "test", nil).of(ended{trace, placeOf(trace)}) {
			for _, a := range span.Attributes() {
				used[string(a.Key)] = true
				if !documented[string(a.Key)] {
					t.Errorf("%s has %s, which the page does not know", span.Name(), a.Key)
				}
			}
		}
	}
	for name := range documented {
		if !used[name] {
			t.Errorf("the page has %s, which no span has", name)
		}
	}
}
