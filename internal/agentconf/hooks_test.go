//gotest:plain files are changed by one goroutine, and other processes do the rest
package agentconf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// settings returns the file in which Claude Code has hooks.
func (w *world) settings() string { return filepath.Join(w.home, ".claude", "settings.json") }

// ownHooks are settings with hooks of a person, in a hand of their own.
const ownHooks = `{ // mine
  "model" : "m",
	"hooks": {
    "PreToolUse": [
        {"matcher": "Bash", "hooks": [ {"type":"command","command":"lint '$x'"}, ]}, /* first */
      { "hooks": [{"type": "command", "command": "/usr/bin/true"}] } ],
    "Stop": [],
  } }
`

// hookTexts are settings in all ways in which entries come into them.
var hookTexts = map[string]string{
	"own hooks":     ownHooks,
	"an empty list": `{"hooks":{"PreToolUse":[],"SessionStart": [ ]}}`,
	"no hooks":      "{\n  \"model\": \"m\"\n}\n",
	"empty hooks":   "\ufeff{\"hooks\" : { } ,}\r\n",
	"nothing":       "{}",
	"empty lines":   "{\n\n}\n",
}

// toolsOnly is the environment of a wrap of an agent's own tools.
func (w *world) toolsOnly() Env {
	env := w.env()
	env.Tools, env.InFile, env.NoServers = true, true, true
	return env
}

// Entries for hooks come before those of others, and are removed so that nothing is left of them:
// by a journal, and from the text and the backup alone.
func TestHooks(t *testing.T) {
	for name, text := range hookTexts {
		for _, agent := range []Agent{claudeCode{}, gemini{}, cursor{}, windsurf{}, goose{}, crush{}, droid{}, devin{}} {
			for _, byHand := range []bool{false, true} {
				t.Run(name+" "+agent.Name(), func(t *testing.T) {
					w := newWorld(t)
					path := kindOf(agent.Name()).hookFile(w.env())
					w.write(path, text)
					p := w.governedBy(agent, w.toolsOnly())
					doc, err := lenient.Read([]byte(w.read(path)))
					if err != nil {
						t.Fatal(err)
					}
					c := HookContract(agent, w.env())
					if got := hookLines(doc); len(got) != len(c.Hooks) || got[0].session != w.line().Session || got[0].shim != w.shim {
						t.Errorf("%v in %s", got, w.read(path))
					}
					if byHand {
						p.Unlock()
						if err := os.Remove(w.shim); err != nil { // it isn't needed
							t.Fatal(err)
						}
						if _, err := Unwrap(path, w.notes()); err != nil {
							t.Fatal(err)
						}
					} else {
						w.restore(p)
					}
					w.wantFile(path, text)
					w.wantClean()
				})
			}
		}
	}
}

// A file that is made for the hooks is removed again, unless somebody has put something into it.
func TestHooksWithoutAFile(t *testing.T) {
	for _, byHand := range []bool{false, true} {
		for _, written := range []bool{false, true} {
			w := newWorld(t)
			p := w.governedBy(claudeCode{}, w.toolsOnly())
			if written {
				w.write(w.settings(), strings.Replace(w.read(w.settings()), "{", `{"model": "m", `, 1))
			}
			if byHand {
				p.Unlock()
				if _, err := Unwrap(w.settings(), w.notes()); err != nil {
					t.Fatal(err)
				}
			} else {
				w.restore(p)
			}
			text, err := os.ReadFile(w.settings())
			if gone := errors.Is(err, fs.ErrNotExist); gone == written || written && string(text) != "{\"model\": \"m\"}\n" {
				t.Errorf("by hand %v, written %v: %q, %v", byHand, written, text, err)
			}
			w.wantClean()
		}
	}
}

// What others write meanwhile stays: hooks before, after and within ours.
func TestHooksAndOthers(t *testing.T) {
	w := newWorld(t)
	w.write(w.settings(), ownHooks)
	p := w.governedBy(claudeCode{}, w.toolsOnly())
	text := w.read(w.settings())
	text = strings.Replace(text, `"PreToolUse": [`, `"PreToolUse": [{"hooks":[]},`, 1)
	text = strings.Replace(text, `"hooks":[{"type":"command"`, `"hooks":[{"type":"command","command":"theirs"},{"type":"command"`, 1)
	text = strings.Replace(text, `"Stop": []`, `"Stop": [{"hooks":[]}]`, 1)
	w.write(w.settings(), text)
	w.restore(p)
	got := w.read(w.settings())
	if strings.Contains(got, shimName) || !strings.Contains(got, `{"matcher":"*","hooks":[{"type":"command","command":"theirs"}]}`) ||
		!strings.Contains(got, `[{"hooks":[]},`) || !strings.Contains(got, `"Stop": [{"hooks":[]}]`) || !strings.Contains(got, "/* first */") {
		t.Errorf("%s", got)
	}
	w.wantClean()
}

