package trust

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// desk is a test fixture: a Registry with its store and recorder, a home, and a project in it.
type desk struct {
	*Registry
	t    testing.TB
	home string
	repo string // in the home, with .git
	path string // of the state
	db   *store.DB
	now  time.Time

	mu      sync.Mutex
	records []string // what was recorded, in short
	broken  error    // of the recorder
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{
		t: t, home: filepath.Join(top, "ada"), path: filepath.Join(top, "state.db"),
		now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
	}
	d.repo = filepath.Join(d.home, "src", "shop")
	for _, dir := range []string{filepath.Join(d.repo, ".git"), filepath.Join(d.repo, "web"), filepath.Join(d.home, ".local", "bin")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.open()
	t.Cleanup(func() { d.db.Close() })
	return d
}

func (d *desk) open() {
	d.t.Helper()
	var err error
	if d.db, err = store.Open(d.path); err != nil {
		d.t.Fatal(err)
	}
	if d.Registry, err = New(d.db, Options{Home: d.home, Recorder: d, Now: func() time.Time { return d.now }}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) restart() {
	d.t.Helper()
	if err := d.db.Close(); err != nil {
		d.t.Fatal(err)
	}
	d.open()
}

func (d *desk) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return d.broken
	}
	d.records = append(d.records, strings.TrimSpace(r.Verdict+" "+r.Server+" "+r.Decider))
	return nil
}

// file writes a file below the project, or at an absolute path, and returns its path.
func (d *desk) file(path, text string, mode os.FileMode) string {
	d.t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(d.repo, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		d.t.Fatal(err)
	}
	return path
}

// bin writes a program into the folder of the user's programs.
func (d *desk) bin(name string) string {
	return d.file(filepath.Join(d.home, ".local", "bin", name), "\x7fELF "+name, 0o755)
}

// launch returns a command line in the project, with a PATH that leads to the user's programs. It
// is resolved as by a shim.
func (d *desk) launch(command ...string) Launch {
	l := Launch{Server: "notes", Cwd: d.repo, Command: command, Env: []string{"HOME=" + d.home, "PATH=" + filepath.Join(d.home, ".local", "bin")}}
	return d.resolved(l)
}

func (d *desk) resolved(l Launch) Launch {
	l.Program, _ = child.Resolve(l.Command[0], l.Env, l.Cwd)
	return l
}

// shipped is launch for a server that the project's file names.
func (d *desk) shipped(command ...string) Launch {
	l := d.launch(command...)
	l.From = filepath.Join(d.repo, ".mcp.json")
	return l
}

// ask judges a launch and returns the result: own, agreed, new or changed.
func (d *desk) ask(l Launch) string {
	d.t.Helper()
	k, err := d.Judge(d.t.Context(), l)
	switch {
	case k == nil && err == nil:
		return "own"
	case err == nil:
		return "agreed"
	case !errors.Is(err, gate.ErrWithheld):
		d.t.Fatal(err)
	case !strings.Contains(err.Error(), "tgctl servers accept notes --start "+k.ID()):
		d.t.Errorf("it is not said what to do: %v", err)
	case strings.Contains(err.Error(), "is not what was accepted"):
		return "changed"
	}
	return "new"
}

