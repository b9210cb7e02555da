package wrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/agentenv"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// UnwrapCommand returns the command unwrap.
func UnwrapCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	var all bool
	cmd := &cobra.Command{
		Use:   "unwrap [--all | CONFIG...]",
		Short: "Restore configurations that a wrap has rewritten",
		Long: `Remove from each CONFIG what a wrap of any session wrote into it, and print what
was done. Works without a daemon, from the contents of the file and the backups
beside it. A missing file is restored from its backup. A file of a running wrap
is not changed.

With --all, restore every file that the known agents read from this folder, and
any other that a wrap has rewritten and not restored, and remove the copies of
configurations that killed sessions left. Protected files are not changed; see
tgctl unprotect.`,
		Example: `  $ tgctl unwrap ~/.claude.json
  $ tgctl unwrap --all`,
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return errors.New("name the files, or use --all")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !all {
				return a.unwrap(cmd.Context(), args, false)
			}
			paths, err := a.knownConfigs()
			if err != nil {
				return err
			}
			return errors.Join(a.sweepSessions(), a.unwrap(cmd.Context(), paths, true))
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "restore every file that the known agents read from here or that wraps have left")
	return cmd
}

// knownConfigs returns the files that agents started here read, if they exist or have a backup,
// and the files that a wrap rewrote and did not restore.
func (a *app) knownConfigs() ([]string, error) {
	env, err := agentenv.Env(a.App)
	if err != nil {
		return nil, err
	}
	paths := agentconf.Known(env)
	for _, path := range agentconf.Strays(env.Notes) {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// sweepSessions removes the copies of configurations that killed sessions left.
func (a *app) sweepSessions() error {
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return err
	}
	for _, path := range agentconf.SweepPointed(filepath.Join(paths.Runtime, sessionsFolder)) {
		fmt.Fprintf(a.Out, "%s: removed\n", display.Text(path))
	}
	return nil
}

// unwrap restores each file and prints what it did. If one fails, it continues with the others.
// If known, the paths are candidates: missing files and files without ThoughtGate's lines are
// skipped silently.
func (a *app) unwrap(ctx context.Context, paths []string, known bool) error {
	failed, touched := 0, 0
	protected := a.protectedFiles(ctx)
	for _, path := range paths {
		full, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if known && !agentconf.NeedsUnwrap(full) {
			continue
		}
		touched++
		if agent := protected[full]; agent != "" {
			a.PrintMessage("tgctl: %s: not changed: %s is protected; to restore the file, run `tgctl unprotect %s`", display.Text(full), display.Text(agent), display.Text(agent))
			if !known {
				failed++
			}
			continue
		}
		if err := a.unwrapFile(full); err != nil {
			failed++
			a.PrintMessage("tgctl: %s: %s", display.Text(full), display.Text(err.Error()))
		}
	}
	if touched == 0 {
		a.PrintMessage("no file that the known agents read from here, or that a wrap has rewritten, has tg-shim entries")
	}
	if failed > 0 && !known {
		a.PrintMessage("To restore every file that a wrap has rewritten: tgctl unwrap --all")
	}
	if failed > 0 {
		return &ui.ExitError{Code: ui.ExitFailed}
	}
	return nil
}

// unwrapFile restores a file by its own text and its backup, and prints what was done. The
// error does not name the file.
func (a *app) unwrapFile(path string) error {
	report, err := agentconf.Unwrap(path, a.DefaultPath(sock.Paths.Rewrites))
	var locked *agentconf.LockedError
	var at *fs.PathError
	switch {
	case errors.As(err, &locked):
		return fmt.Errorf("not changed: a running wrap (process %d) will restore it", locked.PID)
	case errors.As(err, &at) && at.Path == path:
		return fmt.Errorf("%s: %w", at.Op, at.Err)
	case err != nil:
		return err
	}
	a.printUnwrapped(path, report)
	return nil
}

// printUnwrapped prints what was done to a file.
func (a *app) printUnwrapped(path string, r agentconf.Report) {
	text := "it has no tg-shim entries"
	switch r.State {
	case agentconf.Restored:
		text = "restored as it was"
	case agentconf.Merged:
		text = "the tg-shim entries were removed; everything else was kept"
	}
	text = strings.Join(append([]string{text}, r.Notes...), "; ")
	fmt.Fprintf(a.Out, "%s: %s\n", display.Text(path), display.Text(text))
}
