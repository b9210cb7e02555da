package daemon_test

import (
	"fmt"
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
	long := longToJudge(t)
	for range 5 { // on a machine that is busy it may have taken too long before it is taken back
		a.send(long)
		a.taken()
		a.takeBack()
		id := fmt.Sprintf(`"message_id":"%d"`, a.id)
		a.expect("forward", "", "read_file")
		var of []string
		for _, r := range h.records(t, "call") {
			if line := string(r.GetLine()); strings.Contains(line, id) {
				of = append(of, line)
			}
		}
		switch {
		case len(of) != 1 || !strings.Contains(of[0], `"verdict":"deny"`):
			t.Fatalf("of the call is on record: %q", of)
		case strings.Contains(of[0], "cancelled before it was judged"):
			return
		case !strings.Contains(of[0], "could not be judged within"):
			t.Fatalf("on record is %s", of[0])
		}
	}
	t.Error("each call was judged for as long as a call may be")
}
