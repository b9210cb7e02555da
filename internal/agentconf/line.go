package agentconf

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Names of tg-shim and of the variables that configure it. Agents pass hardly anything else to
// a server.
const (
	shimName   = "tg-shim"
	envSocket  = "THOUGHTGATE_SOCKET"
	envSession = "THOUGHTGATE_SESSION"

	remoteFlag = "--remote" // in the place of -- and a command
)

// Line is what is inserted into an entry.
type Line struct {
	Shim    string `json:"shim"` // absolute path without links
	Socket  string `json:"socket"`
	Session string `json:"session"`
	Profile string `json:"profile,omitempty"` // production or development; empty for the one of the configuration

	// Set for a single entry only; see Entry.
	Remote bool     `json:"-"`
	From   string   `json:"-"`
	Sets   []string `json:"-"`
}

// check returns an error if the line can't be written to a configuration file, or is
// incomplete.
func (l Line) check() error {
	for _, s := range []string{l.Shim, l.Socket, l.Session, l.Profile} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("%q is not UTF-8 and can't be written to a configuration", s)
		}
	}
	if !filepath.IsAbs(l.Shim) || !filepath.IsAbs(l.Socket) || l.Session == "" {
		return fmt.Errorf("incomplete tg-shim entry: shim %q, socket %q, session %q", l.Shim, l.Socket, l.Session)
	}
	return nil
}

// words returns the texts that are inserted before the arguments of an entry. name and command
// are texts in the syntax of the file, so that they can be moved without decoding.
func (l Line) words(name, command string, syntax edit.Syntax) []string {
	words := []string{syntax.Quote("--server-id"), name}
	if l.Profile != "" {
		words = append(words, syntax.Quote("--profile"), syntax.Quote(l.Profile))
	}
	if l.From != "" {
		words = append(words, syntax.Quote("--from"), syntax.Quote(l.From))
		for _, name := range l.Sets {
			words = append(words, syntax.Quote("--sets"), syntax.Quote(name))
		}
	}
	if l.Remote {
		return append(words, syntax.Quote(remoteFlag))
	}
	return append(words, syntax.Quote("--"), command)
}

// env returns the members that are inserted before those of an entry's environment.
func (l Line) env(syntax edit.Syntax) []edit.Member {
	return []edit.Member{
		{Name: envSocket, Value: syntax.Quote(l.Socket)},
		{Name: envSession, Value: syntax.Quote(l.Session)},
	}
}

// shimWords returns how many of the first args are ours, up to and including the server's
// command or --remote, and the server's id. If they are not ours, n is 0.
func shimWords(args []edit.Node) (n int, id string) {
	n, id, _ = parseShimWords(args)
	return n, id
}

// isRemoteLine reports whether the first args are ours, for a server behind an address.
func isRemoteLine(args []edit.Node) bool {
	_, _, remote := parseShimWords(args)
	return remote
}

// parseShimWords is shimWords and isRemoteLine.
func parseShimWords(args []edit.Node) (n int, id string, remote bool) {
	named := false
	for n < len(args) {
		word := args[n].Text()
		if word == remoteFlag && named {
			return n + 1, id, true
		}
		if n+1 == len(args) {
			break
		}
		switch word {
		case "--server-id":
			id, named = args[n+1].Text(), true
		case "--profile", "--from", "--sets":
		case "--":
			if !named || args[n+1].Kind() != edit.String {
				return 0, "", false
			}
			return n + 2, id, false
		default:
			return 0, "", false
		}
		n += 2
	}
	return 0, "", false
}

// isShim reports whether command starts tg-shim: this program or a copy of it under any name,
// or any program of its name. It does not rely on what a file says about itself.
func isShim(command, shim string, env Env) bool {
	if filepath.Base(command) == shimName {
		return true
	}
	real, err := filepath.EvalSymlinks(env.program(command))
	if err != nil {
		return false
	}
	if filepath.Base(real) == shimName {
		return true
	}
	there, err := os.Stat(real)
	if err != nil {
		return false
	}
	ours, err := os.Stat(shim)
	return err == nil && (os.SameFile(there, ours) || isCopy(real, shim, there, ours))
}

// isCopy reports whether two programs have the same content.
func isCopy(a, b string, aInfo, bInfo fs.FileInfo) bool {
	if !aInfo.Mode().IsRegular() || aInfo.Size() != bInfo.Size() {
		return false
	}
	one, failed := os.ReadFile(a)
	two, err := os.ReadFile(b)
	return failed == nil && err == nil && bytes.Equal(one, two)
}

// program returns the path of the program that a command starts, or "" if a name without a path
// is not found.
func (env Env) program(command string) string {
	if strings.Contains(command, "/") {
		return absolute(command, env.Cwd)
	}
	for _, dir := range filepath.SplitList(env.variable("PATH")) {
		if path, err := exec.LookPath(filepath.Join(absolute(dir, env.Cwd), command)); err == nil {
			return path
		}
	}
	return ""
}
