package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// manPages writes the pages with the real schema. It returns them by file name, without
// roff escapes.
func manPages(t *testing.T) (dir string, pages map[string]string) {
	t.Helper()
	bin, err := builtPrograms()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "man")
	c := newConsole("")
	c.app.Executable = func() (string, error) { return filepath.Join(bin, "tgctl"), nil }
	c.app.Getenv = func(name string) string { return map[string]string{"SOURCE_DATE_EPOCH": "1795000000"}[name] }
	if code := c.run(t, "man", dir); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	pages = map[string]string{}
	read := strings.NewReplacer(`\-`, "-", `\fB`, "", `\fI`, "", `\fR`, "", `\(aq`, "'", `\(ti`, "~", `\(ha`, "^", `\&`, "", `\e`, `\`)
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		pages[entry.Name()] = read.Replace(string(text))
	}
	return dir, pages
}

// Each command that help lists has a page with the same contents.
func TestManPages(t *testing.T) {
	_, pages := manPages(t)
	nameOf := func(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }
	count := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		count++
		name := nameOf(cmd) + ".1"
		page := pages[name]
		want := []string{`"1" "2026-11-18"`, "\n" + ui.UsageLine(cmd) + "\n", strings.TrimSpace(strings.Split(cmd.Example, "\n")[0])}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { want = append(want, "\n.TP\n", "--"+f.Name) })
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				want = append(want, nameOf(sub)+"(1)\n")
				check(sub)
			}
		}
		for _, part := range want {
			if !strings.Contains(page, part) {
				t.Errorf("%s lacks %q:\n%s", name, part, page)
			}
		}
	}
	check(newConsole("").app.rootCmd())
	if count < 30 || len(pages) != count+1 {
		t.Errorf("%d commands and %d pages; want one for each, and thoughtgate.yaml.5", count, len(pages))
	}
}

// The formatter reports no problem in any page.
func TestManPagesAreFormatted(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not here to format man pages with")
	}
	dir, pages := manPages(t)
	all := []string{"-man", "-Tutf8", "-ww", "-z"}
	for name := range pages {
		all = append(all, filepath.Join(dir, name))
	}
	if out, err := exec.Command(groff, all...).CombinedOutput(); err != nil || len(out) > 0 { // which name the page
		t.Errorf("%v\n%s", err, out)
	}
}
