package agentconf

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const lastingID = "1a571a571a571a571a571a571a571a57"

// lasting is a world in which Claude Code is protected; kept is the protection that the daemon
// stores.
type lasting struct {
	*world
	kept *Protection
}

func newLasting(t testing.TB) *lasting {
	w := newWorld(t)
	w.write(w.state(), killedServers())
	return &lasting{world: w}
}

func (l *lasting) keep(p *Protection) error {
	text, err := p.Text()
	if err != nil {
		return err
	}
	l.kept, err = ParseProtection(text)
	return err
}

// renewal returns a plan to protect or to repair.
func (l *lasting) renewal(step func(string)) (*Plan, *Protection, error) {
	prot := l.kept
	if prot == nil {
		prot = NewProtection(lastingID, claudeCode{}, l.env(), l.line())
	}
	env := prot.Env(func(string) (string, bool) { return "", false })
	env.System = l.env().System
	p, err := NewPlan(claudeCode{}, env, l.shim)
	if err != nil {
		return nil, nil, err
	}
	if step != nil {
		p.step = step
	}
	return p, prot, nil
}

func (l *lasting) protect() *Plan {
	l.t.Helper()
	p, prot, err := l.renewal(nil)
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := p.Protect(prot, l.keep); err != nil {
		l.t.Fatal(err)
	}
	return p
}

func (l *lasting) drift() Decay {
	l.t.Helper()
	p, prot, err := l.renewal(nil)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := p.Prepare(prot.Line); err != nil {
		l.t.Fatal(err)
	}
	return p.Decay()
}

func (l *lasting) unprotect() []Report {
	l.t.Helper()
	reports, err := l.kept.Restore()
	if err != nil {
		l.t.Fatal(err)
	}
	return reports
}

// governedBy returns the servers in a file that are started through tg-shim.
func (l *lasting) governedBy(path string) []string {
	l.t.Helper()
	s, err := load(path, lenient)
	if err != nil {
		l.t.Fatal(err)
	}
	var names []string
	for _, at := range linesIn(s.doc.Root(), nil) {
		names = append(names, at[len(at)-1])
	}
	slices.Sort(names)
	return names
}

func (l *lasting) wantGoverned(names ...string) {
	l.t.Helper()
	if got := l.governedBy(l.state()); !slices.Equal(got, names) {
		l.t.Errorf("governed %q, want %q:\n%s", got, names, l.read(l.state()))
	}
}

func TestProtectAndUnprotect(t *testing.T) {
	for name, text := range map[string]string{
		"usual":        twoServers,
		"one line":     oneServer,
		"args null":    `{"mcpServers":{"x":{"command":"x","args":null,"env":null}}}`,
		"no final":     "{\n\t\"mcpServers\": { \"x\": { \"args\": [ ], \"command\": \"x\" } }\n}",
		"local":        `{"projects":{"/p/a":{"mcpServers":{"x":{"command":"x"}}},"/p/b":{"mcpServers":{"y":{"command":"y"}}},"/p/c":{"mcpServers":{}}}}`,
		"other things": `{"numStartups": 12, "mcpServers": {"x": {"command": "x", "args": ["a"]}}, "big": 1e400}`,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLasting(t)
			l.write(l.state(), text)
			if err := os.Chmod(l.state(), 0o600); err != nil {
				t.Fatal(err)
			}
			l.protect()
			if len(l.governedBy(l.state())) == 0 {
				t.Fatalf("nothing is governed:\n%s", l.read(l.state()))
			}
			if d := l.drift(); !d.None() {
				t.Errorf("drift %+v right after", d)
			}
			for _, r := range l.unprotect() {
				if r.State != Restored || len(r.Notes) > 0 {
					t.Errorf("%+v", r)
				}
			}
			l.wantFile(l.state(), text)
			if info, err := os.Stat(l.state()); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			l.wantClean()
		})
	}
}

// The servers of every folder are governed, wherever the agent is started. A project's own file
// is not changed.
func TestProtectFolders(t *testing.T) {
	l := newLasting(t)
	l.write(l.state(), `{"mcpServers":{"u":{"command":"u"}},"projects":{"/p/a":{"mcpServers":{"x":{"command":"x"}}},"`+l.cwd+`":{"mcpServers":{"y":{"command":"y"}}}}}`)
	l.write(l.project(), oneServer)
	l.protect()
	l.wantGoverned("u", "x", "y")
	l.wantFile(l.project(), oneServer)
}

