package agentconf

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// world is a test fixture: a home, a project in it, and a tg-shim, all empty.
type world struct {
	t    testing.TB
	home string
	cwd  string
	shim string
	vars map[string]string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldIn(t, quickTempDir(t))
}

func newWorldIn(t testing.TB, dir string) *world {
	t.Helper()
	top, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, home: filepath.Join(top, "ada"), vars: map[string]string{"PATH": filepath.Join(top, "bin")}}
	w.cwd = filepath.Join(w.home, "src", "shop")
	w.shim = filepath.Join(top, "libexec", shimName)
	for _, dir := range []string{w.cwd, filepath.Dir(w.shim), filepath.Join(top, "bin")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.write(w.shim, "#!/bin/sh\n")
	if err := os.Chmod(w.shim, 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

// quickTempDir is t.TempDir, in memory if possible: these tests sync a lot and do not test
// disks.
func quickTempDir(t testing.TB) string {
	dir, remove, err := tempdir.Make("/dev/shm", "agentconf-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(remove)
	return dir
}

func (w *world) env() Env {
	return Env{
		Home: w.home, Cwd: w.cwd, Command: []string{"claude"},
		LookupEnv: func(name string) (string, bool) { v, ok := w.vars[name]; return v, ok },
		System:    filepath.Join(w.home, "no-administrator"),
		Notes:     w.notes(),
		Tools:     os.Getenv("AGENTCONF_TOOLS") != "", InFile: true,
	}
}

// notes returns the folder for notes on files made beside configurations.
func (w *world) notes() string { return filepath.Join(filepath.Dir(w.home), "state", "rewrites") }

func (w *world) line() Line {
	return Line{Shim: w.shim, Socket: "/run/user/1000/thoughtgate/shim.sock", Session: "5e55104f5e55104f5e55104f5e55104f"}
}

// state and project return the files in which Claude Code has servers.
func (w *world) state() string   { return filepath.Join(w.home, ".claude.json") }
func (w *world) project() string { return filepath.Join(w.cwd, ".mcp.json") }

func (w *world) write(path, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(path string) string {
	w.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// plan is NewPlan for Claude Code, which must succeed.
func (w *world) plan() *Plan {
	w.t.Helper()
	p, err := NewPlan(claudeCode{}, w.env(), w.shim)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// prepared returns a plan that is locked, backed up and prepared.
func (w *world) prepared() *Plan {
	w.t.Helper()
	p := w.plan()
	for _, err := range []error{p.Lock(w.line().Session), p.Backup(), p.Prepare(w.line())} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Cleanup(p.Unlock)
	return p
}

// wrapped returns a plan that is applied, and the journals of its files by path.
func (w *world) wrapped() (*Plan, map[string][]byte) {
	w.t.Helper()
	p := w.prepared()
	journals, err := p.Journals()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := p.Apply(); err != nil {
		w.t.Fatal(err)
	}
	byPath := map[string][]byte{}
	for _, j := range journals {
		byPath[j.Path] = j.Text
	}
	return p, byPath
}

// governedBy returns an applied plan for any agent.
func (w *world) governedBy(agent Agent, env Env) *Plan {
	w.t.Helper()
	p, err := NewPlan(agent, env, w.shim)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, do := range []func() error{
		func() error { return p.Lock(w.line().Session) }, p.Backup, func() error { return p.Prepare(w.line()) }, p.Apply,
	} {
		if err := do(); err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Cleanup(p.Unlock)
	return p
}

// restore restores all files of a plan, which must succeed, and unlocks them.
func (w *world) restore(p *Plan) []Report {
	w.t.Helper()
	reports, err := p.Restore()
	if err != nil {
		w.t.Fatal(err)
	}
	p.Unlock()
	return reports
}

// leftovers returns our files that are left in the home.
func (w *world) leftovers() []string {
	w.t.Helper()
	var found []string
	err := filepath.WalkDir(w.home, func(path string, _ os.DirEntry, err error) error {
		if base := filepath.Base(path); strings.Contains(base, ".thoughtgate-") || strings.HasSuffix(base, ".json.lock") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

func (w *world) wantClean() {
	w.t.Helper()
	if left := w.leftovers(); len(left) > 0 {
		w.t.Errorf("left behind: %s", strings.Join(left, ", "))
	}
}

func (w *world) wantFile(path, want string) {
	w.t.Helper()
	if got := w.read(path); got != want {
		w.t.Errorf("%s\n got %q\nwant %q", path, got, want)
	}
}

func wantError(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}

// notRoot skips the test for the superuser, who may write everywhere.
func notRoot(t testing.TB) {
	if os.Geteuid() == 0 {
		t.Skip("the superuser may write everywhere")
	}
}

func program(t testing.TB, name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

const twoServers = `{
  "mcpServers": {
    "files": {
      "command": "npx",
      "args": ["-y", "server-filesystem", "${HOME}/docs"],
      "env": { "TOKEN": "s3cr3t" }
    },
    "clock": { "command": "clock-mcp" },
    "web": { "type": "ws", "url": "wss://example.test/mcp" }
  }
}
`

func mustParse(t testing.TB, text string) edit.Node {
	t.Helper()
	doc, err := lenient.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc.Root()
}
