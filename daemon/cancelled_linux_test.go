package daemon_test

import (
	"fmt"
	"strings"
	"testing"
)

// If a call is cancelled while it is judged, judging stops: the next call is forwarded at once, the
// server gets neither the call nor the cancellation, and the outcome is recorded.
func TestCancelledWhileItIsJudged(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {defaults: {action: forward}}\n")
	h.start(t)
	a := h.attach(t)
	line := longToJudge(t)
	for range 5 { // on a busy machine the call may be judged first, or time out
		a.send(line)
		a.taken()
		a.takeBack()
		id := fmt.Sprintf(`"message_id":"%d"`, a.id)
		a.expect("forward", "", "read_file")
		var found []string
		for _, r := range h.records(t, "call") {
			if line := string(r.GetLine()); strings.Contains(line, id) {
				found = append(found, line)
			}
		}
		late := func(line string) bool {
			return strings.Contains(line, "it could not be judged within") || strings.Contains(line, `"verdict":"forward"`)
		}
		if len(found) == 1 && late(found[0]) {
			continue
		}
		if len(found) != 1 || !strings.Contains(found[0], `"verdict":"deny"`) || !strings.Contains(found[0], "cancelled before it was judged") {
			t.Errorf("of the call that was taken back is on record: %q", found)
		}
		return
	}
	t.Error("none of five calls was cancelled before it was judged")
}
