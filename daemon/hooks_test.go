package daemon_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/approval"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// A person's edited arguments are shown to extensions before they are forwarded, also if the
// approval waited for the call to be repeated.
func TestEditedYesIsShownToExtensions(t *testing.T) {
	for _, test := range []struct {
		said gate.Hooked // about the edited arguments
		move gate.Move
		told string
	}{
		{gate.Hooked{Move: gate.Forward}, gate.Forward, "A person changed the arguments"},
		{gate.Hooked{Move: gate.Deny, By: []string{"guard"}, Reason: "not that"}, gate.Deny, "not that"},
	} {
		w, err := newWorld(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		goesOn := gate.Hooked{Move: gate.Forward}
		w.hooks = []gate.Hooked{goesOn}
		w.shim.Patience = time.Millisecond
		a, verdicts := w.attach(nil)
		w.submit(a, 1)
		v := <-verdicts
		if v.Move == gate.Ask {
			v = <-verdicts
		}
		if v.Move != gate.Deny || v.Approval != "A-1" {
			t.Fatalf("not parked: %v %s", v.Move, v.Reason)
		}
		asked, err := w.q.Get(context.Background(), "A-1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.q.Decide(context.Background(), approval.Decision{
			ID: "A-1", Subject: asked.Subject[:], Approve: true, Decider: "uid 1", Surface: "terminal", Edit: []byte(`{"name":"plan","text":"later"}`),
		}); err != nil {
			t.Fatal(err)
		}
		w.onHook = func(c *gate.Call) gate.Hooked {
			if strings.Contains(string(c.Arguments()), "later") {
				return test.said
			}
			return goesOn
		}
		a.Close(true)
		w.shim.Attachment, w.shim.Patience = "second", time.Hour
		a, verdicts = w.attach(nil)
		w.submit(a, 1)
		if v = <-verdicts; v.Move == gate.Ask {
			v = <-verdicts
		}
		if v.Move != test.move || !strings.Contains(v.Notice+v.Reason, test.told) || v.Move == gate.Forward && !strings.Contains(string(v.Line), "later") {
			t.Errorf("%v %s, %s %s", v.Move, v.Line, v.Reason, v.Notice)
		}
		a.Close(true)
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}
}
