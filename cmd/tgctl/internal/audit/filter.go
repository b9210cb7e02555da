package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// recordFilter holds the flags that select records.
type recordFilter struct {
	since, until                         string
	server, tool, verdict, session, kind string
	limit                                uint32
}

func (a *app) selectFlags(cmd *cobra.Command, f *recordFilter) {
	cmd.Flags().StringVar(&f.server, "server", "", "only of servers that match `GLOB`")
	cmd.Flags().StringVar(&f.tool, "tool", "", "only of tools, prompts or resources that match `GLOB`")
	cmd.Flags().StringVar(&f.verdict, "verdict", "", "only with `VERDICT`: forward, deny, hold, park, approved, rejected, ok, ...")
	cmd.Flags().StringVar(&f.session, "session", "", "only of session `ID`")
	cmd.Flags().StringVar(&f.kind, "kind", "", "only records of `KIND`: call, decision, outcome, session, attach, ...")
	for name, complete := range map[string]cobra.CompletionFunc{
		"verdict": ui.OneOf(record.Verdicts("")...), "kind": ui.OneOf(ui.Map(record.Kinds(), func(k record.Kind) string { return string(k) })...),
		"server": a.complete(serverOf), "session": a.complete(sessionOf), "tool": cobra.NoFileCompletions,
	} {
		ui.CompleteFlag(cmd, name, complete)
	}
}

// timeFlags adds the flags that select records by time. since is the default of --since.
func (f *recordFilter) timeFlags(cmd *cobra.Command, since string) {
	cmd.Flags().StringVar(&f.since, "since", since, "only from `D` on")
	cmd.Flags().StringVar(&f.until, "until", "", "only up to `D`")
}

// query converts the filter to a query for the daemon.
func (f *recordFilter) query(now time.Time) (*pb.AuditQuery, error) {
	if err := f.words(); err != nil {
		return nil, err
	}
	q := &pb.AuditQuery{Server: f.server, Tool: f.tool, Verdict: f.verdict, Session: f.session, Kind: f.kind, Last: f.limit}
	for _, bound := range []struct {
		flag, text string
		to         **timestamppb.Timestamp
	}{{"--since", f.since, &q.Since}, {"--until", f.until, &q.Until}} {
		if bound.text == "" {
			continue
		}
		at, err := ui.ParseWhen(bound.text, now)
		if err != nil {
			return nil, ui.Misuse("%s: %w", bound.flag, err)
		}
		*bound.to = timestamppb.New(at)
	}
	return q, nil
}

// words checks the flags whose values are words that the daemon writes.
func (f *recordFilter) words() error {
	if err := ui.CheckWord("kind", f.kind, ui.Map(record.Kinds(), func(k record.Kind) string { return string(k) })); err != nil {
		return err
	}
	if err := ui.CheckWord("verdict", f.verdict, record.Verdicts("")); err != nil || f.kind == "" || f.verdict == "" {
		return err
	}
	switch of := record.Verdicts(record.Kind(f.kind)); {
	case len(of) == 0:
		return ui.Misuse("records of kind %s have no verdict: leave out --verdict", f.kind)
	case !slices.Contains(of, f.verdict):
		return ui.Misuse("no record of kind %s has the verdict %s: use one of %s", f.kind, f.verdict, strings.Join(of, ", "))
	}
	return nil
}

// ofCalls checks that the verdict, if there is one, is one that a call can have.
func (f *recordFilter) ofCalls() error {
	var words []string
	for _, kind := range []record.Kind{record.KindCall, record.KindDecision, record.KindOutcome, record.KindOrphan} {
		words = append(words, record.Verdicts(kind)...)
	}
	if slices.Contains(words, f.verdict) || !slices.Contains(record.Verdicts(""), f.verdict) {
		return ui.CheckWord("verdict", f.verdict, words)
	}
	return ui.Misuse("no call has the verdict %q, but other records have: add --all, or use one of %s", f.verdict, strings.Join(words, ", "))
}

// known checks that the log has a record of each server, tool and session that f names, so that a typo
// does not look as if nothing had happened.
func (f *recordFilter) known(ctx context.Context, c *client.Client) error {
	for _, named := range []struct {
		what, name string
		q          *pb.AuditQuery
		of         func(*record.Record) string
	}{
		{"server", f.server, &pb.AuditQuery{Server: f.server, Last: 1}, serverOf},
		{"tool", f.tool, &pb.AuditQuery{Tool: f.tool, Last: 1}, nil},
		{"session", f.session, &pb.AuditQuery{Session: f.session, Last: 1}, sessionOf},
	} {
		if named.name == "" {
			continue
		}
		found := false
		for _, err := range c.ReadAudit(ctx, named.q) {
			if err != nil {
				return err
			}
			found = true
		}
		if found {
			continue
		}
		unknown := &ui.UnknownError{What: named.what, Name: named.name}
		if named.of != nil {
			var err error
			if unknown.Known, err = names(ctx, c, named.of); err != nil {
				return err
			}
		}
		return &ui.HintError{Err: fmt.Errorf("no record matches: %w", unknown), Hint: "To see what is recorded: tgctl audit --all"}
	}
	return nil
}

func serverOf(r *record.Record) string  { return r.Server }
func sessionOf(r *record.Record) string { return r.Session }

// names returns the servers or sessions of the newest attachments in the log, the newest first.
func names(ctx context.Context, c *client.Client, of func(*record.Record) string) ([]string, error) {
	var all []string
	for r, err := range c.ReadAudit(ctx, &pb.AuditQuery{Kind: string(record.KindAttach), Last: 1000}) {
		if err != nil {
			return nil, err
		}
		rec, err := record.Parse(r.GetLine())
		if name := of(&rec); err == nil && name != "" && name != record.CanaryServer {
			all = append(slices.DeleteFunc(all, func(other string) bool { return other == name }), name)
		}
	}
	slices.Reverse(all)
	return all, nil
}

// complete completes the servers or sessions in the log.
func (a *app) complete(of func(*record.Record) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.CompleteIDs(cmd, func(ctx context.Context, c *client.Client) ([]string, error) {
			all, err := names(ctx, c, of)
			return ui.Map(all, func(name string) string { return string(display.Name(name)) }), err
		})
	}
}

// Query returns what selects the records that a form asks for. value returns the value of a field, which is
// named as a flag of tgctl audit list.
func Query(c *connect.App, value func(name string) string) (*pb.AuditQuery, error) {
	f := &recordFilter{
		since: value("since"), until: value("until"), server: value("server"), tool: value("tool"), verdict: value("verdict"), session: value("session"), kind: value("kind"),
	}
	return f.query(c.Now())
}
