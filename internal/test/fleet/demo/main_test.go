package main

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/programs"
)

// TestDemo runs the demo with the programs as they ship: before the policy everything is done, under it
// one call is denied and one waits for Carl, and after Ann has left everything is done again.
func TestDemo(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("no ssh-keygen here: ", err)
	}
	dir, remove, err := programs.Dir(false)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	var out bytes.Buffer
	if err := run(t.Context(), dir, io.MultiWriter(&out, t.Output())); err != nil {
		t.Fatal(err)
	}
	var done []string // what became of each call of the agent
	for line := range strings.Lines(out.String()) {
		if call, ok := strings.CutPrefix(line, "  agent: "); ok {
			tool, _, _ := strings.Cut(call, " ")
			if strings.Contains(call, "Not executed") {
				tool = "no " + tool
			}
			done = append(done, tool)
		}
	}
	want := "read_note delete_note send_mail, read_note no delete_note send_mail, read_note delete_note send_mail"
	if got := strings.Join(done, " "); got != strings.ReplaceAll(want, ",", "") {
		t.Errorf("the agent's calls: %s; want %s", got, want)
	}
}
