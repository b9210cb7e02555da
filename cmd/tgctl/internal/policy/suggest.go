package policy

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	suggestSpan = "30d" // the default of --since
	suggestMin  = 3     // the default of --min

	// maxSuggestedTools is for how many tools rules are suggested: each rule needs a backtest.
	maxSuggestedTools = 10
)

func (a *app) suggestCmd() *cobra.Command {
	var since string
	var times int
	cmd := &cobra.Command{
		Use:   "suggest [flags]",
		Short: "Suggest rules for what you approve again and again",
		Long: `Read the audit log for calls of a tool that were approved unchanged again and
again, and print rules of different width that would have forwarded them: for
exactly these arguments, for paths below a folder, for the tool. Each comes with
what it would have covered, and with a backtest: what else in the record it
would have forwarded. Nothing is changed: to use one, put it into the file.

Only answers count that a person gave at a terminal, by what the kernel showed,
or with presence; none of a script, Slack, a phone, a page or the desktop. Calls
of which a fact is true get no rule, "remote" apart: what destroys, executes,
sends, installs, carries secrets or names ThoughtGate's own files is always
asked about. Nor does a tool of which such a call was ever denied. Where the
arguments were not recorded as they were, only a rule for the tool is possible.
The ten tools that you approved most often are looked at.`,
		Example: `  $ tgctl policy suggest
  $ tgctl policy suggest --since 90d --min 5
  $ tgctl policy suggest --json | jq -r '.yaml // empty'`,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			at, err := ui.ParseWhen(since, a.Now())
			if err != nil {
				return ui.Misuse("--since: %w", err)
			}
			if times < 2 {
				return ui.Misuse("--min: a call that was approved once is no habit; use 2 or more")
			}
			return a.suggest(ctx, c, at, times)
		}),
	}
	cmd.Flags().StringVar(&since, "since", suggestSpan, "only calls since `D`, as 90s, 2h, 7d or a date")
	cmd.Flags().IntVar(&times, "min", suggestMin, "only what was approved `N` times or more")
	return a.WithJSON(cmd, &suggestion{}, unsuited{})
}

// suggest prints suggestions, and why there are not more.
func (a *app) suggest(ctx context.Context, c *client.Client, since time.Time, times int) error {
	set, err := c.PolicySet(ctx)
	if err != nil {
		return err
	}
	now, err := readCurrent(set)
	if err != nil {
		return err
	}
	questions, more, err := readAsked(c.ReadAudit(ctx, &pb.AuditQuery{Since: timestamppb.New(since)}))
	if err != nil {
		return err
	}
	if more {
		a.PrintMessage("The record has more than %d questions in that time; the later ones were not read.", maxAsked)
	}
	groups := ui.Filter(groupsOf(questions), func(g *group) bool { return len(g.counts) >= times })
	looked := groups[:min(len(groups), maxSuggestedTools)]
	var left []unsuited
	found := 0
	for _, g := range looked {
		all, why, err := a.suggestFor(ctx, c, now, g, since, times)
		if err != nil {
			return err
		}
		if why != "" {
			left = append(left, unsuited{g.tool.agent, g.tool.server, g.tool.tool, why})
		}
		for _, s := range all {
			found++
			if err := a.printSuggestion(found, s, g, now); err != nil {
				return err
			}
		}
	}
	return a.printSuggested(found, left, groups[len(looked):], times, now)
}

// suggestFor returns the suggestions for a tool that hold, and why there are not more.
func (a *app) suggestFor(ctx context.Context, c *client.Client, now *current, g *group, since time.Time, times int) (all []*suggestion, why display.Safe, err error) {
	if why := g.unsuited(); why != "" {
		return nil, why, nil
	}
	candidates, why := g.suggestions(times, a.Getenv("HOME"))
	for _, s := range candidates {
		entry := now.ruleAt(s.At)
		if entry == nil {
			return nil, "the rule that asked, " + display.Text(s.At) + ", is not in force any more, or is not one of yours that asks", nil
		}
		s.asksIn(entry.GetWorkflow())
		useless, err := now.try(ctx, c, s, entry.GetCited().GetLine(), since)
		if err != nil {
			return nil, "", err
		}
		if useless != "" {
			why = display.Safe(s.Width) + ": " + useless
			continue
		}
		all = append(all, s)
	}
	return all, why, nil
}

