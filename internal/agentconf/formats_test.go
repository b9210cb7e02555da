package agentconf

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/edit/tomledit"
	"github.com/thoughtgate/thoughtgated/internal/edit/yamledit"
)

// decoders decode a whole file by the library's own decoder.
var decoders = map[string]func(text string) (map[string]any, error){
	"codex": func(text string) (v map[string]any, err error) {
		return v, toml.Unmarshal([]byte(strings.TrimPrefix(text, "\ufeff")), &v)
	},
	"goose": func(text string) (v map[string]any, err error) {
		return v, yaml.Unmarshal([]byte(strings.TrimPrefix(text, "\ufeff")), &v)
	},
}

// For any TOML or YAML file, wrapping and restoring returns its bytes, and an independent
// reader of the wrapped file finds only the expected changes.
func TestAnyFormatComesBack(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		agent Agent
		file  string
		draw  func(*rapid.T) string
		form  form
		key   string
	}{
		{codex{}, "config.toml", drawTOML, usualForm, codexKey},
		{goose{}, "config.yaml", drawYAML, gooseForm, gooseKey},
	}
	for _, test := range tests {
		t.Run(test.agent.Name(), func(t *testing.T) {
			env := w.env()
			env.Config = filepath.Join(w.home, test.file)
			rapid.Check(t, func(rt *rapid.T) {
				text := test.draw(rt)
				w.write(env.Config, text)
				p, err := NewPlan(test.agent, env, w.shim)
				if err != nil {
					if strings.Contains(err.Error(), allDisabled) {
						return
					}
					rt.Fatalf("%v\n%s", err, text)
				}
				defer p.Unlock()
				for _, do := range []func() error{
					func() error { return p.Lock("s") }, p.Backup, func() error { return p.Prepare(w.line()) }, p.Apply,
				} {
					if err := do(); err != nil {
						rt.Fatalf("%v\n%s", err, text)
					}
				}
				wrapped := w.read(env.Config)
				if problem := sameButGoverned(p, test.form, test.key, text, wrapped); problem != "" {
					rt.Fatalf("%s\nbefore\n%s\nwrapped\n%s", problem, text, wrapped)
				}
				// A change of the file disables the shortcut by its digest.
				if rapid.Bool().Draw(rt, "touched") {
					end := "\n# touched\n"
					w.write(env.Config, wrapped+end)
					text += end
				}
				if _, err := p.Restore(); err != nil {
					rt.Fatalf("%v\n%s", err, wrapped)
				}
				if got := w.read(env.Config); got != text {
					rt.Fatalf("not the same:\nbefore  %q\nwrapped %q\nafter   %q", text, wrapped, got)
				}
			})
		})
	}
	w.wantClean()
}

// encoders encode a whole file as the agents do: in another layout and without comments.
var encoders = map[string]func(v any) ([]byte, error){
	"codex": toml.Marshal,
	"goose": func(v any) ([]byte, error) { return yaml.Marshal(v) },
}

// If an agent encodes its whole file again with a change, the change remains afterwards, and
// nothing of ours.
func TestAnyFormatWrittenAnew(t *testing.T) {
	tests := []struct {
		agent     Agent
		file, key string
		draw      func(*rapid.T) string
	}{
		{codex{}, "config.toml", codexKey, drawTOML},
		{goose{}, "config.yaml", gooseKey, drawYAML},
	}
	for _, test := range tests {
		t.Run(test.agent.Name(), func(t *testing.T) {
			w := newWorld(t)
			env := w.env()
			env.Config = filepath.Join(w.home, test.file)
			decode, encode := decoders[test.agent.Name()], encoders[test.agent.Name()]
			rapid.Check(t, func(rt *rapid.T) {
				text := test.draw(rt)
				w.write(env.Config, text)
				p, err := NewPlan(test.agent, env, w.shim)
				if err != nil {
					return // all servers are off
				}
				defer p.Unlock()
				for _, do := range []func() error{
					func() error { return p.Lock("s") }, p.Backup, func() error { return p.Prepare(w.line()) }, p.Apply,
				} {
					if err := do(); err != nil {
						rt.Fatalf("%v\n%s", err, text)
					}
				}
				gone := rapid.SampledFrom(p.Entries()).Draw(rt, "gone").ID
				change := func(text string) map[string]any {
					v, err := decode(text)
					if err != nil {
						rt.Fatal(err)
					}
					v["changed"] = []any{"by", "the agent"}
					delete(dig(v, test.key), gone)
					dig(v, test.key)["added"] = map[string]any{"command": "new"}
					return v
				}
				wrapped := w.read(env.Config)
				anew, err := encode(change(wrapped))
				if err != nil {
					rt.Fatal(err)
				}
				w.write(env.Config, string(anew))
				reports, err := p.Restore()
				if err != nil {
					rt.Fatalf("%v\n%s", err, anew)
				}
				got, err := decode(w.read(env.Config))
				if err != nil {
					rt.Fatal(err)
				}
				if diff := cmp.Diff(change(text), got); diff != "" {
					rt.Fatalf("%v (-want +got):\n%s\nbefore\n%s\nwritten anew\n%s\nafter\n%s", reports, diff, text, anew, w.read(env.Config))
				}
			})
			w.wantClean()
		})
	}
}

