package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lineEditor is an editor that checks the state of the terminal, reads a line from it, and
// writes it as the text of the note.
const lineEditor = `stty -a | grep -q '[^-]icanon.*[^-]echo ' && echo "the terminal is as an editor wants it"
printf 'new text: '
read -r line
printf '{"name": "plan", "text": "%s"}\n' "$line" > "$1"
`

// TestWatchEditsAndGrants runs the queue in a real terminal. It edits arguments, which gives
// the terminal to the editor and takes it back, and approves with a grant.
func TestWatchEditsAndGrants(t *testing.T) {
	h := newTmuxFixture(t, "export EDITOR='sh ./editor.sh'; "+watchScript)
	h.write("editor.sh", lineEditor)
	h.write("script.txt", "call notes write_note {\"name\": \"plan\", \"text\": \"ship it\"}\n"+
		"call notes write_note {\"name\": \"plan\", \"text\": \"ship nothing\"}\ncall notes write_note {\"name\": \"plan\", \"text\": \"ship all\"}\n")
	h.sees("No question is waiting")
	agent := h.command("tgctl", "wrap", "--agent-type", "custom", "--config-path", "mcp.json", "--", "fake-agent", "mcp.json", "script.txt")
	var said bytes.Buffer
	agent.Stdout, agent.Stderr = &said, &said
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}

	h.sees("> A-1 ", "g grant", "e edit")
	h.press("Down", "e")
	h.sees("the terminal is as an editor wants it", "new text:")
	h.press("-l", "ship it on Monday")
	h.press("Enter")
	h.sees("EDITED", "your arguments", "ship it on Monday", "lines 1-")
	h.press("End")
	h.sees("the call of the agent", "No approved call", "in the log") // when what was approved before is known
	h.press("Home")
	h.sees("lines 1-")
	h.golden("edited")
	h.press("End")
	h.sees("the call of the agent", "in the log")
	h.press("a")
	h.sees("Approve A-1", "with your arguments? y/N")
	h.press("y")

	h.sees("> A-2 ", "g grant")
	h.press("Down", "g")
	h.sees("match args", "for   1h_", "enter next")
	h.press("Right", "Down", "Space", "End", "Right")
	h.sees("> in    project", "[x] name", "the same name, in the project, for 1 h")
	h.golden("grant")
	h.must("tmux", "resize-window", "-x", "40", "-y", "12")
	h.sees("up/down  left/right  enter  esc", "> in    project")
	h.golden("grant-small")
	h.press("Enter")
	h.sees("Approve A-2", "and grant this? y/N")
	h.press("y")
	h.sees("No question is waiting", "A-2 approved")

	if err := agent.Wait(); err != nil {
		t.Errorf("the agent: %v", err)
	}
	if n := strings.Count(said.String(), "write_note: error false"); n != 3 || !strings.Contains(said.String(), "A person changed the arguments") {
		t.Errorf("%d calls went on:\n%s", n, said.String())
	}
	done, err := os.ReadFile(filepath.Join(h.dir, "done.log"))
	if err != nil || bytes.Count(done, []byte("write_note")) != 3 || !bytes.Contains(done, []byte("ship it on Monday")) || bytes.Contains(done, []byte(`"ship it"`)) {
		t.Errorf("the server did, %v:\n%s", err, done)
	}
	if grants := h.must("tgctl", "grants"); !strings.Contains(grants, "G-1") || !strings.Contains(grants, "with the same name, in /") {
		t.Errorf("granted is\n%s", grants)
	}
	h.press("q")
	h.sees("exit 0", "as before")
	h.tmux("kill-server")
}

// A SIGINT typed while the editor has the terminal is for the editor: the queue keeps running,
// and nothing is answered.
func TestWatchLeavesInterruptsToTheEditor(t *testing.T) {
	h := newTmuxFixture(t, "export EDITOR='sh ./editor.sh'; "+watchScript)
	h.write("editor.sh", "trap 'echo \"the editor was interrupted\"' INT\necho \"the editor is there\"\nread -r line\nread -r line\n")
	h.sees("No question is waiting")
	agent := h.command("tgctl", "wrap", "--agent-type", "custom", "--config-path", "mcp.json", "--", "fake-agent", "mcp.json", "script.txt")
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	h.sees("> A-1 ", "e edit")
	h.press("Down", "e")
	h.sees("the editor is there")
	h.press("C-c")
	h.sees("the editor was interrupted")
	h.press("Enter", "Enter")
	h.sees("nothing was answered", "esc back")
	h.press("Escape")
	h.sees("> A-1 ")
	for _, id := range []string{"A-1", "A-2"} {
		h.sees("> " + id + " ")
		h.press("Down", "d")
		h.sees("Deny " + id)
		h.press("Enter")
		h.sees(id + " denied")
	}
	if err := agent.Wait(); err != nil {
		t.Errorf("the agent: %v", err)
	}
	h.press("q")
	h.sees("exit 0", "as before")
	h.tmux("kill-server")
}