// agree accepts the start of a launch.
func (d *desk) agree(l Launch) {
	d.t.Helper()
	k, err := d.Look(d.t.Context(), l)
	if err == nil {
		_, err = d.Accept(d.t.Context(), Name{k.Project, k.Server, k.Digest[:]}, By{Decider: "ana"})
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// Acceptance covers exactly what was shown.
func TestAChangeAsksAgain(t *testing.T) {
	d := newDesk(t)
	d.bin("node")
	d.bin("other")
	script := d.file("server.js", "serve()", 0o644)
	helper := d.file("helper.py", "help()", 0o644)
	base := func() Launch {
		l := d.shipped("node", "server.js", "--with", "helper.py", "-v")
		l.Sets = []string{"TOKEN", "MODE"}
		l.Env = append(l.Env, "TOKEN=x", "MODE=y", "NODE_OPTIONS=--max-old-space-size=100", "TERM=xterm")
		return l
	}
	if got := d.ask(base()); got != "new" {
		t.Fatalf("at first: %s", got)
	}
	d.agree(base())
	for _, test := range []struct {
		name   string
		change func(*Launch)
		want   string
	}{
		{"the same", func(*Launch) {}, "agreed"},
		{"another value of a variable", func(l *Launch) { l.Env[2] = "TOKEN=z" }, "agreed"},
		{"the variables in another order", func(l *Launch) { l.Sets = []string{"MODE", "TOKEN"} }, "agreed"},
		{"another terminal", func(l *Launch) { l.Env = append(l.Env, "COLUMNS=80") }, "agreed"},
		{"another file of the project names it", func(l *Launch) { l.From = filepath.Join(d.repo, ".cursor", "mcp.json") }, "agreed"},
		{"one more argument", func(l *Launch) { l.Command = append(l.Command, "-x") }, "changed"},
		{"one less", func(l *Launch) { l.Command = l.Command[:len(l.Command)-1] }, "changed"},
		{"two arguments as one", func(l *Launch) { l.Command = []string{"node", "server.js", "--with", "helper.py -v"} }, "changed"},
		{"one more variable", func(l *Launch) { l.Sets = append(l.Sets, "MORE") }, "changed"},
		{"another value of a loader", func(l *Launch) { l.Env[4] = "NODE_OPTIONS=--require ./evil.js" }, "changed"},
		{"a loader that was not there", func(l *Launch) { l.Env = append(l.Env, "LD_PRELOAD=./evil.so") }, "changed"},
		{"another program", func(l *Launch) {
			*l = d.resolved(Launch{l.Server, l.From, l.Cwd, "", append([]string{"other"}, l.Command[1:]...), l.Sets, l.Env, nil})
		}, "changed"},
		{"another server", func(l *Launch) { l.Server = "clock" }, "new"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := base()
			test.change(&l)
			_, err := d.Judge(t.Context(), l)
			got := "agreed"
			if errors.Is(err, gate.ErrWithheld) {
				got = "new"
				if strings.Contains(err.Error(), "is not what was accepted") {
					got = "changed"
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
	for _, path := range []string{script, helper, filepath.Join(d.home, ".local", "bin", "node")} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		d.file(path, string(before)+" // and more", 0o755)
		if got := d.ask(base()); got != "changed" {
			t.Errorf("%s has changed: %s", path, got)
		}
		d.file(path, string(before), 0o755)
		if got := d.ask(base()); got != "agreed" {
			t.Errorf("%s is what it was: %s", path, got)
		}
	}
}

// Agents change PATH: they are started by npx, nvm or pyenv. Which program has a name there is not
// the project's doing, so an acceptance remains valid, and so does the id that was shown before.
func TestAnAgentChangesPATH(t *testing.T) {
	base := func(d *desk) Launch {
		l := d.shipped("python3", "server.py")
		l.Sets, l.Env = []string{"TOKEN"}, append(l.Env, "TOKEN=x")
		return l
	}
	with := func(d *desk, l Launch, dir string) Launch {
		l.Env = slices.Clone(l.Env)
		l.Env[1] = "PATH=" + dir + ":" + filepath.Join(d.home, ".local", "bin")
		return d.resolved(l)
	}
	tests := []struct {
		name   string
		change func(*desk, Launch) Launch
		want   string
	}{
		{"a folder without the program", func(d *desk, l Launch) Launch { return with(d, l, d.home) }, "agreed"},
		{"another program of the name", func(d *desk, l Launch) Launch {
			return with(d, l, filepath.Dir(d.file(filepath.Join(d.home, ".pyenv", "versions", "3", "bin", "python3"), "\x7fELF 3", 0o755)))
		}, "agreed"},
		{"a script that finds the program", func(d *desk, l Launch) Launch {
			d.bin("bash")
			return with(d, l, filepath.Dir(d.file(filepath.Join(d.home, ".pyenv", "shims", "python3"), "#!/usr/bin/env bash\nexec pyenv", 0o755)))
		}, "agreed"},
		{"a program of the project", func(d *desk, l Launch) Launch {
			return with(d, l, filepath.Dir(d.file(filepath.Join(d.repo, "node_modules", ".bin", "python3"), "\x7fELF evil", 0o755)))
		}, "changed"},
		{"a program that anybody can write", func(d *desk, l Launch) Launch {
			path := d.file(filepath.Join(d.home, "shared", "python3"), "\x7fELF evil", 0o755)
			if err := os.Chmod(path, 0o777); err != nil {
				d.t.Fatal(err)
			}
			return with(d, l, filepath.Dir(path))
		}, "changed"},
		{"the same program with other content", func(d *desk, l Launch) Launch {
			d.file(filepath.Join(d.home, ".local", "bin", "python3"), "\x7fELF other", 0o755)
			return d.resolved(l)
		}, "changed"},
		{"a PATH that the project sets", func(d *desk, l Launch) Launch {
			l = with(d, l, filepath.Dir(d.file(filepath.Join(d.home, "v3", "python3"), "\x7fELF 3", 0o755)))
			l.Sets = []string{"PATH", "TOKEN"}
			return l
		}, "changed"},
		{"another script, too", func(d *desk, l Launch) Launch {
			d.file("server.py", "evil()", 0o644)
			return with(d, l, filepath.Dir(d.file(filepath.Join(d.home, "v3", "python3"), "\x7fELF 3", 0o755)))
		}, "changed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(t)
			d.t = t
			d.bin("python3")
			d.file("server.py", "serve()", 0o644)
			l := base(d)
			d.agree(l)
			if got := d.ask(test.change(d, l)); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
	t.Run("the id that was shown", func(t *testing.T) {
		d := newDesk(t)
		d.bin("python3")
		d.file("server.py", "serve()", 0o644)
		shown, err := d.Look(t.Context(), base(d))
		if err != nil {
			t.Fatal(err)
		}
		asked := with(d, base(d), filepath.Dir(d.file(filepath.Join(d.home, "v3", "python3"), "\x7fELF 3", 0o755)))
		if k, err := d.Judge(t.Context(), asked); err == nil || k.ID() != shown.ID() {
			t.Errorf("%v, %v; want the id %s", k, err, shown.ID())
		}
		if _, err := d.Accept(t.Context(), Name{shown.Project, shown.Server, shown.Digest[:]}, By{Decider: "ana"}); err != nil {
			t.Error(err)
		}
		if got := d.ask(asked); got != "agreed" {
			t.Errorf("%s after the yes", got)
		}
	})
}

// Acceptance in one project does not apply in another.
func TestOneProjectIsNotAnother(t *testing.T) {
	d := newDesk(t)
	d.bin("npx")
	d.agree(d.shipped("npx", "-y", "notes@1.2.3"))
	l := d.shipped("npx", "-y", "notes@1.2.3")
	l.Cwd = filepath.Join(d.repo, "web") // the same repository
	if got := d.ask(l); got != "agreed" {
		t.Errorf("in a folder below: %s", got)
	}
	other := filepath.Join(d.home, "src", "other")
	if err := os.MkdirAll(filepath.Join(other, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	l.Cwd, l.From = other, filepath.Join(other, ".mcp.json")
	if got := d.ask(l); got != "new" {
		t.Errorf("in another repository: %s", got)
	}
}

// An accepted start is recorded and on disk, and counts only after that.
func TestAgreeing(t *testing.T) {
	d := newDesk(t)
	d.bin("npx")
	l := d.shipped("npx", "notes")
	k, err := d.Look(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		project, server string
		digest          []byte
		want            error
	}{
		{k.Project, k.Server, k.Digest[:4], gate.ErrInvalid},
		{k.Project, k.Server, make([]byte, 32), gate.ErrNotFound},
		{k.Project, "clock", k.Digest[:], gate.ErrNotFound},
		{d.home, k.Server, k.Digest[:], gate.ErrNotFound},
	} {
		if _, err := d.Accept(t.Context(), Name{test.project, test.server, test.digest}, By{}); !errors.Is(err, test.want) {
			t.Errorf("%s of %s: %v, want %v", test.server, test.project, err, test.want)
		}
	}
	d.broken = errors.New("disk full")
	if _, err := d.Accept(t.Context(), Name{k.Project, k.Server, k.Digest[:]}, By{}); err == nil || d.ask(l) != "new" {
		t.Errorf("what can't be recorded counts: %v", err)
	}
	d.broken = nil
	d.agree(l)
	if _, err := d.Accept(t.Context(), Name{k.Project, k.Server, k.Digest[:]}, By{}); !errors.Is(err, gate.ErrDecided) {
		t.Errorf("a second time: %v", err)
	}
	d.restart()
	if got := d.ask(l); got != "agreed" {
		t.Errorf("after a restart: %s", got)
	}
	all := d.List()
	if len(all) != 1 || all[0].Decider != "ana" || !all[0].Accepted.Equal(d.now) || d.Waiting() != 0 {
		t.Errorf("listed: %+v, %d wait", all, d.Waiting())
	}

	// And withdrawn.
	name := Name{k.Project, k.Server, k.Digest[:]}
	d.broken = errors.New("disk full")
	if err := d.Forget(t.Context(), name, By{}); err == nil || d.ask(l) != "agreed" {
		t.Errorf("what can't be recorded counts: %v", err)
	}
	d.broken = nil
	if err := d.Forget(t.Context(), name, By{Decider: "bob"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Forget(t.Context(), name, By{}); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("a second time: %v", err)
	}
	d.restart()
	if got := d.ask(l); got != "new" {
		t.Errorf("what was taken back: %s", got)
	}
	if diff := cmp.Diff([]string{"accepted notes ana", "forgotten notes bob", "withheld notes"}, d.records); diff != "" {
		t.Errorf("on record:\n%s", diff)
	}
}

// An altered row is not trusted, and does not keep the daemon from starting.
func TestAnAlteredRowIsForgotten(t *testing.T) {
	d := newDesk(t)
	d.bin("npx")
	k, err := d.Look(t.Context(), d.shipped("npx", "notes"))
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*store.Start){
		func(row *store.Start) { row.Shown = []byte(strings.ReplaceAll(string(row.Shown), "notes", "evil")) },
		func(row *store.Start) { row.Shown = []byte("{") },
		func(row *store.Start) { row.Server = "clock" },
		func(row *store.Start) { row.Project = "/elsewhere" },
		func(row *store.Start) { row.Digest = row.Digest[:8] },
	} {
		row, err := k.toStore()
		if err != nil {
			t.Fatal(err)
		}
		row.Accepted = d.now
		change(row)
		if err := d.db.KeepStart(t.Context(), row, []store.StartKey{{Project: k.Project, Server: k.Server, Digest: k.Digest[:]}}); err != nil {
			t.Fatal(err)
		}
		d.restart()
		if all := d.List(); len(all) != 0 {
			t.Errorf("believed: %+v", all)
		}
	}
	if got := d.ask(d.shipped("npx", "notes")); got != "new" {
		t.Errorf("afterwards: %s", got)
	}
}

// File names may be any bytes.
func TestNamesThatAreNoText(t *testing.T) {
	d := newDesk(t)
	program := d.file("run\xff", "x", 0o755)
	d.file("start", "#!"+program+"\n", 0o755)
	l := d.shipped("./start")
	k, err := d.Look(t.Context(), l)
	if err != nil || len(k.Files) != 2 || k.Files[1].Path != filepath.Join(d.repo, "run\uFFFD") || k.Files[1].Digest != sumOf("x") {
		t.Fatalf("%+v, %v", k, err)
	}
	d.agree(l)
	d.restart()
	if got := d.ask(l); got != "agreed" {
		t.Errorf("after a restart: %s", got)
	}
}

// Whatever projects contain, what is kept is bounded, and accepted starts stay.
func TestWhatWaitsIsBounded(t *testing.T) {
	d := newDesk(t)
	d.bin("npx")
	d.agree(d.shipped("npx", "notes"))
	for i := range 3 * maxWaiting {
		d.now = d.now.Add(time.Second)
		if got := d.ask(d.shipped("npx", "notes", strings.Repeat("x", i))); got != "changed" {
			t.Fatalf("%d: %s", i, got)
		}
	}
	if n := d.Waiting(); n != maxWaiting {
		t.Errorf("%d wait, want %d", n, maxWaiting)
	}
	for _, k := range d.List() {
		if len(k.Command) == 3 && len(k.Command[2]) < 2*maxWaiting {
			t.Errorf("an old one was kept: %d", len(k.Command[2]))
		}
	}
	d.restart()
	if n := d.Waiting(); n != maxWaiting {
		t.Errorf("%d wait after a restart, want %d", n, maxWaiting)
	}
	if got := d.ask(d.shipped("npx", "notes")); got != "agreed" {
		t.Errorf("what was agreed to: %s", got)
	}

	// What the same line would run now replaces what it would have run before.
	script := d.file("s.sh", "one", 0o755)
	d.bin("sh")
	waiting := d.Waiting()
	for _, text := range []string{"one", "two", "three"} {
		d.file(script, text, 0o755)
		l := d.shipped("sh", "s.sh")
		l.Server = "other"
		if _, err := d.Look(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.Waiting(); n != waiting+1 {
		t.Errorf("%d wait, want %d", n, waiting+1)
	}
}

// A project's server behind an address is withheld until a person has accepted its host, its headers
// and its variables, and again if the file says anything else about it. Values are kept nowhere.
func TestARemoteServer(t *testing.T) {
	d := newDesk(t)
	base := func() Launch {
		return Launch{Server: "notes", From: filepath.Join(d.repo, ".mcp.json"), Cwd: d.repo, Remote: &agentconf.Remote{
			Server: "notes", Address: "https://user:pa55word@mcp.test/a?key=s3cr3t", Transport: agentconf.HTTP, Syntax: "shell",
			Headers: []agentconf.Header{{Name: "Authorization", Template: "Bearer ${TOKEN}"}, {Name: "X-Team", Template: "t3am"}},
		}}
	}
	k, err := d.Look(t.Context(), base())
	if err != nil {
		t.Fatal(err)
	}
	terms := k.Remote.Terms
	want := &Remote{Host: "mcp.test", Headers: []string{"Authorization", "X-Team"}, Variables: []string{"TOKEN"}, Terms: terms}
	if diff := cmp.Diff(want, k.Remote); diff != "" || len(terms) != 64 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := d.ask(base()); got != "new" {
		t.Fatalf("at first: %s", got)
	}
	d.agree(base())
	d.restart()
	for _, test := range []struct {
		name   string
		change func(*Launch)
		want   string
	}{
		{"the same", func(*Launch) {}, "agreed"},
		{"another value of a variable", func(l *Launch) { l.Env = []string{"TOKEN=z"} }, "agreed"},
		{"another host", func(l *Launch) { l.Remote.Address = "https://evil.test/a?key=s3cr3t" }, "changed"},
		{"another path", func(l *Launch) { l.Remote.Address = "https://user:pa55word@mcp.test/b?key=s3cr3t" }, "changed"},
		{"another template", func(l *Launch) { l.Remote.Headers[1].Template = "${TOKEN}" }, "changed"},
		{"another variable", func(l *Launch) { l.Remote.Headers[0].Template = "Bearer ${AWS_SECRET_ACCESS_KEY}" }, "changed"},
		{"one more header", func(l *Launch) { l.Remote.Headers = append(l.Remote.Headers, agentconf.Header{Name: "B"}) }, "changed"},
		{"another transport", func(l *Launch) { l.Remote.Transport = agentconf.SSE }, "changed"},
		{"a command for headers", func(l *Launch) { l.Remote.Helper = []string{"sh", "-c", "x"}; l.Command = l.Remote.Helper }, "changed"},
		{"a program", func(l *Launch) { *l = d.shipped(filepath.Base(d.bin("node"))) }, "changed"},
		{"of the user's own file", func(l *Launch) { l.From = "" }, "own"},
	} {
		l := base()
		test.change(&l)
		if got := d.ask(l); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	for _, path := range []string{d.path, d.path + "-wal"} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for _, secret := range []string{"pa55word", "s3cr3t", "t3am"} {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s is in %s", secret, path)
			}
		}
	}
}

// The command that prints headers is examined like a server's.
func TestAHelperOfARemoteServer(t *testing.T) {
	d := newDesk(t)
	d.bin("sh")
	helper := []string{"sh", "-c", "./get-headers"}
	l := d.shipped(helper...)
	l.Remote = &agentconf.Remote{Server: "notes", Address: "https://mcp.test", Helper: helper}
	k, err := d.Look(t.Context(), l)
	if err != nil || k.Remote == nil || len(k.Files) == 0 || len(k.Gaps) == 0 || !slices.Equal(k.Command, helper) {
		t.Errorf("%+v, %v", k, err)
	}
}

// A command for headers that lies in a project is judged as a server's program, although the person's own file names it.
func TestAHelperInAProject(t *testing.T) {
	d := newDesk(t)
	d.file("get-headers", "#!/bin/sh\n", 0o755)
	l := d.shipped("./get-headers")
	l.From, l.Program = "", filepath.Join(d.repo, "get-headers")
	l.Remote = &agentconf.Remote{Server: "notes", Address: "https://mcp.test", Helper: l.Command}
	if got := d.ask(l); got != "new" {
		t.Errorf("it is %s", got)
	}
	l.Program, l.Command = d.bin("get-headers"), []string{"get-headers"}
	if got := d.ask(l); got != "own" {
		t.Errorf("one of the person's own is %s", got)
	}
}
