package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// verifyJSON is what `audit verify --json` prints.
type verifyJSON struct {
	OK bool `json:"ok"`
	record.Report
}

func (a *app) verifyCmd() *cobra.Command {
	var headFile string
	cmd := &cobra.Command{
		Use:   "verify [FILE|DIR...] [flags]",
		Short: "Check that the audit log was not altered",
		Long: `Check that no record was altered: that each line carries the hash of the
previous one, that none is missing or moved, and that the log reaches as far as
the head stored beside it. Needs no daemon. Without arguments, your own log is
checked. Exits 4 if the check fails, and names the first bad record.`,
		Example: `  $ tgctl audit verify
  $ tgctl audit verify /backup/audit --head /mnt/other/audit.head`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				paths, err := sock.DefaultPaths(a.Getenv)
				if err != nil {
					return err
				}
				args = []string{paths.AuditDir()}
			}
			opts, err := verifyOptions(headFile)
			if err != nil {
				return err
			}
			report, err := record.Verify(args, opts)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				return &ui.HintError{Err: err, Hint: "Name the folder of a log, or its files; without one, your own log is verified."}
			}
			if err != nil {
				return err
			}
			return a.printReport(&report)
		},
	}
	cmd.Flags().StringVar(&headFile, "head", "", "the log must contain the heads in `FILE`, stored where nobody could change it (audit.heads)")
	return a.WithJSON(cmd, verifyJSON{})
}

func verifyOptions(headFile string) (record.VerifyOptions, error) {
	if headFile == "" {
		return record.VerifyOptions{}, nil
	}
	content, err := os.ReadFile(headFile)
	if err != nil {
		return record.VerifyOptions{}, ui.FileError("read the heads", err)
	}
	heads, err := record.ParseHeads(content)
	if err != nil {
		return record.VerifyOptions{}, fmt.Errorf("%s: %w", headFile, err)
	}
	return record.VerifyOptions{Heads: heads}, nil
}

func (a *app) printReport(r *record.Report) error {
	if a.AsJSON {
		if err := a.PrintJSON(verifyJSON{r.Bad == nil, *r}); err != nil {
			return err
		}
	}
	if r.Bad != nil {
		return &ui.ExitError{Code: ui.ExitCheck, Err: fmt.Errorf("verification failed: %w", r.Bad)}
	}
	if a.AsJSON {
		return nil
	}
	fmt.Fprintf(a.Out, "verified: %s in %s, log %s\n", ui.Plural(r.Records, "record", "records"), ui.Plural(r.Segments, "segment", "segments"), display.Name(r.Log))
	if r.Records > 0 {
		fmt.Fprintf(a.Out, "from %s to %s\n", display.Moment(r.From, a.Now()), display.Moment(r.Until, a.Now()))
		last := fmt.Sprintf("the last one is record %d, %s", r.Last.Seq, display.Name(r.Last.Sum))
		if err := a.PrintLines(display.Wrap(display.Safe(last), a.Width())); err != nil {
			return err
		}
	}
	for _, note := range reportNotes(r) {
		if err := a.PrintLines(display.Wrap(display.Safe("note: "+note), a.Width())); err != nil {
			return err
		}
	}
	return nil
}

// reportNotes lists what a person who relies on a valid log should know about it.
func reportNotes(r *record.Report) []display.Safe {
	return ui.NonEmpty(
		ui.Choose(r.Retired > 0, "the log dropped "+ui.Plural(r.Retired, "record", "records")+" before these; see --kind dropped", ""),
		ui.Choose(r.Gaps > 0, "the log could not be written in "+ui.Plural(r.Gaps, "place", "places")+"; see --kind gap", ""),
		ui.Choose(r.Dropped > 0, "the values of "+ui.Plural(r.Dropped, "record", "records")+" have been dropped, which is allowed", ""),
		ui.Choose(r.Torn > 0, ui.Plural(uint64(r.Torn), "byte", "bytes")+" after the last record: a line that is being written or was cut off", ""),
		ui.Choose(r.Headed, "", "no head to compare with: records missing at the end are not detected"),
	)
}
