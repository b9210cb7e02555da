package audit

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) reportCmd() *cobra.Command {
	f := &recordFilter{}
	var output string
	cmd := &cobra.Command{
		Use:   "report [flags]",
		Short: "Write a report as an HTML page",
		Long: `Write a report as one HTML page: calls by their ends, over time, by server and
by tool, what denied calls, how long answers took and who gave them, and what
changed. A call counts once, by its end. The page loads nothing from elsewhere
and contains no arguments.`,
		Example: `  $ tgctl audit report --since 7d -o week.html
  $ tgctl audit report --server github > github.html`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := f.query(a.Now())
			if err == nil && f.kind == "" && f.verdict != "" {
				err = f.ofCalls()
			}
			if err != nil {
				return err
			}
			if output == "" && a.OutTerminal {
				return ui.Misuse("the report is HTML and stdout is a terminal: use -o FILE or redirect stdout")
			}
			if err := a.ToFile(output, func(w io.Writer) error { return a.report(cmd.Context(), f, q, w) }); err != nil {
				return err
			}
			if output != "" {
				a.PrintMessage("Wrote the report to %s.", output)
			}
			return nil
		},
	}
	a.selectFlags(cmd, f)
	f.timeFlags(cmd, "7d")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE`, which must not exist; removed on failure")
	return cmd
}

// report writes a page about the records that q selects.
func (a *app) report(ctx context.Context, f *recordFilter, q *pb.AuditQuery, w io.Writer) error {
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := f.known(ctx, c); err != nil {
		return err
	}
	log, err := logID(ctx, c)
	if err != nil {
		return err
	}
	counts := newCounter()
	counts.verdict, q.Verdict = f.verdict, "" // a call may have it in one of its records
	var last []byte
	for r, err := range c.ReadAudit(ctx, q) {
		if err != nil {
			return err
		}
		rec, err := record.Parse(r.GetLine())
		if err != nil {
			return fmt.Errorf("parse record %d: %w; run `tgctl audit verify`", r.GetSeq(), err)
		}
		counts.add(&rec)
		last = append(last[:0], r.GetLine()...)
	}
	return writeReport(w, counts, last, log, a.Now())
}
