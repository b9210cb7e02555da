package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// checked is what was found in one configuration.
type checked struct {
	path     string // empty for the built-in default
	problems []*pb.Diagnostic
	set      *pb.PolicySet // nil when there are errors or nobody said
}

func (a *app) policyCheckCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [FILE...] [flags]",
		Short: "Say everything that is wrong with a configuration",
		Long: `Read a configuration and the policies it names, and say everything that is wrong
with them and where. Nothing is put in force. Without FILE, the configuration
that THOUGHTGATE_CONFIG names is checked, else the one that the daemon uses; a
FILE called .thoughtgate.yaml is checked as a project's own, which may say less.
Works without a daemon too. Exits 4 when there are errors. With --json, one
object for each problem; severity is error or warning.`,
		Example: `  $ tgctl policy check
  $ tgctl policy check ./thoughtgate.yaml && tgctl daemon reload`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{a.getenv(configVar)}
			}
			return a.checkAll(cmd.Context(), args)
		},
	}
	jsonFlag(cmd, &a.asJSON, &pb.Diagnostic{})
	return cmd
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
		failed = failed || countErrors(found.problems) > 0
	}
	if failed {
		return &exitError{code: exitCheck}
	}
	return nil
}

// check has the daemon read a configuration, or where none runs the program
// that would be it.
func (a *app) check(ctx context.Context, path string) (*checked, error) {
	if path != "" {
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		path = abs
	}
	c, err := a.dialRunning(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		return a.checkAlone(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	out, err := c.Validate(ctx, path)
	if err != nil {
		return nil, err
	}
	return &checked{path: out.GetPath(), problems: out.GetProblems(), set: out.GetSet()}, nil
}

// checkAlone runs `thoughtgated --check`.
func (a *app) checkAlone(ctx context.Context, path string) (*checked, error) {
	program, err := a.sibling(daemonName)
	if err != nil {
		return nil, err
	}
	return a.checkWith(ctx, program, path, a.environ())
}

// checkWith runs a program with --check.
func (a *app) checkWith(ctx context.Context, program, path string, env []string) (*checked, error) {
	args := []string{"--check", "--json"}
	if path != "" {
		args = append(args, path)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != exitCheck) {
		return nil, fmt.Errorf("%s --check: %w: %s", daemonName, err, strings.TrimSpace(stderr.String()))
	}
	var out struct { // as `thoughtgated --check --json` prints it
		Path     string
		Problems []*struct {
			pb.Diagnostic
			Severity string `json:"severity"`
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		return nil, fmt.Errorf("%s --check: unexpected output: %w", daemonName, err)
	}
	found := &checked{path: out.Path}
	for _, d := range out.Problems {
		d.Diagnostic.Severity = pb.Severity_SEVERITY_ERROR
		if d.Severity == "warning" {
			d.Diagnostic.Severity = pb.Severity_SEVERITY_WARNING
		}
		found.problems = append(found.problems, &d.Diagnostic)
	}
	return found, nil
}

func (a *app) printChecked(found *checked) error {
	if a.asJSON {
		return printAllJSON(a, found.problems)
	}
	if err := printDiagnostics(a.out, found.problems, a.width()); err != nil {
		return err
	}
	bad := countErrors(found.problems)
	warnings := len(found.problems) - bad
	name := display.Text(found.path)
	if name == "" {
		name = "the built-in default"
	}
	var counts []string
	if bad > 0 {
		counts = append(counts, string(plural(bad, "error", "errors")))
	}
	if warnings > 0 {
		counts = append(counts, string(plural(warnings, "warning", "warnings")))
	}
	if bad > 0 {
		a.say("%s: %s", name, strings.Join(counts, ", "))
		return nil
	}
	line := string(name) + ": good"
	if set := found.set; set.GetProject() {
		line += fmt.Sprintf(": a project's file, %s", plural(set.GetRules(), "rule", "rules"))
	} else if set != nil {
		line += fmt.Sprintf(": profile %s, %s, %s", display.Name(set.GetProfile()),
			plural(set.GetRules(), "rule", "rules"), plural(set.GetPolicies(), "Cedar policy", "Cedar policies"))
	}
	if len(counts) > 0 {
		line += "; " + strings.Join(counts, ", ")
	}
	if found.path == "" {
		line += a.noFile()
	}
	_, err := fmt.Fprintln(a.out, line)
	return err
}

// noFile says where there is no configuration.
func (a *app) noFile() string {
	path, err := a.configPath()
	if err != nil {
		return ""
	}
	return "; there is no " + string(display.Text(path))
}
