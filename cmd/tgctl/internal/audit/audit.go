// Package audit has the commands of tgctl that read the audit log, verify it, hand it on, and make a
// report of it.
package audit

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// ListLimit is the default number of records in a list.
const ListLimit = 100

// app holds what these commands use.
type app struct{ *connect.App }

// Command returns the command audit.
func Command(c *connect.App) *cobra.Command {
	a := &app{c}
	cmd := ui.ListGroup("audit", "Read the audit log",
		a.listCmd(), a.tailCmd(), a.showCmd(), a.verifyCmd(), a.exportCmd(), a.reportCmd())
	cmd.Long = `Each verdict is recorded before it takes effect, in a log of JSON lines in which
every line carries the hash of the previous one. Without a command, audit lists
the newest records.`
	cmd.Example = `  $ tgctl audit
  $ tgctl audit list --since 1d --verdict deny
  $ tgctl audit verify`
	return cmd
}

// recordFilter holds the flags that select records.
type recordFilter struct {
	since, until                         string
	server, tool, verdict, session, kind string
	limit                                uint32
}

func (f *recordFilter) selectFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.server, "server", "", "only records of servers that match `GLOB`")
	cmd.Flags().StringVar(&f.tool, "tool", "", "only records of tools, prompts or resources that match `GLOB`")
	cmd.Flags().StringVar(&f.verdict, "verdict", "", "only records with `VERDICT`: forward, deny, hold, approved, rejected, ...")
	cmd.Flags().StringVar(&f.session, "session", "", "only records of session `ID`")
	cmd.Flags().StringVar(&f.kind, "kind", "", "only records of `KIND`: call, decision, outcome, session, attach, ...")
}

// timeFlags adds the flags that select records by time. since is the default of --since.
func (f *recordFilter) timeFlags(cmd *cobra.Command, since string) {
	cmd.Flags().StringVar(&f.since, "since", since, "only records from `D` on")
	cmd.Flags().StringVar(&f.until, "until", "", "only records up to `D`")
}

// query converts the filter to a query for the daemon.
func (f *recordFilter) query(now time.Time) (*pb.AuditQuery, error) {
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

func (a *app) listCmd() *cobra.Command {
	f := &recordFilter{}
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List records, oldest first",
		Long: `List records, oldest first. D is a duration before now such as 90s, 2h or 7d, a
date, or a date and time in the local time zone. With --json each line is a
record as it is stored, byte for byte.`,
		Example: `  $ tgctl audit list --since 2h --server github
  $ tgctl audit list --since 7d --limit 0 --json | jq -r .tool | sort | uniq -c`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.printRecords(cmd.Context(), f, false)
		},
	}
	f.selectFlags(cmd)
	f.timeFlags(cmd, "")
	cmd.Flags().Uint32Var(&f.limit, "limit", ListLimit, "only the newest `N` records; 0 means all")
	return a.WithJSON(cmd, record.Record{})
}

func (a *app) tailCmd() *cobra.Command {
	f := &recordFilter{}
	cmd := &cobra.Command{
		Use:   "tail [flags]",
		Short: "Show records as they are written",
		Long:  `Show the newest records and then each one as it is written, until interrupted.`,
		Example: `  $ tgctl audit tail
  $ tgctl audit tail --verdict deny --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := a.printRecords(cmd.Context(), f, true)
			if cmd.Context().Err() != nil {
				return nil // interrupted: the usual way to end it
			}
			return err
		},
	}
	f.selectFlags(cmd)
	cmd.Flags().Uint32VarP(&f.limit, "limit", "n", 10, "start with the newest `N` records")
	return a.WithJSON(cmd, record.Record{})
}

// printRecords prints the records that f selects as they arrive.
func (a *app) printRecords(ctx context.Context, f *recordFilter, follow bool) error {
	q, err := f.query(a.Now())
	if err != nil {
		return err
	}
	q.Follow = follow
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	out := display.NewStream(a.Out, a.Width(),
		display.Column{Head: "SEQ", Right: true, Width: 6}, display.Column{Head: "TIME", Width: 8},
		display.Column{Head: "KIND", Width: 8}, display.Column{Head: "VERDICT", Width: 11},
		display.Column{Head: "SERVER", Width: 12}, display.Column{Head: "WHAT", Shrink: 20})
	none := true
	for r, err := range c.ReadAudit(ctx, q) {
		if err != nil {
			return err
		}
		if a.AsJSON {
			if err := a.PrintLine(r.GetLine()); err != nil {
				return err
			}
			continue
		}
		if none {
			none = false
			if err := out.Head(); err != nil {
				return err
			}
		}
		if err := out.Row(a.recordRow(r)...); err != nil {
			return err
		}
	}
	if none && !a.AsJSON {
		a.PrintMessage("No record matches.")
	}
	return nil
}

// recordRow returns a record as a row of a list.
func (a *app) recordRow(r *pb.AuditRecord) []display.Safe {
	rec, err := record.Parse(r.GetLine())
	if err != nil {
		return []display.Safe{display.Safe(strconv.FormatUint(r.GetSeq(), 10)), "", "?", "", "", display.Bytes(r.GetLine())}
	}
	return []display.Safe{
		display.Safe(strconv.FormatUint(rec.Seq, 10)), ui.ShortTime(rec.Time, a.Now()), display.Name(string(rec.Kind)),
		VerdictWord(&rec), display.Name(rec.Server), whatHappened(&rec),
	}
}

// whatHappened describes what a record is about, with its reason.
func whatHappened(rec *record.Record) display.Safe {
	what := ui.Join(ui.NonEmpty(display.Name(rec.Approval), display.Name(rec.Grant), ui.Choose(isResult(rec), "result of ", "")+ui.CallName(rec.Method, rec.Tool)), " ")
	if what == "" && rec.Server == "" {
		what = display.Name(rec.Agent)
	}
	return ui.Join(ui.NonEmpty(what, display.Text(rec.Reason)), ": ")
}

// VerdictWord returns the verdict, or what it would have been in production.
func VerdictWord(rec *record.Record) display.Safe {
	if rec.Would != "" {
		return display.Name(strings.ToLower(rec.Would))
	}
	return display.Name(rec.Verdict)
}
