package agentconf

import (
	"path/filepath"
	"slices"
	"strings"
)

// programsOf are the names of an agent's programs that have windows.
func programsOf(agent string) []string {
	for _, k := range known {
		if k.name == agent {
			return strings.Fields(k.programs)
		}
	}
	return nil
}

// inTerminal are commands of such agents that have no windows.
var inTerminal = []string{"cursor-agent"}

// Windowed reports whether agents of a type are applications with windows.
func Windowed(agent string) bool { return len(programsOf(agent)) > 0 }

// Launches reports whether the command only launches an application with windows.
func Launches(agent string, command []string) bool {
	return Windowed(agent) && !slices.Contains(inTerminal, filepath.Base(launcher(Env{Command: command})))
}

// IsProgram reports whether a program is that of a windowed agent's application: by
// the bundle that it lies in, or by its name. Where the command itself has such a
// name, only that one counts: `code` is not `codium`.
func IsProgram(agent string, command []string, path string) bool {
	if is, ok := detectBundle(path); ok {
		return is == agent
	}
	base := strings.ToLower(filepath.Base(strings.TrimSuffix(path, " (deleted)")))
	names := programsOf(agent)
	if own := filepath.Base(launcher(Env{Command: command})); agent == "vscode" && slices.Contains(names, own) {
		return base == own
	}
	return slices.Contains(names, base)
}
