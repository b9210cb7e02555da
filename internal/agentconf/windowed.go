package agentconf

import (
	"path/filepath"
	"slices"
	"strings"
)

// windowed are the agents that are applications with windows, with the names of
// their programs. Their commands are launchers: they return at once, and what they
// started, or an instance that ran before, starts the servers.
var windowed = []struct{ agent, programs string }{
	{"claude-desktop", "claude-desktop"},
	{"cursor", "cursor"},
	{"vscode", "code code-insiders code-oss codium codium-insiders"},
	{"windsurf", "windsurf windsurf-next"},
	{"zed", "zed-editor zed zeditor"},
}

// inTerminal are commands of such agents that have no windows.
var inTerminal = []string{"cursor-agent"}

// Windowed reports whether agents of a type are applications with windows.
func Windowed(agent string) bool {
	return slices.ContainsFunc(windowed, func(w struct{ agent, programs string }) bool { return w.agent == agent })
}

// Launches reports whether the command only launches an application with windows.
func Launches(agent string, command []string) bool {
	words := launched(command)
	return Windowed(agent) && (len(words) == 0 || !slices.Contains(inTerminal, filepath.Base(words[0])))
}

// IsProgram reports whether a program is that of a windowed agent's application: by
// the bundle that it lies in, or by its name. Where the command itself has such a
// name, only that one counts: `code` is not `codium`.
func IsProgram(agent string, command []string, path string) bool {
	if is, ok := detectBundle(path); ok {
		return is == agent
	}
	base := strings.ToLower(filepath.Base(strings.TrimSuffix(path, " (deleted)")))
	for _, w := range windowed {
		names := strings.Fields(w.programs)
		if w.agent != agent {
			continue
		}
		if words := launched(command); agent == "vscode" && len(words) > 0 && slices.Contains(names, filepath.Base(words[0])) {
			return base == filepath.Base(words[0])
		}
		return slices.Contains(names, base)
	}
	return false
}
