package policy

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) checkCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "check [FILE...] [flags]",
		Short: "Report all errors in a configuration",
		Long: `Read a configuration and the policies it names, and report all errors with their
positions. Nothing is put in force. Without FILE, the configuration that
THOUGHTGATE_CONFIG names is checked, or else the daemon's. A FILE called
.thoughtgate.yaml is checked as a project's file, which has fewer keys. Works
without a daemon. Exits 4 if there are errors. With --json, one object for each
problem; severity is error or warning.`,
		Example: `  $ tgctl policy check
  $ tgctl policy check ./thoughtgate.yaml && tgctl daemon reload`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{a.Getenv(connect.ConfigVar)}
			}
			return a.checkAll(cmd.Context(), args)
		},
	}, &pb.Diagnostic{})
}

func (a *app) checkAll(ctx context.Context, paths []string) error {
	failed := false
	for _, path := range paths {
		found, err := a.check(ctx, path)
		if err != nil {
			return err
		}
		if err := a.printChecked(found); err != nil {
			return err
		}
		failed = failed || ui.CountErrors(found.GetProblems()) > 0
	}
	if failed {
		return &ui.ExitError{Code: ui.ExitCheck}
	}
	return nil
}

// check has the daemon check the configuration at path, or a thoughtgated process if no daemon
// is running.
func (a *app) check(ctx context.Context, path string) (*pb.ValidateResponse, error) {
	path, err := connect.Absolute(path)
	if err != nil {
		return nil, err
	}
	c, done, err := a.policies(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return c.Validate(ctx, path)
}

// CheckWith has program check the configuration at path as if it were started with env.
func CheckWith(ctx context.Context, program, path string, env []string) (*pb.ValidateResponse, error) {
	c, done, err := policiesOf(ctx, program, env)
	if err != nil {
		return nil, err
	}
	defer done()
	return c.Validate(ctx, path)
}

// CheckBundle has the daemon check the policy of a fleet, or a thoughtgated process if no daemon is
// running. It prints what is wrong, and returns an error if that is an error.
func CheckBundle(ctx context.Context, base *connect.App, bundle []byte) error {
	a := &app{base}
	c, done, err := a.policies(ctx)
	if err != nil {
		return err
	}
	defer done()
	found, err := c.ValidateBundle(ctx, bundle)
	if err != nil {
		return err
	}
	if err := ui.PrintDiagnostics(a.Err, found.GetProblems(), a.Width()); err != nil {
		return err
	}
	if bad := ui.CountErrors(found.GetProblems()); bad > 0 {
		return fmt.Errorf("the policy has %s; nothing was published", ui.Plural(bad, "error", "errors"))
	}
	return nil
}

func (a *app) printChecked(found *pb.ValidateResponse) error {
	if a.AsJSON {
		return ui.PrintAllJSON(a, found.GetProblems())
	}
	if err := ui.PrintDiagnostics(a.Out, found.GetProblems(), a.Width()); err != nil {
		return err
	}
	bad, name := ui.CountErrors(found.GetProblems()), SourceName(found.GetPath())
	warnings := ui.Some(len(found.GetProblems())-bad, "warning", "warnings", "")
	if bad > 0 {
		a.PrintMessage("%s: %s", name, ui.Join(ui.NonEmpty(ui.Plural(bad, "error", "errors"), warnings), ", "))
		return nil
	}
	line := string(name) + ": ok: " + Summary(found.GetSet())
	if found.GetSet().GetProject() {
		line = fmt.Sprintf("%s: ok: a project's file, %s", name, ui.Plural(found.GetSet().GetRules(), "rule", "rules"))
	}
	line += string(ui.Choose(warnings != "", "; "+warnings, ""))
	if path, err := a.configPath(); err == nil && found.GetPath() == "" {
		line += "; no file " + string(display.Text(path))
	}
	_, err := fmt.Fprintln(a.Out, line)
	return err
}
