package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
)

// NFR-002: a verdict is logged with these fields, at a level that says whether it matters. The
// arguments are never logged.
func TestVerdictsAreTold(t *testing.T) {
	deny := Ruling{Move: Deny, Gate: "rule", Code: mcp.CodeRule, Reason: "nothing is deleted"}
	for _, test := range []struct {
		ruling  Ruling
		profile Profile
		want    string // a regular expression
	}{
		{Ruling{Move: Forward, Gate: "rule"}, Production, `^level=DEBUG msg=forwarded server_id=files direction=agent_to_server method=tools/call tool=delete message_id=req-42 governance_decision=forward profile=production latency_us=\d+ gate=rule call=c-\S+\n$`},
		{deny, Production, `^level=INFO msg="not forwarded" server_id=files direction=agent_to_server method=tools/call tool=delete message_id=req-42 governance_decision=deny profile=production latency_us=\d+ policy_reason="nothing is deleted" gate=rule call=c-\S+\n$`},
		{Ruling{Move: Ask, Gate: "rule", Reason: "hm", Workflow: "ops"}, Production, `^level=INFO msg="held for a person" .* governance_decision=hold .* approval=A-1\n$`},
		{deny, Development, `^level=WARN msg="forwarded in the development profile" .* governance_decision=WOULD_BLOCK profile=development .* policy_reason="nothing is deleted" .* forwarded=true\n$`},
	} {
		var log bytes.Buffer
		h := newFixture()
		h.profile, h.ruling = test.profile, test.ruling
		h.gate.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		_, a := submitTo(h, shimX, `{"jsonrpc":"2.0","id":"req-42","method":"tools/call","params":{"name":"delete","arguments":{"path":"plans"}}}`)
		a.Close(true)
		if !regexp.MustCompile(test.want).MatchString(log.String()) || strings.Contains(log.String(), "plans") {
			t.Errorf("logged %s, want %s", log.String(), test.want)
		}
	}
}

// An agent with many denials does not fill the log, and the number of omitted lines is logged.
func TestToldVerdictsAreBounded(t *testing.T) {
	var log bytes.Buffer
	h := newFixture()
	h.ruling = Ruling{Move: Deny, Gate: "rule", Code: mcp.CodeRule, Reason: "no"}
	h.gate.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	a := h.gate.Attach(context.Background(), shimX, nil)
	defer a.Close(true)
	for i := range 3*notesInARow + 1 {
		if i == 3*notesInARow {
			a.spoken.since = a.spoken.since.Add(-2 * notesRefill)
		}
		a.Submit(Submission{Seq: uint64(i + 1), Line: []byte(aCall)})
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	var last map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != notesInARow+1 || last["left_out"] != float64(2*notesInARow) {
		t.Errorf("%d lines, the last one %v %v; want %d and %d left out", len(lines), last, err, notesInARow+1, 2*notesInARow)
	}
}
