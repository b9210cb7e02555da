package agentconf

import (
	"slices"
	"strings"
	"testing"
)

// Every agent type must be listed as windowed or as not windowed, so that a new one is not
// forgotten.
func TestWindowed(t *testing.T) {
	terminal := strings.Fields("claude-code gemini qwen opencode copilot-cli cline codex goose crush droid kiro amp antigravity devin custom")
	for _, name := range Names() {
		if Windowed(name) == slices.Contains(terminal, name) {
			t.Errorf("%s: windowed %v", name, Windowed(name))
		}
	}
}

func TestLaunches(t *testing.T) {
	for command, want := range map[string]bool{
		"cursor .": true, "cursor-agent": false, "code --new-window": true, "open -a Cursor": true, "flatpak run dev.zed.Zed": true,
		"claude": false, "/Applications/Cursor.app/Contents/Resources/app/bin/code": true, "claude-desktop": true, "windsurf x": true, "zeditor": true,
	} {
		agent, _ := Detect(strings.Fields(command))
		if got := Launches(agent, strings.Fields(command)); got != want {
			t.Errorf("%s (%s): %v", command, agent, got)
		}
	}
	if !Launches("cursor", []string{"anything"}) || Launches("codex", []string{"cursor"}) {
		t.Error("the type that is named does not count")
	}
}

func TestIsProgram(t *testing.T) {
	for _, test := range []struct {
		agent, command, path string
		want                 bool
	}{
		{"vscode", "code .", "/usr/share/code/code", true},
		{"vscode", "/usr/bin/code .", "/usr/share/code/code (deleted)", true},
		{"vscode", "code .", "/usr/share/codium/codium", false},
		{"vscode", "my-launcher", "/usr/share/codium/codium", true},
		{"cursor", "cursor", "/tmp/.mount_Cursor/usr/share/cursor/Cursor", true},
		{"cursor", "cursor", "/usr/share/code/code", false},
		{"cursor", "open -a Cursor", "/Applications/Cursor.app/Contents/Frameworks/Cursor Helper (Plugin).app/Contents/MacOS/Cursor Helper (Plugin)", true},
		{"zed", "zed", "/home/a/.local/zed.app/libexec/zed-editor", true},
		{"claude-desktop", "claude-desktop", "/home/a/.local/bin/claude", false},
		{"custom", "x", "/x", false},
	} {
		if got := IsProgram(test.agent, strings.Fields(test.command), test.path); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
