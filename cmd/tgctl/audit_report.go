package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) auditReportCmd() *cobra.Command {
	f := &auditFilter{}
	var output string
	cmd := &cobra.Command{
		Use:   "report [flags]",
		Short: "Make a page of what happened, for people",
		Long: `Make one HTML page of what happened: calls and verdicts over time, by server
and by tool, what refused, how long answers took and who gave them, and what
changed. The page needs nothing else and loads nothing; it holds no arguments of
calls.`,
		Example: `  $ tgctl audit report --since 7d -o week.html
  $ tgctl audit report --server github > github.html`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := f.query(a.now())
			if err != nil {
				return err
			}
			if output == "" && a.outTerminal {
				return misuse("a page is not for a terminal: name a file with -o, or send it elsewhere")
			}
			if err := a.toFile(output, func(w io.Writer) error { return a.report(cmd.Context(), q, w) }); err != nil {
				return err
			}
			if output != "" {
				a.printMessage("The report is in %s.", output)
			}
			return nil
		},
	}
	f.selectFlags(cmd)
	f.timeFlags(cmd, "7d")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE`, which must not exist, and only when all is written")
	return cmd
}

// report writes a page about the records that q selects.
func (a *app) report(ctx context.Context, q *pb.AuditQuery, w io.Writer) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	log, err := logID(ctx, c)
	if err != nil {
		return err
	}
	counts := newCounter()
	var last []byte
	for r, err := range c.ReadAudit(ctx, q) {
		if err != nil {
			return err
		}
		rec, err := record.Parse(r.GetLine())
		if err != nil {
			return fmt.Errorf("record %d cannot be read: %w; `tgctl audit verify` says more", r.GetSeq(), err)
		}
		counts.add(&rec)
		last = append(last[:0], r.GetLine()...)
	}
	return writeReport(w, counts, last, log, a.now())
}
