package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Bash completes the values of flags, also without the package bash-completion.
func TestCompletionInBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	daemon := startDay(t)
	daemon.Records = append(daemon.Records, consoletest.Chained([]record.Record{
		{Kind: record.KindAttach, Server: "postgres", Session: "s-7d79"}, {Kind: record.KindAttach, Server: "github", Session: "s-5d41"}, {Kind: record.KindAttach, Server: "files", Session: "s-5d41"},
	})...)
	c := newConsole(daemon.Socket).pipe()
	if code := c.run(t, "completion", "bash"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "tgctl-at-noon"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "tgctl"), []byte("#!/bin/sh\nexec '"+dir+"/tgctl-at-noon' \"$@\"\n"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	const try = `
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_TYPE=9
COMP_POINT=${#COMP_LINE}
__start_tgctl 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"`
	for _, test := range []struct{ line, want string }{
		{"audit --verdict for", "forgotten forward"},
		{"audit --verdict = for", "forgotten forward"}, // as bash splits --verdict=for
		{"audit --kind dec", "decision"},
		{"audit --server ", "files github postgres"},
		{"audit --session ", "s-5d41 s-7d79"},
		{"wrap --agent-type cod", "codex"},
		{"wrap --profile ", "production development"},
		{"approvals deny ", "A-6 A-7 A-8 A-9"},
	} {
		cmd := exec.Command(bash, append([]string{"--norc", "--noprofile", "-c", c.Out.String() + try, "bash", "tgctl"}, strings.Split(test.line, " ")...)...)
		cmd.Env = []string{"PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + dir, "THOUGHTGATE_CONTROL=" + daemon.Socket}
		out, err := cmd.Output()
		var got []string
		for line := range strings.Lines(string(out)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ") // a description follows
			got = append(got, word)
		}
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("tgctl %s<TAB>: %v, %q, want %q", test.line, err, got, test.want)
		}
	}
}