// sameButGoverned removes what was added to each governed server, as plain values, and returns
// any other difference.
func sameButGoverned(p *Plan, f form, key, before, wrapped string) string {
	decode := decoders[p.Agent()]
	old, err := decode(before)
	if err != nil {
		return err.Error()
	}
	now, err := decode(wrapped)
	if err != nil {
		return err.Error()
	}
	governed := 0
	for _, e := range p.Entries() {
		if e.Ungoverned != "" {
			continue
		}
		governed++
		was, is := dig(old, key, e.ID), dig(now, key, e.ID)
		words := []any{"--server-id", e.ID, "--", was[f.Command]}
		args, _ := is[f.Args].([]any)
		if is[f.Command] != p.shim || len(args) < len(words) || !cmp.Equal(words, args[:len(words)]) {
			return fmt.Sprintf("%s starts %v %v", e.ID, is[f.Command], args)
		}
		is[f.Command] = was[f.Command]
		undo(was, is, f.Args, args[len(words):], len(args) == len(words))
		env, _ := is[f.Env].(map[string]any)
		if env[envSession] == nil || env[envSocket] == nil {
			return fmt.Sprintf("%s has no session", e.ID)
		}
		delete(env, envSession)
		delete(env, envSocket)
		undo(was, is, f.Env, env, len(env) == 0)
		for _, l := range kindOf(p.Agent()).raises {
			number, _ := numberOf(fmt.Sprint(is[l.key]))
			if number < float64(l.min) {
				return fmt.Sprintf("%s has %s %v", e.ID, l.key, is[l.key])
			}
			if number == float64(l.min) {
				undo(was, is, l.key, was[l.key], true)
			}
		}
	}
	if governed == 0 {
		return "nothing is governed"
	}
	return cmp.Diff(old, now)
}

// undo sets a member to its value without our changes. If nothing of it is left, that is the
// original value, or no member.
func undo(was, is map[string]any, name string, value any, nothing bool) {
	is[name] = value
	if before, there := was[name]; nothing && !there {
		delete(is, name)
	} else if nothing {
		is[name] = before
	}
}

// FuzzRewriteFormats is FuzzRewrite for files that are not JSON.
func FuzzRewriteFormats(f *testing.F) {
	f.Add(true, []byte("[mcp_servers.a]\ncommand = 'x'\nargs = ['y', # c\n]\n[mcp_servers.a.env]\nK = 1\n"))
	f.Add(true, []byte("mcp_servers.a.command = \"x\"\r\nmcp_servers.b = { command = \"y\", env = {} }"))
	f.Add(false, []byte("extensions:\n  a:\n    cmd: x\n    args:\n    - y # c\n    envs:\n    timeout: 5\n"))
	f.Add(false, []byte("extensions: {a: {cmd: x, args: [y], envs: {K: v}}}\n"))
	line := Line{Shim: "/opt/tg-shim", Socket: "/run/s", Session: "5e55"}
	f.Fuzz(func(t *testing.T, isTOML bool, text []byte) {
		if len(text) > 2000 {
			return
		}
		var syntax edit.Syntax = yamledit.Syntax{}
		if isTOML {
			syntax = tomledit.Syntax{}
		}
		doc, err := syntax.Parse(text)
		if err != nil {
			return
		}
		s := &Source{Path: "x", doc: doc}
		if isTOML {
			codexServers{}.add(s, scopeUser, false)
		} else {
			goose{}.extensions(s, scopeUser)
			for _, e := range s.Entries {
				e.limits = kindOf("goose").raises
			}
		}
		p := &planned{doc: doc, entries: s.Entries}
		rewritten, before, err := rewrite(doc, p.governed(), nil, line)
		if err != nil || len(before) == 0 {
			return
		}
		again, err := syntax.Parse(rewritten)
		if err != nil {
			t.Fatalf("%q: %v", rewritten, err)
		}
		taken, err := removeLines(again, before, line.Session, line.Shim)
		if err != nil || !bytes.Equal(taken.text, text) || taken.lines != len(before) {
			t.Fatalf("%d of %d lines, %v\nbefore    %q\nrewritten %q\nafter     %q", taken.lines, len(before), err, text, rewritten, taken.text)
		}
	})
}
