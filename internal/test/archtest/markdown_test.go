package archtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// pages reads the Markdown files that people start from, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, root := range []string{"README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "contrib", "extensions"} {
		walk(t, root, func(path string, text []byte) {
			if strings.HasSuffix(path, ".md") {
				found[path] = string(text)
			}
		})
	}
	return found
}

// fenced returns the blocks of code of a language in a page.
func fenced(page, language string) []string {
	var blocks []string
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, block[1])
	}
	return blocks
}

// TestReadmeLength keeps the README a page that one reads.
func TestReadmeLength(t *testing.T) {
	if lines := strings.Count(pages(t)["README.md"], "\n"); lines == 0 || lines >= 150 {
		t.Errorf("README.md has %d lines, want some and fewer than 150; docs/ takes more", lines)
	}
}

// TestLinks follows what a page links to within the repository.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for path, text := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target := filepath.Join(top, filepath.Dir(path), found[1])
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", path, found[1])
			}
		}
	}
}

// TestFirstConfigurations puts those of the first pages through the reader that
// the daemon has. Those of docs/policies.md are judged under in daemon/policy.
func TestFirstConfigurations(t *testing.T) {
	all := pages(t)
	for _, path := range []string{"README.md", "docs/quickstart.md", "docs/tools.md", "docs/metrics.md"} {
		blocks := fenced(all[path], "yaml")
		if len(blocks) == 0 {
			t.Errorf("%s shows no configuration", path)
		}
		for _, block := range blocks {
			if _, problems := config.Parse(path, []byte(block), os.Getenv); len(problems) > 0 {
				t.Errorf("%s: %v\n%s", path, problems, block)
			}
		}
	}
}

// TestVerifyWithoutUs runs the shell lines of docs/audit.md over a whole log and
// over a damaged one.
func TestVerifyWithoutUs(t *testing.T) {
	for _, program := range []string{"sh", "sha256sum"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not here to verify a log with", program)
		}
	}
	blocks := fenced(pages(t)["docs/audit.md"], "sh")
	if len(blocks) != 1 {
		t.Fatalf("docs/audit.md has %d blocks of shell, want one", len(blocks))
	}
	home := t.TempDir()
	log := filepath.Join(home, ".local/state/thoughtgate/audit/000001.jsonl")
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	lines := someLog()
	run := func(content []byte) string {
		t.Helper()
		if err := os.WriteFile(log, content, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", blocks[0])
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if got := run(lines); got != "" {
		t.Errorf("a whole log: %q, want nothing", got)
	}
	changed := bytes.Replace(lines, []byte("write_file"), []byte("white_file"), 1)
	if got := run(changed); !strings.HasPrefix(got, "broken at ") {
		t.Errorf("a changed log: %q, want where it is broken", got)
	}
}

// someLog is a log of a few records, one of them with values.
func someLog() []byte {
	var lines []byte
	var chain record.Chain
	for i, tool := range []string{"read_file", "write_file", `a "quoted\" name`, "write_file"} {
		var values []byte
		if i == 1 {
			values = []byte(`"arguments":{"path":"a"}`)
		}
		lines, chain = chain.Append(lines, &record.Record{Kind: record.KindCall, Tool: tool}, values)
	}
	return lines
}
