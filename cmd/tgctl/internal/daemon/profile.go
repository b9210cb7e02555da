package daemon

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// watchedFor is how long the daemon is profiled by default.
const watchedFor = 30 * time.Second

// profileKinds are the kinds of profiles. The first three cover a period; the others are
// snapshots.
var profileKinds = []string{"cpu", "mutex", "block", "heap", "allocs", "goroutine"}

func (a *app) profileCmd() *cobra.Command {
	var output string
	var watch time.Duration
	cmd := &cobra.Command{
		Use:   "profile cpu|mutex|block|heap|allocs|goroutine",
		Short: "Write a performance profile of the daemon",
		Long: `Write a profile of the daemon for "go tool pprof". cpu, mutex and block are
measured over a period, which Ctrl-C ends early; the others are snapshots. A
profile names functions of thoughtgated and contains no data of any call.`,
		Example: `  $ tgctl daemon profile cpu --for 10s -o cpu.pprof
  $ go tool pprof -top cpu.pprof`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: profileKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" && a.OutTerminal {
				return &ui.UsageError{Err: errors.New("a profile is binary and can't be written to a terminal; name a file with -o, or redirect the output"), Path: cmd.CommandPath()}
			}
			if err := a.ToFile(output, func(w io.Writer) error { return a.profile(cmd.Context(), args[0], watch, w) }); err != nil {
				return err
			}
			if output != "" {
				a.PrintMessage("wrote the profile to %s; to view it: go tool pprof -top %s", output, output)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to a new `FILE`")
	cmd.Flags().DurationVar(&watch, "for", watchedFor, "measure for duration `D`")
	return cmd
}

// profile writes a profile. watch is the period of the kinds that cover one.
func (a *app) profile(ctx context.Context, kind string, watch time.Duration, w io.Writer) error {
	c, err := a.DialRunning(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if !slices.Contains(profileKinds[:3], kind) {
		watch = 0
	}
	// Ctrl-C ends the period, not the call: what was seen so far is still written.
	period, cancel := context.WithTimeout(ctx, watch)
	defer cancel()
	return c.Profile(context.WithoutCancel(ctx), kind, period.Done(), w)
}