// An entry that the agent denies by its command in one folder stays as it is in all folders:
// rewritten, it would pass that rule.
func TestProtectLaundersNothing(t *testing.T) {
	l := newLasting(t)
	l.write(l.state(), `{"mcpServers":{"u":{"command":"u"}},"projects":{"`+l.cwd+`":{"mcpServers":{"x":{"command":"evil"}}}}}`)
	l.write(filepath.Join(l.cwd, ".claude", "settings.json"), `{"deniedMcpServers":[{"serverCommand":["evil"]}]}`)
	l.protect()
	l.wantGoverned("u")
}

func TestProtectTwice(t *testing.T) {
	l := newLasting(t)
	l.protect()
	once := l.read(l.state())
	p, prot, err := l.renewal(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Protect(prot, func(*Protection) error { return errors.New("nothing is to be kept") }); err != nil {
		t.Fatal(err)
	}
	l.wantFile(l.state(), once)
	if p.Diff() != "" {
		t.Errorf("a diff: %s", p.Diff())
	}
}

// The agent, or a person, rewrites the file.
func TestProtectDecay(t *testing.T) {
	for name, test := range map[string]struct {
		change func(text string) string
		want   Decay
		clean  string // expected after unprotect
	}{
		"settings changed": {
			change: func(text string) string { return strings.Replace(text, "{\n", "{\n  \"numStartups\": 2,\n", 1) },
			clean:  strings.Replace(twoServers, "{\n", "{\n  \"numStartups\": 2,\n", 1),
		},
		"all lines lost": {
			change: func(string) string { return twoServers },
			want:   Decay{Lost: []string{"clock", "files"}},
			clean:  twoServers,
		},
		"one line lost and changed": {
			change: func(string) string {
				return strings.Replace(twoServers, `"clock-mcp"`, `"clock-mcp-2"`, 1)
			},
			want:  Decay{Lost: []string{"clock", "files"}},
			clean: strings.Replace(twoServers, `"clock-mcp"`, `"clock-mcp-2"`, 1),
		},
		"a server added": {
			change: func(text string) string {
				return strings.Replace(text, `"web"`, `"new": { "command": "new-mcp" },`+"\n    "+`"web"`, 1)
			},
			want:  Decay{Added: []string{"new"}},
			clean: strings.Replace(twoServers, `"web"`, `"new": { "command": "new-mcp" },`+"\n    "+`"web"`, 1),
		},
		"the shim's path altered": {
			change: func(text string) string { return strings.ReplaceAll(text, "/libexec/tg-shim", "/elsewhere/shim") },
			want:   Decay{Lost: []string{"clock", "files"}},
			clean:  twoServers,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLasting(t)
			l.protect()
			l.write(l.state(), test.change(l.read(l.state())))
			if got := l.drift(); !slices.Equal(got.Lost, test.want.Lost) || !slices.Equal(got.Added, test.want.Added) {
				t.Errorf("drift %+v, want %+v", got, test.want)
			}
			l.protect()
			if d := l.drift(); !d.None() {
				t.Errorf("drift %+v after it was mended", d)
			}
			l.unprotect()
			l.wantFile(l.state(), test.clean)
			for _, left := range l.leftovers() {
				if !strings.Contains(left, alteredSuffix) {
					t.Errorf("left behind: %s", left)
				}
			}
		})
	}
}

// An agent's entry that was removed stays removed, and so does a file.
func TestProtectRemoved(t *testing.T) {
	l := newLasting(t)
	l.protect()
	l.write(l.state(), `{"mcpServers":{}}`)
	l.protect()
	l.unprotect()
	l.wantFile(l.state(), `{"mcpServers":{}}`)
	l.wantClean()
}

// After an update with another path of tg-shim, the lines are updated.
func TestProtectMoved(t *testing.T) {
	l := newLasting(t)
	l.protect()
	old := l.shim
	l.shim = filepath.Join(l.home, "opt", shimName)
	l.write(l.shim, "#!/bin/sh\n")
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	l.kept.Line.Shim = l.shim
	if d := l.drift(); !d.Other || len(d.Lost)+len(d.Added) > 0 {
		t.Errorf("drift %+v", d)
	}
	l.protect()
	if text := l.read(l.state()); !strings.Contains(text, l.shim) || strings.Contains(text, old) {
		t.Errorf("%s", text)
	}
	l.unprotect()
	l.wantFile(l.state(), twoServers)
	l.wantClean()
}

