package agenthook

import (
	"strconv"
	"strings"
	"time"
)

// form is how an agent writes the entry of a hook. The zero form has no entries.
type form uint8

const (
	formDirect form = iota + 1 // a group with the program and its arguments as a list
	formGroup                  // a group with a command line for a shell
	formFlat                   // no group
	formBash                   // no group, and names of its own
	formPlugin                 // no group, for a plugin of ours
	formLine                   // no group, and nothing but a command line and the timeout
	formEvery                  // a group without a matcher, which would be a regular expression
)

// reportLimit is how long an agent is made to wait for a hook that can't deny anything.
const reportLimit = 30 * time.Second

// Entry is what stands in an agent's configuration for one event, under hooks and the event's
// name: an item of a list, as JSON.
type Entry struct{ Event, Text string }

// Entries returns the entries by which the agent runs tg-shim at the path shim. session is the
// protection or the session that writes them.
func (c *Contract) Entries(shim, socket, session string) []Entry {
	if c.form == 0 {
		return nil
	}
	var all []Entry
	for _, event := range c.Hooks {
		limit, judges := reportLimit, c.Events[event] == Before
		if judges {
			limit = c.Limit
		}
		words := []string{"hook", "--socket", socket, "--session", session, "--limit", limit.String()}
		if !judges {
			words = append(words, "--report")
		}
		all = append(all, Entry{event, string(c.entry(shim, append(words, c.Agent), limit, judges))})
	}
	return all
}

// entry returns one entry. judges says that the event can be denied.
func (c *Contract) entry(shim string, words []string, limit time.Duration, judges bool) []byte {
	timeout := strconv.AppendInt(nil, int64(limit/max(c.Unit, 1)), 10)
	line := text(shellQuoted(append([]string{shim}, words...)))
	switch c.form {
	case formFlat:
		entry := []any{"command", line, "timeout", timeout}
		if judges && c.Blocks {
			entry = append(entry, "failClosed", []byte("true"))
		}
		return members(entry...)
	case formBash:
		return members("type", text("command"), "bash", line, "timeoutSec", timeout)
	case formPlugin:
		return members("command", text(shim), "args", list(words), "timeout", timeout)
	case formLine:
		if c.Unit == 0 {
			return members("command", line)
		}
		return members("command", line, "timeout", timeout)
	case formEvery:
		hook := []any{"type", text("command"), "command", line, "timeout", timeout}
		if judges && c.Blocks {
			hook = append(hook, "on_failure", text("block"))
		}
		return members("hooks", append(append([]byte("["), members(hook...)...), ']'))
	}
	hook := []any{"type", text("command"), "command", line, "timeout", timeout}
	if c.form == formDirect {
		hook = []any{"type", text("command"), "command", text(shim), "args", list(words), "timeout", timeout}
		if judges && c.Blocks {
			hook = append(hook, "onFailure", text("block"))
		}
	}
	return members("matcher", text("*"), "hooks", append(append([]byte("["), members(hook...)...), ']'))
}

// Empty returns the text of a configuration without any entry, which stands for no file.
func (c *Contract) Empty() string {
	switch c.form {
	case formFlat, formBash:
		return "{\n  \"version\": 1\n}\n"
	case formPlugin:
		return plugin
	}
	return "{}\n"
}

// list returns a JSON array of strings.
func list(words []string) []byte {
	var quoted []string
	for _, word := range words {
		quoted = append(quoted, string(text(word)))
	}
	return []byte("[" + strings.Join(quoted, ",") + "]")
}

// shellQuoted returns a command line that a shell splits into words again.
func shellQuoted(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// Owner returns the session that the command line of a hook names, if the hook is an entry of
// ours. Of an entry that gives a command line to a shell, args is nil.
func Owner(command string, args []string) (shim, session string, ours bool) {
	words := append([]string{command}, args...)
	if args == nil {
		words = shellWords(command)
	}
	if len(words) < 2 || words[1] != "hook" || words[0][strings.LastIndexByte(words[0], '/')+1:] != "tg-shim" {
		return "", "", false
	}
	for i, word := range words[:len(words)-1] {
		if word == "--session" {
			session = words[i+1]
		}
	}
	return words[0], session, true
}

// shellWords splits a command line that has only plain words and words in single quotes. It
// returns nil for any other.
func shellWords(line string) []string {
	var words []string
	word, quoted, open := strings.Builder{}, false, false
	for i := 0; i < len(line); i++ {
		switch b := line[i]; {
		case b == '\'':
			quoted, open = !quoted, true
		case quoted:
			word.WriteByte(b)
		case b == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			open = true
		case b == ' ' && open:
			words = append(words, word.String())
			word.Reset()
			open = false
		case b == ' ':
		case strings.IndexByte("\"$`|&;<>()*?#~\n", b) >= 0:
			return nil
		default:
			word.WriteByte(b)
			open = true
		}
	}
	if quoted {
		return nil
	}
	if open {
		words = append(words, word.String())
	}
	return words
}
