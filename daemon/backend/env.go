package backend

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// ofSession are names of the environment that differ from session to session, or
// from terminal to terminal, and say nothing to a server behind pipes. Names of ours
// belong to them.
var ofSession = []string{
	"_", "OLDPWD", "PWD", "SHLVL", "COLUMNS", "LINES",
	"TERM", "COLORTERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "WINDOWID",
	"TMUX", "TMUX_PANE", "STY", "WINDOW", "GPG_TTY",
	"SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "XDG_SESSION_ID",
	"INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID",
	"CLAUDE_CODE_SSE_PORT",
}

const ours = "THOUGHTGATE_"

// Shared returns the entries of env that a shared server is started with, in order
// of their names: all but those that begin with THOUGHTGATE_ and those that tell one
// session or terminal from another (PWD, TERM, TMUX, SSH_TTY, ...). An entry
// without a name, or the second of a name, is left out.
func Shared(env []string) []string {
	var kept []string
	seen := map[string]bool{}
	for _, entry := range env {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || seen[name] {
			continue
		}
		seen[name] = true
		if !strings.HasPrefix(name, ours) && !slices.Contains(ofSession, name) {
			kept = append(kept, entry)
		}
	}
	slices.Sort(kept)
	return kept
}

// key is equal for specs whose clients may share a process.
func (s *Spec) key() string {
	h := sha256.New()
	part := func(text string) {
		h.Write([]byte(text))
		h.Write([]byte{0})
	}
	for _, text := range []string{s.Server, s.Launch, s.Executable, s.Cwd} {
		part(text)
	}
	for _, list := range [][]string{s.Command, s.Env} {
		for _, text := range list {
			part(text)
		}
		part("")
	}
	return hex.EncodeToString(h.Sum(nil))
}
