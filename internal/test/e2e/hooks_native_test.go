package e2e

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHookAsksNatively has Claude Code ask its own user at a terminal: what is allowed there by a
// key runs once, what is refused does not, and the record says who asked. A rule of its own that
// allows the tool does not answer for the user. Where it only prints an answer, ThoughtGate asks.
func TestHookAsksNatively(t *testing.T) {
	needProc(t)
	a := hookedAgents[slices.IndexFunc(hookedAgents, func(a hookedAgent) bool { return a.program == "claude" })]
	program := a.installed(t)
	t.Parallel()
	h := newFixture(t)
	h.rules(hookRules + "hooks: {claude-code: {ask: native}}\n")
	h.launcher(a.program, program)
	for name, text := range a.files {
		h.write(name, text, 0o600)
	}
	h.startDaemon()
	a.protect(h)
	h.write("home/.claude.json", h.text(map[string]any{
		"hasCompletedOnboarding": true, "theme": "dark", "customApiKeyResponses": map[string]any{"approved": []string{"dummy"}},
		"projects": map[string]any{h.path("work"): map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
	}), 0o600)

	model := newToolUser(t, a.deletes(h, "allowed"), a.deletes(h, "refused"))
	cmd := exec.Command(filepath.Join(h.bin, "claude"), "--permission-mode", "default", "--allowedTools", "Bash,Write", "--", "hello")
	cmd.Env, cmd.Dir = slices.Concat(h.env, offline), h.path("work")
	for _, word := range a.env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(word, "@model", model.URL))
	}
	s := h.onScreen(cmd)
	defer s.close()
	asks := func(n int) func() bool {
		return func() bool { return count(h.log(), "call", "shell", "forward") == n }
	}
	if !eventually(asks(1), 5*time.Minute) || !eventually(s.shows("ThoughtGate asks:"), patience) || !eventually(s.shows("in no commit"), patience) {
		t.Fatalf("Claude Code does not ask: %q\n%+v", s.out, h.log())
	}
	h.wantRuns("allowed", 0)
	if !s.press("\r", asks(2)) {
		t.Fatalf("the next call is not asked about: %q", s.out)
	}
	h.wantRuns("allowed", 1)
	if !s.press("\x1b", s.shows("Interrupted")) {
		t.Errorf("nothing is interrupted: %q", s.out)
	}
	h.wantRuns("refused", 0)
	s.close()
	var got []string
	told := func() bool {
		got = nil
		for _, l := range h.log() {
			if l.Kind == "call" || l.Kind == "outcome" {
				got = append(got, l.Kind+" "+l.Verdict+" "+l.Surface)
			}
		}
		return len(got) == 4
	}
	want := []string{"call forward host", "outcome ok host", "call forward host", "outcome unknown host"}
	if !eventually(told, patience) || !slices.Equal(got, want) {
		t.Errorf("on record: %q, want %q", got, want)
	}

	held := a.deletes(h, "held")
	held.during = func() { h.approve() }
	a.args = append([]string{"--permission-mode", "default"}, a.args...)
	a.use(h, nil, held)
	h.wantRuns("held", 1)
}