// A file that has no room for hooks is refused, and entries of an unknown session are, too.
func TestHooksRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"hooks": []}`:                "hooks is not an object",
		`{"hooks":{"PreToolUse": {}}}`: "PreToolUse is not a list",
		`{"hooks":{"PreToolUse":[{"hooks":[{"command":"/opt/tg-shim","args":["hook","--session","s"]}]}]}}`: "tgctl unwrap",
		`{"hooks":{"BeforeTool":[{"hooks":[{"command":"'/opt/tg-shim' 'hook' --session s"}]}]}}`:            "tgctl unwrap",
	} {
		w := newWorld(t)
		w.write(w.settings(), text)
		p, err := NewPlan(claudeCode{}, w.toolsOnly(), w.shim)
		if err == nil {
			err = p.Prepare(w.line())
		}
		wantError(t, err, want)
	}
}

// Claude Code is told by a flag, which leaves its files alone.
func TestHooksByFlag(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		command string
		told    bool
	}{{"claude -p x", true}, {"claude --settings=x.json", false}, {"sh claude", false}} {
		env := w.toolsOnly()
		env.Command, env.InFile = strings.Fields(test.command), false
		p, err := NewPlan(claudeCode{}, env, w.shim)
		if err == nil {
			err = p.Prepare(w.line())
		}
		if err != nil {
			t.Fatal(err)
		}
		argv, _ := p.Launch(env.Command, nil)
		told := len(argv) > len(env.Command) && strings.HasPrefix(argv[1], `--settings={"hooks": {"PreToolUse": [{"matcher":"*"`)
		if told != test.told || (len(p.Paths()) == 0) != test.told || !p.HooksTools() {
			t.Errorf("%s: %q, rewrites %q", test.command, argv, p.Paths())
		}
	}
}

// A protection renews entries that were removed, weakened or moved only if they have to be.
func TestHooksProtected(t *testing.T) {
	t.Setenv("AGENTCONF_TOOLS", "1")
	for name, test := range map[string]struct {
		change func(string) string
		drift  bool
	}{
		"removed":       {func(string) string { return ownHooks }, true},
		"weakened":      {func(s string) string { return strings.Replace(s, `"onFailure":"block"`, `"onFailure":"continue"`, 1) }, true},
		"another event": {func(s string) string { return strings.Replace(s, `"Stop": []`, `"Stop": [1]`, 1) }, false},
		"laid out":      {func(s string) string { return strings.ReplaceAll(s, `","`, "\",\n \"") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLasting(t)
			l.write(l.settings(), ownHooks)
			l.protect()
			l.write(l.settings(), test.change(l.read(l.settings())))
			p, prot, err := l.renewal(nil)
			if err == nil {
				err = p.Prepare(prot.Line)
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := p.Decay(); d.Tools != test.drift || d.Other || len(d.Lost) > 0 {
				t.Errorf("%+v", d)
			}
			l.protect()
			if _, err := l.kept.Restore(); err != nil {
				t.Fatal(err)
			}
			if got := l.read(l.settings()); strings.Contains(got, shimName) || test.drift && got != ownHooks {
				t.Errorf("%s", got)
			}
			l.wantClean()
		})
	}
}

// Wraps, protections and what undoes them are killed after each of their steps. Nothing of ours
// stays in a file with hooks, and none stays that was made for them.
func TestKillHooks(t *testing.T) {
	t.Setenv("AGENTCONF_TOOLS", "1")
	for _, role := range []string{"wrap", "restore", "unwrap", "protect", "unprotect"} {
		for _, text := range []string{ownHooks, ""} {
			t.Run(role, func(t *testing.T) { killHooks(t, role, text) })
		}
	}
}

func killHooks(t *testing.T, role, text string) {
	for last := 1; ; last++ {
		l := newLasting(t)
		if text != "" {
			l.write(l.settings(), text)
		}
		switch role {
		case "restore", "unwrap":
			p, journals := l.wrapped()
			for i, path := range []string{l.state(), l.settings()} {
				l.write(journalFile(l.world, i), string(journals[path]))
			}
			p.Unlock()
		case "unprotect":
			run(t, l.world, "protect", 0)
		}
		killed, step := run(t, l.world, role, last)
		if err := restoreAll(l.world, func(string) {}); err != nil {
			t.Fatalf("killed after %q: %v", step, err)
		}
		l.undo(step)
		if _, err := os.Stat(l.settings()); err == nil || text != "" || NeedsUnwrap(l.settings()) {
			if _, err := Unwrap(l.settings(), l.notes()); err != nil {
				t.Fatalf("killed after %q: %v", step, err)
			}
		}
		l.wantFile(l.state(), twoServers)
		l.wantClean()
		if got, err := os.ReadFile(l.settings()); string(got) != text || (text == "") != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q, %v", got, err)
		}
		if t.Failed() {
			t.Fatalf("killed after %q, step %d", step, last)
		}
		if !killed {
			if last < 8 {
				t.Errorf("only %d steps", last)
			}
			return
		}
	}
}

// The plugin of opencode is made and removed with its entries. Somebody else's file of that name,
// and one that was changed, are left alone.
func TestHooksInAPlugin(t *testing.T) {
	w := newWorld(t)
	path := kindOf("opencode").hookFile(w.env())
	p := w.governedBy(opencode{}, w.toolsOnly())
	doc, err := syntaxOf(path).Read([]byte(w.read(path)))
	if err != nil {
		t.Fatal(err)
	}
	if got := hookLines(doc); len(got) != 2 || got[0].session != w.line().Session || got[0].shim != w.shim {
		t.Errorf("%v in %s", got, w.read(path))
	}
	w.restore(p)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the plugin is left: %v", err)
	}
	w.wantClean()
	for _, text := range []string{"export const Mine = async () => ({})\n", strings.Replace(HookContract(opencode{}, w.env()).Empty(), "await run", "", 1)} {
		w.write(path, text)
		if _, err := NewPlan(opencode{}, w.toolsOnly(), w.shim); err == nil || !strings.Contains(err.Error(), "not the plugin") {
			t.Errorf("another file: %v", err)
		}
		w.wantFile(path, text)
	}
}
