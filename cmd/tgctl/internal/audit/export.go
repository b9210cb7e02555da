package audit

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) exportCmd() *cobra.Command {
	f := &recordFilter{}
	var format, output string
	var values bool
	cmd := &cobra.Command{
		Use:   "export --format jsonl|ocsf [flags]",
		Short: "Export records for other programs",
		Long: `Export records for other programs. As jsonl each line is a record as it is
stored, byte for byte; without a filter the lines can be verified anywhere. As
ocsf each is an event of the Open Cybersecurity Schema Framework, ` + ocsfVersion + `, class
API Activity, with the record itself under raw_data. The values of calls are
left out unless --values is given; they are redacted as they are stored.`,
		Example: `  $ tgctl audit export --format jsonl -o audit.jsonl
  $ tgctl audit export --format ocsf --since 1d | gzip > events.json.gz`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q, err := f.query(a.Now())
			if err != nil {
				return err
			}
			if format != "jsonl" && format != "ocsf" {
				return ui.Misuse("--format must be jsonl or ocsf, not %q", format)
			}
			if values && format == "ocsf" {
				return ui.Misuse("--values needs --format jsonl: OCSF events have no field for values")
			}
			return a.ToFile(output, func(w io.Writer) error {
				return a.export(cmd.Context(), f, q, w, format == "ocsf", values)
			})
		},
	}
	a.selectFlags(cmd, f)
	f.timeFlags(cmd, "")
	cmd.Flags().StringVar(&format, "format", "", "`FORMAT`: jsonl or ocsf")
	ui.CompleteFlag(cmd, "format", ui.OneOf("jsonl", "ocsf"))
	cmd.Flags().BoolVar(&values, "values", false, "also write the values of each call, on the line after its record")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE`, which must not exist; removed on failure")
	return cmd
}

// export writes the records that q selects.
func (a *app) export(ctx context.Context, f *recordFilter, q *pb.AuditQuery, w io.Writer, asOCSF, values bool) error {
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := f.known(ctx, c); err != nil {
		return err
	}
	log := ""
	if asOCSF {
		if log, err = logID(ctx, c); err != nil {
			return err
		}
	}
	for r, err := range c.ReadAudit(ctx, q) {
		if err != nil {
			return err
		}
		line := r.GetLine()
		if asOCSF {
			rec, err := record.Parse(line)
			if err != nil {
				return fmt.Errorf("parse record %d: %w; run `tgctl audit verify`", r.GetSeq(), err)
			}
			if line, err = ocsf(&rec, line, log, ui.Release); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
			return err
		}
		if v := r.GetValues(); values && len(v) > 0 {
			if _, err := fmt.Fprintf(w, "%s\n", v); err != nil {
				return err
			}
		}
	}
	return nil
}

// logID returns the id of the log from the newest log record.
func logID(ctx context.Context, c *client.Client) (string, error) {
	for r, err := range c.ReadAudit(ctx, &pb.AuditQuery{Kind: string(record.KindLog), Last: 1}) {
		if err != nil {
			return "", err
		}
		rec, err := record.Parse(r.GetLine())
		return rec.Log, err
	}
	return "", errors.New("the audit log has no record with its id; run `tgctl audit verify`")
}
