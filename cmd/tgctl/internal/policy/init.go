package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

func (a *app) initCmd() *cobra.Command {
	var toStdout bool
	cmd := &cobra.Command{
		Use:   "init [flags]",
		Short: "Write a first configuration for the servers found",
		Long: `Write a thoughtgate.yaml equal to the built-in default, with comments, the
servers in agents' configurations and the recorded tools, as a start for your
own rules. An existing file is never overwritten. Nothing is put in force.`,
		Example: `  $ tgctl policy init
  $ tgctl policy init --print | less`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.policyInit(cmd.Context(), toStdout)
		},
	}
	cmd.Flags().BoolVar(&toStdout, "print", false, "print the configuration and write no file")
	return cmd
}

func (a *app) policyInit(ctx context.Context, toStdout bool) error {
	path, err := a.configPath()
	if err != nil {
		return err
	}
	if !toStdout {
		if _, err := os.Lstat(path); err == nil {
			return initRefused(path, fs.ErrExist)
		}
	}
	seen := a.look(ctx)
	text := seen.starter(a.Now())
	if toStdout {
		_, err := a.Out.Write([]byte(text))
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	// ToFile writes all or nothing: half a configuration is worse than none.
	if err := a.ToFile(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
		return initRefused(path, err)
	}
	found, err := a.check(ctx, path)
	if err != nil {
		return fmt.Errorf("wrote %s, but could not check it: %w", path, err)
	}
	if err := ui.PrintDiagnostics(a.Err, found.GetProblems(), a.Width()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Out, "wrote %s: %s, %s\nIt equals the built-in default. Change it, then: tgctl policy check && tgctl daemon reload\n",
		display.Text(path), ui.Plural(len(seen.servers), "server", "servers"), ui.Plural(seen.tools(), "recorded tool", "recorded tools"))
	return err
}

// configPath returns where the daemon looks for its configuration.
func (a *app) configPath() (string, error) {
	if named, err := a.NamedConfig(); named != "" || err != nil {
		return named, err
	}
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return "", err
	}
	return paths.ConfigFile(), nil
}

// initRefused returns why nothing is written to path.
func initRefused(path string, err error) error {
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return &ui.HintError{Err: fmt.Errorf("%s already exists; nothing was written", path), Hint: "To see a new one, run `tgctl policy init --print`."}
}