// printSuggestion prints one suggestion.
func (a *app) printSuggestion(number int, s *suggestion, g *group, now *current) error {
	if a.AsJSON {
		return a.PrintJSON(s)
	}
	title := display.Safe(fmt.Sprintf("%d. ", number)) + display.Name(s.Tool) + " of " + display.Name(s.Server) + " for " + display.Name(s.Agent) + ": " + s.of
	lines := ui.InTone(display.Strong, ui.Hanging(title, a.Width(), 3)...)
	add := func(line display.Safe) {
		lines = append(lines, ui.InTone(display.Plain, ui.Hanging("   "+line, a.Width(), 3)...)...)
	}
	add("covers " + ui.Plural(s.Covers, "question that you approved", "questions that you approved") + ", such as:")
	for _, q := range g.counts {
		for _, seq := range s.Examples {
			if q.seq == seq {
				add(display.Safe(fmt.Sprintf("  record %d: ", seq)) + ui.Choose(q.args != nil, display.JSONLine(q.args, 200, ""), "arguments not recorded"))
			}
		}
	}
	t := s.Tried
	add("backtest: of " + ui.Plural(t.Calls, "call", "calls") + ", " + display.Count(t.Forwarded) + " that " + ui.Choose(t.Forwarded == 1, "was", "were") + " asked about would have been forwarded (" + seqs(t.First, t.Last) + ")" +
		ui.Choose(t.Unknown > 0, "; of "+display.Count(t.Unknown)+" more the record does not say enough", ""))
	for _, q := range g.all {
		if !q.counts && q.seq >= t.First && q.seq <= t.Last {
			add(display.Safe(fmt.Sprintf("  record %d was asked about, too: ", q.seq)) + ui.Choose(q.verdict != "", display.Name(q.verdict), "waiting") + ui.Choose(q.by != "", " by "+q.by, ""))
		}
	}
	add("above " + display.Text(s.At) + ":")
	if err := a.PrintToned(lines); err != nil {
		return err
	}
	// These lines are to be pasted, so nothing is wrapped. What is not ASCII in them is escaped.
	var text []display.Safe
	for line := range strings.Lines(s.YAML) {
		text = append(text, display.Text("  "+strings.TrimSuffix(line, "\n")))
	}
	if s.Cedar != "" {
		text = append(text, "   and in "+display.Text(filepath.Join(filepath.Dir(now.path), cedarFile))+":")
		for line := range strings.Lines(s.Cedar) {
			text = append(text, display.Text("    "+strings.TrimSuffix(line, "\n")))
		}
	}
	return a.PrintLines(append(text, ""))
}

// printSuggested says what to do with the suggestions, what was left out, and how many tools were not looked at.
func (a *app) printSuggested(found int, left []unsuited, unseen []*group, times int, now *current) error {
	if a.AsJSON {
		for _, g := range unseen {
			left = append(left, unsuited{g.tool.agent, g.tool.server, g.tool.tool, "not looked at: only the ten tools approved most often are"})
		}
		for _, u := range left {
			if err := a.PrintJSON(u); err != nil {
				return err
			}
		}
		return nil
	}
	for _, u := range left {
		line := "Nothing more is suggested for " + display.Name(u.Tool) + " of " + display.Name(u.Server) + " for " + display.Name(u.Agent) + ": " + u.Reason
		a.PrintText(string(line) + ".")
	}
	if n := len(unseen); n > 0 {
		a.PrintText(fmt.Sprintf("%s approved %d times or more and not looked at: only the ten tools approved most often are. Once rules for those are in force, a later --since shows others.", ui.Plural(n, "more tool was", "more tools were"), times))
	}
	if found == 0 {
		a.PrintMessage("Nothing is suggested: no rule fits what you approved unchanged %d times or more at a terminal or with presence.", times)
		return nil
	}
	a.PrintText("Nothing was changed. To use one of them, put it into " + string(display.Text(now.path)) + ", then: tgctl policy check && tgctl policy backtest; tgctl daemon reload")
	return nil
}
