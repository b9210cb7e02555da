// Package audit has the commands of tgctl that read the audit log, verify it, hand it on, and make a
// report of it.
package audit

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/record/calls"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// ListLimit is the default number of calls or records in a list.
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
the newest calls, each with its end; --all lists every record.`
	cmd.Example = `  $ tgctl audit
  $ tgctl audit --follow
  $ tgctl audit list --since 1d --verdict deny
  $ tgctl audit verify`
	return cmd
}

func (a *app) listCmd() *cobra.Command {
	f := &recordFilter{}
	var every, follow bool
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List calls with their ends, or records, oldest first",
		Long: `List calls, each once and with its end, oldest first. With --all, --kind or
--json list records instead. D is a duration before now such as 90s, 2h or 7d, a
date, or a date and time in the local time zone. With --json each line is a
record as it is stored, byte for byte.`,
		Example: `  $ tgctl audit list --since 2h --server github
  $ tgctl audit list --all --since 1h
  $ tgctl audit list --since 7d --limit 0 --json | jq -r .tool | sort | uniq -c`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.list(cmd.Context(), f, every, follow)
		},
	}
	a.selectFlags(cmd, f)
	f.timeFlags(cmd, "")
	cmd.Flags().BoolVar(&every, "all", false, "list every record")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "then show each one as it comes, until interrupted")
	cmd.Flags().Uint32Var(&f.limit, "limit", ListLimit, "only the newest `N`; 0 means all")
	return a.WithJSON(cmd, record.Record{})
}

func (a *app) tailCmd() *cobra.Command {
	f := &recordFilter{}
	var every bool
	cmd := &cobra.Command{
		Use:   "tail [flags]",
		Short: "Show calls, or records, as they come",
		Long: `Show the newest calls and then each one when it is held and when it has ended,
until interrupted: "audit list --follow" that starts with a few. With --all,
--kind or --json show records as they are written.`,
		Example: `  $ tgctl audit tail
  $ tgctl audit tail --verdict deny --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.list(cmd.Context(), f, every, true)
		},
	}
	a.selectFlags(cmd, f)
	cmd.Flags().BoolVar(&every, "all", false, "show every record")
	cmd.Flags().Uint32VarP(&f.limit, "limit", "n", 10, "start with the newest `N`")
	return a.WithJSON(cmd, record.Record{})
}

// list lists what f selects: records if every is true or f or the user asks for them, otherwise calls.
func (a *app) list(ctx context.Context, f *recordFilter, every, follow bool) error {
	q, err := f.query(a.Now())
	if err != nil {
		return err
	}
	every = every || f.kind != "" || a.AsJSON
	if !every {
		if err := f.ofCalls(); err != nil {
			return err
		}
	}
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	err = f.known(ctx, c)
	if _, unknown := errors.AsType[*ui.UnknownError](err); unknown && follow {
		a.PrintMessage("warning: %v", err) // it may come
	} else if err != nil {
		return err
	}
	if every {
		err = a.printRecords(ctx, c, q, follow)
	} else {
		err = a.printCalls(ctx, c, q, follow)
	}
	if follow && ctx.Err() != nil {
		return nil // interrupted: the usual way to end it
	}
	return err
}

// printRecords prints the records that q selects as they arrive.
func (a *app) printRecords(ctx context.Context, c *client.Client, q *pb.AuditQuery, follow bool) error {
	q.Follow = follow
	out := display.NewStream(a.Out, a.Width(), a.Paint(),
		display.Column{Head: "SEQ", Right: true, Width: 6}, display.Column{Head: "TIME", Width: 8},
		display.Column{Head: "KIND", Width: 8, Repeats: true}, display.Column{Head: "VERDICT", Width: 11, Tone: ui.ToneOf},
		display.Column{Head: "SERVER", Width: 12, Repeats: true}, display.Column{Head: "WHAT", Shrink: 20})
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
	what := ui.Join(ui.NonEmpty(display.Name(rec.Approval), display.Name(rec.Grant), ui.Choose(calls.IsResult(rec), "result of ", "")+ui.CallName(rec.Method, rec.Tool)), " ")
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

// RecordsTable returns an empty table for the rows of RecordRow.
func RecordsTable() *display.Table {
	return &display.Table{Columns: []display.Column{
		{Head: "SEQ", Right: true}, {Head: "TIME"}, {Head: "KIND"}, {Head: "VERDICT", Tone: ui.ToneOf}, {Head: "SERVER"}, {Head: "WHAT"},
	}}
}

// RecordRow returns a record as the command audit lists it.
func RecordRow(c *connect.App, r *pb.AuditRecord) []display.Safe { return (&app{c}).recordRow(r) }
