package fleet

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/fleet"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// shown returns an app, and what it shows.
func shown() (*app, *bytes.Buffer) {
	var out bytes.Buffer
	return &app{&connect.App{App: &ui.App{Out: &out, Err: &out, Getenv: func(string) string { return "" }, Now: func() time.Time { return now }}}}, &out
}

// Who joins a fleet without an engine is told what that means, and sees later how it is.
func TestWithoutEngineIsShown(t *testing.T) {
	const policy, otlp = "https://policy.example/acme/", "https://logs.example/v1/logs"
	for to, want := range map[string][]string{
		"":   {"nothing leaves this machine"},
		otlp: {"never the values of a call, to " + otlp},
	} {
		a, out := shown()
		if err := a.showToken(&fleet.Token{Fleet: "acme", Group: "dev", Policy: policy, OTLP: to, Mode: fleet.ModeFloor, Role: fleet.RoleDevice}, false); err != nil {
			t.Fatal(err)
		}
		for _, want := range append(want, "policy from", policy, "cannot answer for you", "any number of machines") {
			if !strings.Contains(out.String(), want) {
				t.Errorf("to %q: no %q in\n%s", to, want, out)
			}
		}
	}
	for _, c := range []struct {
		otlp    string
		courier CourierState
		want    []string
	}{
		{"", CourierState{Running: true, Connected: true, Since: now.Add(-time.Minute)}, []string{policy + ", read 1 min ago", "nothing leaves"}},
		{otlp, CourierState{Running: true, Connected: true, Since: now, SentSeq: 3, LastError: "send records: 400"}, []string{"failing", "send records: 400", "4 records not sent yet, to " + otlp}},
		{otlp, CourierState{Running: true, LastError: "no route"}, []string{"not read: no route"}},
	} {
		a, out := shown()
		if err := a.PrintSheet(a.sheet(&pb.FleetState{Device: "U", Fleet: "acme", Group: "dev", Policy: policy, Otlp: c.otlp, LogSeq: 7}, c.courier)); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
}
