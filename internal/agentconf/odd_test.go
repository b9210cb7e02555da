package agentconf

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// An entry that can't be rewritten does not affect the others: it is reported with its place,
// and stays.
func TestEntriesThatCannotBeChanged(t *testing.T) {
	tests := []struct{ name, text, place string }{
		{"an alias as the environment", "x: &common\n  A: b\nextensions:\n  odd:\n    type: stdio\n    cmd: c\n    envs: *common\n", "line 7, column 11: it is an alias"},
		{"an alias as the environment, with an anchor below", "extensions:\n  first:\n    type: stdio\n    cmd: d\n    envs: &e\n      A: b\n  odd:\n    type: stdio\n    cmd: c\n    envs: *e\n", "line 10, column 11: it is an alias"},
		{"a tagged command", "extensions:\n  odd:\n    type: stdio\n    cmd: !!str c\n", "line 4, column 10: it has an anchor or a tag"},
	}
	const good = "  good:\n    type: stdio\n    cmd: g\n"
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			path := filepath.Join(w.home, ".config", "goose", "config.yaml")
			text := test.text + good
			w.write(path, text)
			env := w.env()
			env.Command = []string{"goose"}
			p, err := NewPlan(goose{}, env, w.shim)
			if err != nil {
				t.Fatal(err)
			}
			warnings := strings.Join(p.Warnings(), "\n")
			for _, want := range []string{"server odd in " + path + " is not governed", test.place} {
				if !strings.Contains(warnings, want) {
					t.Errorf("the warnings lack %q:\n%s", want, warnings)
				}
			}
			p = w.governedBy(goose{}, env)
			if now := w.read(path); !strings.Contains(now, shimName) || !strings.Contains(now, "- g\n") && !strings.Contains(now, `"g"`) && !strings.Contains(now, ", g]") {
				t.Errorf("the other is not governed:\n%s", now)
			}
			if got := drift(t, p); got != "" {
				t.Errorf("drift: %s", got)
			}
			w.restore(p)
			w.wantFile(path, text)
		})
	}
}

// An entry of a project in an unusual notation is governed or not started, and the agent
// starts.
func TestOddEntriesOfAProject(t *testing.T) {
	w := newWorld(t)
	const text = `{"mcpServers":{
		"":{"command":"nameless"},
		"ours":{"command":"x","env":{"A":"b", "THOUGHTGATE_SOCKET":"/tmp/evil.sock","THOUGHTGATE_SESSION":""}},
		"shim":{"command":"./tg-shim","args":["--","evil"]},
		"good":{"command":"good"}}}`
	w.write(w.project(), text)
	p, _ := w.wrapped()
	warnings := strings.Join(p.Warnings(), "\n")
	for _, want := range []string{"has an empty name", "server ours in " + w.project() + " sets THOUGHTGATE_SOCKET"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("the warnings lack %q:\n%s", want, warnings)
		}
	}
	now := w.read(w.project())
	if strings.Contains(now, "evil.sock") || strings.Count(now, w.shim) != 4 || strings.Count(now, w.line().Session) != 4 || !strings.Contains(now, `"A": "b"`) {
		t.Errorf("wrapped it is\n%s", now)
	}
	for _, s := range p.Shipped() {
		if s.ID == "shim" && strings.Join(s.Command, " ") != "./tg-shim -- evil" {
			t.Errorf("%+v", s)
		}
	}
	if got := drift(t, p); got != "" {
		t.Errorf("drift: %s", got)
	}
	w.restore(p)
	w.wantFile(w.project(), text)
	w.wantClean()
	// A later process can restore as well.
	p, journals := w.wrapped()
	p.Unlock()
	if _, err := Restore(journals[w.project()], nil); err != nil {
		t.Fatal(err)
	}
	w.wantFile(w.project(), text)
	p, _ = w.wrapped()
	p.Unlock()
	if _, err := Unwrap(w.project(), w.notes()); err != nil {
		t.Fatal(err)
	}
	w.wantFile(w.project(), text)
}

// Files that end in a comment, that name their YAML version, and servers with another key for
// the URL.
func TestOddFiles(t *testing.T) {
	w := newWorld(t)
	settings := filepath.Join(w.home, ".gemini", "settings.json")
	w.write(settings, `{"mcpServers":{"a":{"command":"x"},"web":{"httpUrl":"https://example.test"}}} // the end`)
	env := w.env()
	env.Command = []string{"gemini"}
	p := w.governedBy(gemini{}, env)
	for _, e := range p.Entries() {
		if e.ID == "web" && (e.Remote == nil || e.Remote.Address != "https://example.test") {
			t.Errorf("web is %+v", e)
		}
	}
	w.restore(p)
	path := filepath.Join(w.home, ".config", "goose", "config.yaml")
	const text = "# mine\n%YAML 1.2\n---\nextensions:\n  a:\n    type: stdio\n    cmd: c\n"
	w.write(path, text)
	env.Command = []string{"goose"}
	w.restore(w.governedBy(goose{}, env))
	w.wantFile(path, text)
	other := filepath.Join(w.home, "own.json")
	w.write(other, `{"mcpServers":{"a":{"command":"x"},"web":{"httpUrl":"https://example.test"}}}`)
	env.Command, env.Config = []string{"mine"}, other
	for _, e := range w.governedBy(custom{}, env).Entries() {
		if e.ID == "web" && (e.Remote == nil || e.Remote.Address != "https://example.test") {
			t.Errorf("web is %+v", e)
		}
	}
}

