package daemon_test

import (
	"strings"
	"testing"
)

// A call that is taken back while it is judged is judged no further: the next one goes on
// at once, the server hears of neither the first nor that it was taken back, and the
// record says what became of it.
func TestCancelledWhileItIsJudged(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {defaults: {action: forward}}\n")
	h.start(t)
	a := h.attach(t)
	a.send(longToJudge(t))
	a.taken()
	a.takeBack()
	a.expect("forward", "", "read_file")
	var first []string
	for _, r := range h.records(t, "call") {
		if line := string(r.GetLine()); strings.Contains(line, `"message_id":"1"`) {
			first = append(first, line)
		}
	}
	if len(first) != 1 || !strings.Contains(first[0], `"verdict":"deny"`) || !strings.Contains(first[0], "cancelled before it was judged") {
		t.Errorf("of the first call is on record: %q", first)
	}
}
