package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// testPattern matches the names of test files.
const testPattern = "*.test.yaml"

// testJSON adds to a test result its file, and whether there are no differences.
type testJSON struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
}

func (a *app) testCmd() *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:   "test [FILE...] [flags]",
		Short: "Test a configuration against files of expected verdicts",
		Long: `Judge the calls in each FILE and compare the verdicts with the expected ones.
Without FILE, all ` + testPattern + ` files beside the configuration are used. The
configuration is the one that --config names, or else the one that the file
names, or else the daemon's as it is on disk; it need not be in force. Works
without a daemon. Exits 4 if a verdict differs. With --json, one object for each
test, and for each problem with a file one like those of policy check.`,
		Example: `  $ tgctl policy test
  $ tgctl policy test ci/*.test.yaml --config thoughtgate.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.policyTest(cmd.Context(), config, args)
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "test `FILE` instead of the daemon's configuration")
	return a.WithJSON(cmd, pbjson.Object{Message: &pb.TestResult{}, More: testJSON{}}, &pb.Diagnostic{})
}

func (a *app) policyTest(ctx context.Context, config string, paths []string) error {
	config, err := connect.Absolute(config)
	if err != nil {
		return err
	}
	c, done, err := a.policies(ctx)
	if err != nil {
		return err
	}
	defer done()
	if len(paths) == 0 {
		if paths, err = testFiles(ctx, c, config); err != nil {
			return err
		}
	}
	failed := false
	for _, path := range paths {
		result, err := testFile(ctx, c, config, path)
		if err != nil {
			return err
		}
		good, err := a.printTested(result)
		if err != nil {
			return err
		}
		failed = failed || !good
	}
	if failed {
		return &ui.ExitError{Code: ui.ExitCheck}
	}
	return nil
}

// testFiles returns the test files beside a configuration.
func testFiles(ctx context.Context, c *client.Client, config string) ([]string, error) {
	if config == "" {
		checked, err := c.Validate(ctx, "")
		if err != nil {
			return nil, err
		}
		config = checked.GetPath()
	}
	if config == "" {
		return nil, ui.Misuse("name a FILE: there is no configuration, so no %s beside it", testPattern)
	}
	dir := filepath.Dir(config)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if ok, err := filepath.Match(testPattern, e.Name()); err == nil && ok && !e.IsDir() {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	if len(found) == 0 {
		return nil, ui.Misuse("name a FILE: there is no %s in %s", testPattern, dir)
	}
	return found, nil
}

func testFile(ctx context.Context, c *client.Client, config, path string) (*pb.TestFileResult, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, ui.FileError("read the expected verdicts", err)
	}
	out, err := c.TestPolicies(ctx, &pb.TestPoliciesRequest{Config: config, Files: []*pb.TestFile{{Path: path, Text: text}}})
	if err != nil {
		return nil, err
	}
	if n := len(out.GetFiles()); n != 1 {
		return nil, fmt.Errorf("test %s: %d results for one file", path, n)
	}
	return out.GetFiles()[0], nil
}

// printTested prints the result of a test file, and reports whether everything is as expected.
func (a *app) printTested(f *pb.TestFileResult) (good bool, err error) {
	bad := ui.CountErrors(f.GetProblems())
	different := ui.Filter(f.GetResults(), func(r *pb.TestResult) bool { return len(r.GetDifferences()) > 0 })
	good = bad == 0 && len(different) == 0
	if a.AsJSON {
		lines := ui.Map(f.GetResults(), func(r *pb.TestResult) pbjson.Object {
			return pbjson.Object{Message: r, More: testJSON{f.GetPath(), len(r.GetDifferences()) == 0}}
		})
		return good, errors.Join(ui.PrintAllJSON(a, f.GetProblems()), ui.PrintAllJSON(a, lines))
	}
	if err := ui.PrintDiagnostics(a.Out, f.GetProblems(), a.Width()); err != nil {
		return false, err
	}
	var b strings.Builder
	for _, r := range different {
		b.WriteString(differenceText(f.GetPath(), r))
	}
	name := display.Text(f.GetPath())
	switch {
	case bad > 0:
		fmt.Fprintf(&b, "%s: no calls were judged\n", name)
	case len(different) > 0:
		fmt.Fprintf(&b, "%s: %s not as expected, of %s\n", name, ui.Plural(len(different), "verdict", "verdicts"), display.Count(len(f.GetResults())))
	default:
		fmt.Fprintf(&b, "%s: %s as expected\n", name, ui.Plural(len(f.GetResults()), "verdict", "verdicts"))
	}
	_, err = a.Out.Write([]byte(b.String()))
	return good, err
}

// differenceText shows the differences of a test: expected and actual.
func differenceText(path string, r *pb.TestResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d: %s\n", display.Text(path), r.GetLine(), display.Text(r.GetName()))
	for _, d := range r.GetDifferences() {
		fmt.Fprintf(&b, "  - %-9s%s\n", display.Name(d.GetWhat()), orNothing(d.GetWant()))
		fmt.Fprintf(&b, "  + %-9s%s\n", display.Name(d.GetWhat()), orNothing(d.GetGot()))
	}
	for _, c := range r.GetGot().GetCited() {
		fmt.Fprintf(&b, "    by %s\n", strings.ReplaceAll(string(display.Name(c.GetKind())+" "+citation(c)), "\n", ", "))
	}
	if reason := r.GetGot().GetReason(); reason != "" {
		fmt.Fprintf(&b, "    since %s\n", display.Text(reason))
	}
	return b.String()
}

func orNothing(text string) display.Safe { return display.Text(cmp.Or(text, "none")) }
