package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// hookRuns is the number of hooks that a way runs in a turn.
const hookRuns = 50

// measureAgentHook runs a hook before each of some commands of an agent, which is this program: that
// of tg-shim, and one that does nothing.
func measureAgentHook(h *fixture, r *report, o options) error {
	nothing, note, err := h.emptyProgram()
	if err != nil {
		return err
	}
	event := fmt.Appendf(nil, `{"hook_event_name":"PreToolUse","session_id":"s","tool_use_id":"t","cwd":%q,"tool_name":"Bash","tool_input":{"command":"go test ./... | tail -n 5"}}`, h.dir)
	commands := map[int][]string{
		direct: {nothing},
		ours:   {filepath.Join(h.bin, "tg-shim"), "hook", "--socket", filepath.Join(h.dir, "run/thoughtgate/shim.sock"), "claude-code"},
	}
	middle, late := compared{}, compared{}
	c := h.contest().without(func(place int) bool { return commands[place] == nil })
	err = c.inTurns(o.turns, func(place int) error {
		var took []time.Duration
		for range hookRuns {
			cmd := exec.Command(commands[place][0], commands[place][1:]...)
			cmd.Stdin = bytes.NewReader(event)
			began := time.Now()
			out, err := cmd.CombinedOutput()
			if err != nil || len(out) > 0 {
				return fmt.Errorf("%s: %w: it prints %q", commands[place][0], err, out)
			}
			took = append(took, time.Since(began))
		}
		middle.note(place, millis(quantile(took, .5)))
		late.note(place, millis(quantile(took, .99)))
		return nil
	})
	if err != nil {
		return err
	}
	add := func(name string, all compared) {
		r.add(name, row{Direct: over(all[direct]), Ours: over(all[ours]), Added: over(all.added(ours)), Note: note})
	}
	add("hook.p50", middle)
	add("hook.p99", late)
	return nil
}

// emptyProgram returns a program that does nothing: a static one in C, if there is a compiler.
func (h *fixture) emptyProgram() (path, note string, err error) {
	source, path := filepath.Join(h.dir, "nothing.c"), filepath.Join(h.dir, "nothing")
	if err := os.WriteFile(source, []byte("int main(void) { return 0; }\n"), 0o600); err != nil {
		return "", "", err
	}
	if exec.Command("cc", "-O1", "-static", "-o", path, source).Run() == nil {
		return path, "", nil
	}
	path, err = exec.LookPath("true")
	return path, "direct is true(1), since there is no C compiler", err
}
