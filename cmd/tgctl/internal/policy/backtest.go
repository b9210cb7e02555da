package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// backtestSpan is the default of --since.
const backtestSpan = "7d"

func (a *app) backtestCmd() *cobra.Command {
	var since, config string
	cmd := &cobra.Command{
		Use:   "backtest [flags]",
		Short: "Test a configuration on recorded calls",
		Long: `Judge recorded calls again, under a configuration that need not be in force, and
list those whose verdict would differ, grouped by server, tool and rule, looser
verdicts first. Exits 4 if any verdict would be looser. D is a duration back
from now, as 90s, 2h or 7d, a date, or a date and a time in the local time zone.

Verdicts are compared regardless of a person's answer and of the profile. The
audit log has the facts of each call, but not what servers sent, and arguments
only if nothing in them was redacted. A call whose verdict could depend on data
that was not recorded is listed as unknown.`,
		Example: `  $ tgctl policy backtest
  $ tgctl policy backtest --since 30d --config new.yaml
  $ tgctl policy backtest --json | jq 'select(.flip.loosens)'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := ui.ParseWhen(since, a.Now())
			if err != nil {
				return ui.Misuse("--since: %w", err)
			}
			config, err := connect.Absolute(config)
			if err != nil {
				return err
			}
			return a.backtest(cmd.Context(), &pb.BacktestRequest{Config: config, Since: timestamppb.New(at)})
		},
	}
	cmd.Flags().StringVar(&since, "since", backtestSpan, "only calls since `D`")
	cmd.Flags().StringVar(&config, "config", "", "test `FILE` (default: the daemon's file as it is on disk)")
	return a.WithJSON(cmd, &pb.BacktestEvent{})
}

// Backtested collects the events of a backtest. Its zero value has none.
type Backtested struct {
	set     *pb.BacktestSet
	flips   []*pb.BacktestFlip
	unknown []*pb.BacktestUnknown
	summary *pb.BacktestSummary
}

func (a *app) backtest(ctx context.Context, req *pb.BacktestRequest) error {
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var b Backtested
	for e, err := range c.Backtest(ctx, req) {
		if err != nil {
			return a.badConfig(err)
		}
		if a.AsJSON && e.GetProgress() == nil {
			a.progress("")
			if err := a.PrintJSON(e); err != nil {
				return err
			}
		}
		b.Add(e)
		switch e := e.GetEvent().(type) {
		case *pb.BacktestEvent_Set:
			if err := ui.PrintDiagnostics(a.Err, e.Set.GetWarnings(), a.Width()); err != nil {
				return err
			}
		case *pb.BacktestEvent_Progress:
			a.progress(display.Count(e.Progress.GetRecords()) + " records read")
		}
	}
	a.progress("")
	if !a.AsJSON {
		if err := a.printBacktest(&b); err != nil {
			return err
		}
	}
	if b.summary.GetLooser() > 0 {
		return &ui.ExitError{Code: ui.ExitCheck}
	}
	return nil
}

// Add adds the next event.
func (b *Backtested) Add(e *pb.BacktestEvent) {
	switch e := e.GetEvent().(type) {
	case *pb.BacktestEvent_Set:
		b.set = e.Set
	case *pb.BacktestEvent_Flip:
		b.flips = append(b.flips, e.Flip)
	case *pb.BacktestEvent_Unknown:
		b.unknown = append(b.unknown, e.Unknown)
	case *pb.BacktestEvent_Summary:
		b.summary = e.Summary
	}
}

// progress replaces the progress line on stderr, if that is a terminal.
func (a *app) progress(text display.Safe) {
	if a.ErrTerminal {
		fmt.Fprintf(a.Err, "\r%-40s\r%s", "", text)
	}
}

// printBacktest prints a backtest for a person.
func (a *app) printBacktest(b *Backtested) error {
	for _, t := range b.Tables() {
		if err := errors.Join(a.PrintTable(t), a.PrintLines([]display.Safe{""})); err != nil {
			return err
		}
	}
	return a.PrintLines(display.Wrap(b.Total(a.Now()), a.Width()))
}

// Tables lists the calls whose verdict would be looser, then those whose would be tighter, then those of
// which it is unknown. Where there are none, there is no table.
func (b *Backtested) Tables() []*display.Table {
	var all []*display.Table
	for _, part := range []struct {
		title   display.Safe
		loosens bool
	}{{"LOOSER", true}, {"TIGHTER", false}} {
		t := &display.Table{Columns: []display.Column{
			{Head: "CALLS", Right: true}, {Head: "SERVER", Shrink: 8}, {Head: part.title, Shrink: 12}, {Head: "WAS", Tone: ui.ToneOf}, {Head: "WOULD BE", Tone: ui.ToneOf},
		}}
		for _, f := range b.flips {
			if f.GetLoosens() != part.loosens {
				continue
			}
			t.Add(display.Count(f.GetCalls()), display.Name(f.GetServer()), ui.CallName(f.GetMethod(), f.GetSubject()), display.Name(f.GetWas()), display.Name(f.GetWould()))
			t.Note("was by " + orUnsaid(f.GetWasBy()) + ", would be by " + orUnsaid(f.GetWouldBy()) + "; " + seqs(f.GetFirst(), f.GetLast()))
		}
		all = append(all, t)
	}
	t := &display.Table{Columns: []display.Column{
		{Head: "CALLS", Right: true}, {Head: "SERVER", Shrink: 8}, {Head: "UNKNOWN", Shrink: 12}, {Head: "WAS", Tone: ui.ToneOf},
	}}
	for _, u := range b.unknown {
		t.Add(display.Count(u.GetCalls()), display.Name(u.GetServer()), ui.CallName(u.GetMethod(), u.GetSubject()), display.Name(u.GetWas()))
		t.Note(display.Text(u.GetBecause()) + "; " + seqs(u.GetFirst(), u.GetLast()))
	}
	return withRows(append(all, t)...)
}

// Total returns a summary in one sentence.
func (b *Backtested) Total(now time.Time) display.Safe {
	s := b.summary
	by := SourceName(b.set.GetSet().GetSource())
	if s.GetCalls() == 0 {
		return by + ": no calls were recorded in that time"
	}
	line := by + ": of " + ui.Plural(s.GetCalls(), "call", "calls") + " since " + display.Moment(s.GetFirst().AsTime(), now)
	line += ", " + display.Count(s.GetSame()) + " unchanged, " + display.Count(s.GetLooser()) + " looser, " +
		display.Count(s.GetTighter()) + " tighter, " + display.Count(s.GetUnknown()) + " unknown"
	return line + ui.Choose(s.GetUnread() > 0, "; "+ui.Plural(s.GetUnread(), "record is", "records are")+" corrupt", "") +
		ui.Choose(s.GetMore(), "; not all groups are listed", "")
}

func orUnsaid(rule string) display.Safe { return display.Text(cmp.Or(rule, "no rule")) }

// seqs names the first and the last record of a group.
func seqs(first, last uint64) display.Safe {
	return ui.Choose(first == last, display.Safe(fmt.Sprintf("record %d", first)), display.Safe(fmt.Sprintf("records %d to %d", first, last)))
}
