package daemon_test

import (
	"strings"
	"testing"
	"time"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// A call that is taken back while it is judged is judged no further: the next one is
// answered at once, and the record says what became of the first.
func TestCancelledWhileItIsJudged(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {defaults: {action: forward}}\n")
	h.start(t)
	a := h.attach(t, false)
	submit(t, a, 1, longToJudge(t))
	if v := word(t, a); v.GetAction() != pb.Action_ACTION_PENDING || v.GetReason() != "it is being judged" {
		t.Skipf("this machine is too fast for it: %v %s", v.GetAction(), v.GetReason())
	}
	begun := time.Now()
	if err := a.Send(&pb.Up{Msg: &pb.Up_Cancel{Cancel: &pb.Cancel{Seq: 1}}}); err != nil {
		t.Fatal(err)
	}
	submit(t, a, 2, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_file","arguments":{}}}`)
	if v := word(t, a); v.GetSeq() != 2 || v.GetAction() != pb.Action_ACTION_FORWARD {
		t.Errorf("the next word is %v on line %d after %v, want forward on line 2", v.GetAction(), v.GetSeq(), time.Since(begun))
	}
	var first []string
	for r, err := range h.control(t).ReadAudit(t.Context(), &pb.AuditQuery{Kind: "call"}) {
		if err != nil {
			t.Fatal(err)
		}
		if line := string(r.GetLine()); strings.Contains(line, `"message_id":"1"`) {
			first = append(first, line)
		}
	}
	if len(first) != 1 || !strings.Contains(first[0], `"verdict":"deny"`) || !strings.Contains(first[0], "cancelled before it was judged") {
		t.Errorf("of the first call is on record: %q", first)
	}
}