// A wrap of a protected agent leaves the protection's lines alone, and governs entries without
// one.
func TestWrapProtected(t *testing.T) {
	l := newLasting(t)
	l.protect()
	protected := l.read(l.state())
	l.write(l.project(), oneServer)
	env := l.env()
	if _, err := NewPlan(claudeCode{}, env, l.shim); !errors.Is(err, ErrWrapped) {
		t.Errorf("lines that nobody knows: %v", err)
	}
	env.Protections = []*Protection{l.kept}
	p, err := NewPlan(claudeCode{}, env, l.shim)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{p.Lock(l.line().Session), p.Backup(), p.Prepare(l.line()), p.Apply()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	l.wantFile(l.state(), protected)
	if paths := p.Paths(); !slices.Equal(paths, []string{l.project()}) {
		t.Errorf("rewritten %q", paths)
	}
	if way, why, err := p.Point(l.home); way != nil || err != nil {
		t.Errorf("pointed elsewhere: %v, %q, %v", way, why, err)
	}
	names := map[string]bool{}
	for _, e := range p.Entries() {
		names[e.ID] = e.Protected
	}
	if !names["files"] || !names["clock"] || names["one"] {
		t.Errorf("%v", names)
	}
	l.restore(p)
	l.wantFile(l.state(), protected)
	l.wantFile(l.project(), oneServer)
}

// If a file has lines of a protection and servers without a line, the wrap's words and its
// backup are removed, and the other lines stay.
func TestWrapBesideLasting(t *testing.T) {
	l := newLasting(t)
	l.protect()
	mixed := strings.Replace(l.read(l.state()), `"web"`, `"new": { "command": "new-mcp" }, "web"`, 1)
	l.write(l.state(), mixed)
	env := l.env()
	env.Protections = []*Protection{l.kept}
	p, err := NewPlan(claudeCode{}, env, l.shim)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{p.Lock(l.line().Session), p.Backup(), p.Prepare(l.line()), p.Apply()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	l.wantGoverned("clock", "files", "new")
	if _, err := l.kept.Restore(); err == nil {
		t.Error("unprotected under a wrap")
	}
	l.write(l.state(), strings.Replace(l.read(l.state()), "{\n", "{\n  \"n\": 1,\n", 1))
	l.restore(p)
	l.wantFile(l.state(), strings.Replace(mixed, "{\n", "{\n  \"n\": 1,\n", 1))
	l.unprotect()
	l.wantClean()
}

// A wrap holds the file.
func TestProtectWrapped(t *testing.T) {
	l := newLasting(t)
	p, _ := l.wrapped()
	_, _, err := l.renewal(nil)
	wantError(t, err, "is already wrapped")
	l.restore(p)
	l.protect()
}

// A protection that somebody altered is not believed: its entries are its own, and so are the
// files that it restores.
func TestForgedProtection(t *testing.T) {
	const file = `{"v":2,"agent":"cursor","path":"/h/mcp.json","target":"/h/mcp.json","backup":"/h/b","lock":"/h/l","line":{"shim":"/s","socket":"/k","session":"p1"}}`
	const text = `{"v":1,"id":"p1","agent":"cursor","where":{"home":"/h"},"line":{"shim":"/s","socket":"/k","session":"p1"},"files":[` + file + `]}`
	if _, err := ParseProtection([]byte(text)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"another version":            {`{"v":1,"id"`, `{"v":2,"id"`},
		"another id":                 {`"id":"p1"`, `"id":"p2"`},
		"no program":                 {`"where":{"home":"/h"},"line":{"shim":"/s"`, `"where":{"home":"/h"},"line":{"shim":"s"`},
		"no journal":                 {file, `null`},
		"the journal of another one": {`"lock":"/h/l","line":{"shim":"/s","socket":"/k","session":"p1"}`, `"lock":"/h/l","line":{"shim":"/s","socket":"/k","session":"p2"}`},
		"a file in any folder":       {`"target":"/h/mcp.json"`, `"target":"mcp.json"`},
		"a journal without a lock":   {`"lock":"/h/l"`, `"lock":""`},
	} {
		altered := strings.Replace(text, change[0], change[1], 1)
		if altered == text {
			t.Fatalf("%s: nothing is changed", name)
		}
		if _, err := ParseProtection([]byte(altered)); err == nil {
			t.Errorf("%s: it is believed", name)
		}
	}
}

// A line with the id of the protection that does not start its tg-shim is not the protection's.
func TestProtectForgedLine(t *testing.T) {
	l := newLasting(t)
	l.protect()
	forged := strings.ReplaceAll(l.read(l.state()), l.shim, "/evil/tg-shim")
	l.write(l.state(), forged)
	env := l.env()
	env.Protections = []*Protection{l.kept}
	if _, err := NewPlan(claudeCode{}, env, l.shim); !errors.Is(err, ErrWrapped) {
		t.Errorf("%v", err)
	}
}

// Without what the daemon stored, the text alone is sufficient.
func TestUnwrapProtected(t *testing.T) {
	l := newLasting(t)
	l.protect()
	if _, err := Unwrap(l.state(), l.notes()); err != nil {
		t.Fatal(err)
	}
	l.wantFile(l.state(), twoServers)
	l.wantClean()
}

// The own files of every agent are protected and restored byte for byte. Files that it reads
// only in the folder in which it is started are not changed.
func TestProtectEveryAgent(t *testing.T) {
	const entries = "{\n\t\"a\": {\"command\":\"a-mcp\",\"args\":[\"x\" , \"y\"]},\n\t\"b\": {\"env\":{},\"command\":\"b-mcp\"}, \"r\": {\"url\":\"https://example.test\"}}"
	protected := map[string]int{}
	others := []place{{agent: "codex", file: ".codex/config.toml"}, {agent: "goose", file: ".config/goose/config.yaml"}, {agent: "opencode", file: ".config/opencode/opencode.json"}}
	texts := map[string]string{
		"codex":    "# mine\nmodel = \"x\"\n[mcp_servers.a]\ncommand = \"a-mcp\"\nargs = [\"x\"]\n\n[mcp_servers.b]\nargs = []\ncommand = 'b-mcp'\n",
		"goose":    "extensions:\n  a: # one\n    type: stdio\n    cmd: a-mcp\n    args: [x]\n    enabled: true\n  b:\n    cmd: b-mcp\n    args:\n      - y\n    type: stdio\n    enabled: true\n",
		"opencode": `{"mcp": {"a": {"type": "local", "command": ["a-mcp", "x"]}, "b": {"command": [ "b-mcp" ], "type": "local", "environment": {}}}}`,
	}
	for _, p := range slices.Concat(places, others) {
		t.Run(p.String(), func(t *testing.T) {
			w := newWorld(t)
			path := filepath.Join(w.home, p.file)
			text := texts[p.agent]
			if text == "" {
				text = p.with(w, entries)
			}
			w.write(path, text)
			agent, env := p.start(w)
			is := NewProtection(lastingID, agent, env, w.line())
			renewal := is.Env(env.LookupEnv)
			renewal.System, renewal.OS = env.System, env.OS
			plan, err := NewPlan(agent, renewal, w.shim)
			if strings.HasPrefix(p.file, "src/") {
				wantError(t, err, "no configuration of ")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var kept *Protection
			if _, err := plan.Protect(is, func(next *Protection) error { kept = next; return nil }); err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(w.read(path), lastingID); got != 2+strings.Count(text, `"url"`) {
				t.Errorf("%d lines:\n%s", got, w.read(path))
			}
			protected[p.agent]++
			renewal.Protections = []*Protection{kept}
			again, err := NewPlan(agent, renewal, w.shim)
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Prepare(kept.Line); err != nil || !again.Decay().None() {
				t.Errorf("drift %+v, %v", again.Decay(), err)
			}
			if _, err := kept.Restore(); err != nil {
				t.Fatal(err)
			}
			w.wantFile(path, text)
			w.wantClean()
		})
	}
	for _, name := range Names() {
		if protected[name] == 0 && name != "custom" {
			t.Errorf("%s was never protected: add its files to places, or to others here", name)
		}
	}
}