// The list in a file may be in an object, or have a dotted name.
func TestCustomLists(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.home, "settings.json")
	const text = `{"amp.mcpServers":{"dotted":{"command":"a"}},"amp":{"url":"x","mcpServers":{"nested":{"command":"b"}}},
		"mcpServers":{"servers":{"command":"c"}},"mcp":{"servers":{"editor":{"command":"d"}}}}`
	w.write(path, text)
	env := w.env()
	env.Command, env.Config = []string{"amp"}, path
	p := w.governedBy(custom{}, env)
	var ids []string
	for _, e := range p.Entries() {
		ids = append(ids, e.ID+e.Ungoverned)
	}
	slices.Sort(ids)
	if got := strings.Join(ids, " "); got != "dotted editor nested servers" {
		t.Errorf("governed: %s", got)
	}
	if n := strings.Count(w.read(path), w.shim); n != 4 {
		t.Errorf("%d servers start the shim:\n%s", n, w.read(path))
	}
	w.restore(p)
	w.wantFile(path, text)
}

// Text that is not valid Unicode, or that can't be part of a command, does not affect other
// servers. What the agent can start is governed, and everything is restored byte for byte, also
// from the journal alone.
func TestTextThatIsNotUnicode(t *testing.T) {
	for name, odd := range map[string]string{
		"a byte in a name": "\"o\xffdd\":{\"command\":\"x\"}", "a byte in a command": "\"odd\":{\"command\":\"x\xff\"}",
		"a byte in an argument": "\"odd\":{\"command\":\"x\",\"args\":[\"a\xff\"]}", "a byte in a variable": "\"odd\":{\"command\":\"x\",\"env\":{\"A\xff\":\"\xff\"}}",
		"a byte beside our variables": "\"odd\":{\"command\":\"x\",\"env\":{\"THOUGHTGATE_SESSION\":\"\xff\",\"A\":\"\xfe\"}}",
		"half a pair in a name":       `"o\ud800dd":{"command":"x"}`, "half a pair in a command": `"odd":{"command":"x\udc00"}`, "half a pair in an argument": `"odd":{"command":"x","args":["\ud800"]}`,
		"a NUL in a command": `"odd":{"command":"x\u0000y"}`, "a NUL in a name": `"o\u0000dd":{"command":"x"}`,
		"numbers out of range": `"odd":{"command":"x","timeout":1e999999,"args":[99999999999999999999999999],"env":{"A":1e9999}}`,
		"other types":          `"odd":"x","odd2":3,"odd3":null,"odd4":[1],"odd5":{"command":3},"odd6":{"command":["x"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			text := `{"mcpServers":{` + odd + `,"good":{"command":"good"}}}`
			for _, path := range []string{w.state(), w.project()} {
				w.write(path, text)
			}
			p, journals := w.wrapped()
			now := w.read(w.project())
			if !strings.Contains(now, `"good", "`) && !strings.Contains(now, `"good"]`) || !strings.Contains(w.read(w.state()), w.shim) {
				t.Errorf("wrapped it is\n%s", now)
			}
			for _, e := range p.Entries() {
				if !utf8.ValidString(e.ID) {
					t.Errorf("a name that can't travel: %q", e.ID)
				}
			}
			for _, s := range p.Shipped() {
				if !utf8.ValidString(strings.Join(s.Command, " ")) {
					t.Errorf("a command that can't travel: %q", s.Command)
				}
			}
			if strings.Contains(name, "NUL in a name") && !strings.Contains(strings.Join(p.Warnings(), "\n"), "has a NUL in its name") {
				t.Errorf("warnings %q", p.Warnings())
			}
			if got := drift(t, p); got != "" {
				t.Errorf("drift: %s", got)
			}
			p.Unlock()
			for _, path := range []string{w.state(), w.project()} {
				if _, err := Restore(journals[path], nil); err != nil {
					t.Fatal(err)
				}
				w.wantFile(path, text)
			}
			// If an agent has written the file meanwhile, only the words are removed.
			p, journals = w.wrapped()
			w.write(w.project(), w.read(w.project())+"\n")
			p.Unlock()
			if _, err := Restore(journals[w.project()], nil); err != nil {
				t.Fatal(err)
			}
			w.wantFile(w.project(), text+"\n")
		})
	}
}
