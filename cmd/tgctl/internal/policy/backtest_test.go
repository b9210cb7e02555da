package policy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// aBacktest returns every kind of event of a backtest.
func aBacktest() []*pb.BacktestEvent {
	return []*pb.BacktestEvent{
		{Event: &pb.BacktestEvent_Set{Set: &pb.BacktestSet{Set: consoletest.InForce(), Warnings: []*pb.Diagnostic{{Severity: pb.Severity_SEVERITY_WARNING, Message: "a warning"}}}}},
		{Event: &pb.BacktestEvent_Progress{Progress: &pb.BacktestProgress{Records: 10000}}},
		{Event: &pb.BacktestEvent_Flip{Flip: &pb.BacktestFlip{Server: "github", Method: "tools/call", Subject: "delete_repo", Was: "ask", Would: "forward", Loosens: true,
			WasBy: `"delete_*" (thoughtgate.yaml:4)`, WouldBy: "defaults.action", Calls: 1204, First: 14, Last: 20321}}},
		{Event: &pb.BacktestEvent_Flip{Flip: &pb.BacktestFlip{Server: "evil\x1b[2J", Method: "resources/read", Subject: "file:///etc/\u202e" + strings.Repeat("long", 30), Was: "forward", Would: "deny",
			WouldBy: `"file:///etc/*" (thoughtgate.yaml:9)`, Reason: "not there", Calls: 1, First: 7, Last: 7}}},
		{Event: &pb.BacktestEvent_Unknown{Unknown: &pb.BacktestUnknown{Server: "bank", Method: "tools/call", Subject: "pay", Was: "forward",
			Because: `the policy "pay" (a.cedar:1) reads the arguments, which the record does not have`, Calls: 3, First: 8, Last: 30}}},
		{Event: &pb.BacktestEvent_Summary{Summary: &pb.BacktestSummary{Calls: 13000, Same: 11792, Tighter: 1, Looser: 1204, Unknown: 3, Unread: 1, More: true, First: consoletest.At(-7 * 24 * time.Hour), Last: consoletest.At(-time.Minute)}}},
	}
}

func TestBacktest(t *testing.T) {
	f := consoletest.Start(t)
	f.Backtest = aBacktest()
	c := newConsole(f.Socket)
	if code := c.Run(t, "policy", "backtest", "--since", "30d", "--config", "/c/new.yaml"); code != ui.ExitCheck {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	consoletest.MustFit(t, c.Out.String(), 80)
	consoletest.Golden(t, "policy-backtest", c.Out.String())
	if got := c.Err.String(); !strings.Contains(got, "warning: a warning\n") || !strings.Contains(got, "\r10,000 records read") || !strings.HasSuffix(got, " \r") {
		t.Errorf("talk: %q", got)
	}
	if q := f.Back; q.GetConfig() != "/c/new.yaml" || !q.GetSince().AsTime().Equal(consoletest.Noon.Add(-30*24*time.Hour)) {
		t.Errorf("asked %v", q)
	}

	c = newConsole(f.Socket).Pipe()
	if code := c.Run(t, "policy", "backtest", "--json"); code != ui.ExitCheck || c.Err.String() != "warning: a warning\n" {
		t.Errorf("exit %d: %q", code, c.Err.String())
	}
	consoletest.Golden(t, "policy-backtest-json", c.Out.String())
	for line := range strings.SplitSeq(strings.TrimSpace(c.Out.String()), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if q := f.Back; q.GetConfig() != "" || !q.GetSince().AsTime().Equal(consoletest.Noon.Add(-7*24*time.Hour)) {
		t.Errorf("asked %v", q)
	}

	// Tighter verdicts alone are not a failure.
	f.Backtest = append(f.Backtest[:2:2], f.Backtest[3:]...)
	f.Backtest[len(f.Backtest)-1] = &pb.BacktestEvent{Event: &pb.BacktestEvent_Summary{Summary: &pb.BacktestSummary{Calls: 1, Tighter: 1, First: consoletest.At(0), Last: consoletest.At(0)}}}
	if code := c.Run(t, "policy", "backtest"); code != 0 || strings.Contains(c.Out.String(), "LOOSER") {
		t.Errorf("exit %d: %s", code, c.Out.String())
	}
	f.Backtest = []*pb.BacktestEvent{{Event: &pb.BacktestEvent_Set{Set: &pb.BacktestSet{Set: &pb.PolicySet{}}}}, {Event: &pb.BacktestEvent_Summary{Summary: &pb.BacktestSummary{}}}}
	if code := c.Run(t, "policy", "backtest"); code != 0 || c.Out.String() != "the built-in default: no calls were recorded in that time\n" {
		t.Errorf("exit %d: %s", code, c.Out.String())
	}
	if code := c.Run(t, "policy", "backtest", "--since", "soon"); code != ui.ExitUsage || !strings.Contains(c.Err.String(), `invalid time "soon"`) {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}
