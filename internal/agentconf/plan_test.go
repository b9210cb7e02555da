package agentconf

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func mkfifo(t testing.TB, path string) {
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPlanRefuses(t *testing.T) {
	tests := []struct {
		name string
		set  func(*world)
		want []string
	}{
		{"EC-STDIO-001: no file", func(*world) {}, []string{"no configuration of claude-code was found; searched ", ".claude.json", ".mcp.json"}},
		{"EC-STDIO-002: an empty file", func(w *world) { w.write(w.state(), "") }, []string{".claude.json: line 1, column 1: the file is empty"}},
		{"EC-STDIO-003: no server", func(w *world) { w.write(w.state(), `{"mcpServers":{}}`) }, []string{"No MCP servers found in config: ", ".claude.json"}},
		{"EC-STDIO-003: remote servers only", func(w *world) { w.write(w.state(), `{"mcpServers":{"a":{"type":"sse","url":"x"}}}`) },
			[]string{"No MCP servers found in config", "a is a remote server (sse)"}},
		{"EC-STDIO-004: all disabled", func(w *world) {
			w.write(w.project(), `{"mcpServers":{"a":{"command":"x"},"b":{"command":"x"}}}`)
			w.write(filepath.Join(w.cwd, ".claude", "settings.local.json"), `{"disabledMcpjsonServers":["a","b"]}`)
		}, []string{"All MCP servers are disabled: "}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.set(w)
			_, err := NewPlan(claudeCode{}, w.env(), w.shim)
			wantError(t, err, test.want...)
			w.wantClean()
		})
	}
}

// EC-STDIO-034: an entry that starts tg-shim is never wrapped again, under whatever name; what
// a file says about itself does not matter.
func TestDoubleWrap(t *testing.T) {
	w := newWorld(t)
	bin := filepath.Join(filepath.Dir(filepath.Dir(w.shim)), "bin")
	link := filepath.Join(bin, "some-server")
	if err := os.Symlink(w.shim, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(w.shim, filepath.Join(w.cwd, "hard")); err != nil {
		t.Fatal(err)
	}
	w.write(filepath.Join(w.cwd, "copy"), w.read(w.shim))
	w.write(filepath.Join(w.cwd, "other"), strings.ToUpper(w.read(w.shim))) // same size, other content
	w.vars["WHERE"] = bin
	tests := []struct {
		command string
		refused bool
	}{
		{w.shim, true},
		{"/some/other/version/tg-shim", true},
		{"tg-shim", true},
		{"some-server", true},
		{link, true},
		{"./hard", true},
		{"./copy", true},
		{"./other", false},
		{"${WHERE}/some-server", true},
		{"npx", false},
		{"/bin/sh", false},
	}
	for _, test := range tests {
		w.write(w.state(), `{"__thoughtgate_managed": true, "mcpServers":{"a":{"command":"`+test.command+`","args":["--server-id","a","--","x"]}}}`)
		_, err := NewPlan(claudeCode{}, w.env(), w.shim)
		if errors.Is(err, ErrWrapped) != test.refused {
			t.Errorf("command %s: %v, want refused %v", test.command, err, test.refused)
		}
		if test.refused {
			wantError(t, err, "tgctl unwrap "+w.state(), `server "a"`)
		}
	}
}

func TestDoubleWrapOfOurOwn(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p, _ := w.wrapped()
	p.Unlock()
	_, err := NewPlan(claudeCode{}, w.env(), w.shim)
	if !errors.Is(err, ErrWrapped) {
		t.Errorf("planning a wrapped file: %v", err)
	}
}

func TestRewrite(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p := w.plan()
	line := w.line()
	line.Profile = "development"
	if err := p.Prepare(line); err != nil {
		t.Fatal(err)
	}
	env := `"THOUGHTGATE_SOCKET": "` + line.Socket + `", "THOUGHTGATE_SESSION": "` + line.Session + `"`
	want := strings.NewReplacer(
		`"command": "npx"`, `"command": "`+w.shim+`"`,
		`"args": ["-y"`, `"args": ["--server-id", "files", "--profile", "development", "--", "npx", "-y"`,
		`"env": { "TOKEN"`, `"env": { `+env+`, "TOKEN"`,
		`{ "command": "clock-mcp" }`, `{ "args": ["--server-id", "clock", "--profile", "development", "--", "clock-mcp"], "env": {`+env+`}, "command": "`+w.shim+`" }`,
	).Replace(twoServers)
	if got := string(p.files[0].text); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if got := w.read(w.state()); got != twoServers {
		t.Error("preparing changed the file")
	}
}

// EC-STDIO-029: paths written to a file are absolute, so that they do not depend on the agent's
// PATH.
func TestLineIsAbsolute(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	for _, change := range []func(*Line){
		func(l *Line) { l.Socket = "shim.sock" }, func(l *Line) { l.Session = "" }, func(l *Line) { l.Socket = "/\xff" },
	} {
		line := w.line()
		change(&line)
		if err := w.plan().Prepare(line); err == nil {
			t.Errorf("%+v was taken", line)
		}
	}
	p, err := NewPlan(claudeCode{}, w.env(), "tg-shim")
	if err == nil {
		err = p.Prepare(w.line())
	}
	wantError(t, err, "incomplete")
}

// EC-STDIO-026: references stay as written, and those that can't be resolved are reported.
func TestReferences(t *testing.T) {
	w := newWorld(t)
	w.vars["SET"] = "value"
	text := `{"mcpServers":{"a":{"command":"x","args":["${SET}","${GONE}","${ALSO:-d}"],"env":{"K":"${LOST} ${GONE}"}}}}`
	w.write(w.state(), text)
	p := w.plan()
	want := "server a in " + w.state() + " refers to GONE, LOST, which is not set; the reference is kept"
	if got := p.Warnings(); len(got) != 1 || got[0] != want {
		t.Errorf("warnings %q, want %q", got, want)
	}
	if err := p.Prepare(w.line()); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"${SET}", "${GONE}", "${ALSO:-d}", "${LOST} ${GONE}"} {
		if !bytes.Contains(p.files[0].text, []byte(part)) {
			t.Errorf("%s is gone from %s", part, p.files[0].text)
		}
	}
}

func TestOwnVariablesInTheWay(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), `{"mcpServers":{"a":{"command":"x","env":{"THOUGHTGATE_SESSION":"mine"}}}}`)
	p, _ := w.wrapped()
	if now := w.read(w.state()); strings.Contains(now, "mine") || !strings.Contains(now, w.line().Session) || !strings.Contains(strings.Join(p.Warnings(), " "), "server a in "+w.state()+" sets") {
		t.Errorf("wrapped it is %s; warnings %q", now, p.Warnings())
	}
	w.restore(p)
	w.wantFile(w.state(), `{"mcpServers":{"a":{"command":"x","env":{"THOUGHTGATE_SESSION":"mine"}}}}`)
}

// EC-STDIO-038: a dry run returns a diff that patch applies, and changes nothing.
func TestDiff(t *testing.T) {
	patch := program(t, "patch")
	for _, change := range []func(string) string{
		func(s string) string { return s },
		func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		func(s string) string { return strings.TrimSpace(s) },
		func(s string) string { return "\ufeff" + s },
	} {
		w := newWorld(t)
		w.cwd = filepath.Join(w.home, "a b")
		w.write(w.state(), change(twoServers))
		w.write(w.project(), change(`{"mcpServers":{"one":{"command":"x"}}}`+"\n"))
		p := w.plan()
		if err := p.Prepare(w.line()); err != nil {
			t.Fatal(err)
		}
		w.wantFile(w.state(), change(twoServers))
		w.wantClean()
		cmd := exec.Command(patch, "--binary", "-p1", "-d", "/")
		cmd.Stdin = strings.NewReader(p.Diff())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("patch: %v\n%s\n%s", err, out, p.Diff())
		}
		for _, f := range p.files {
			w.wantFile(f.path, string(f.text))
		}
	}
}

// EC-STDIO-006: a backup with another content is never overwritten.
func TestBackup(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	stale := w.state() + backupSuffix
	w.write(stale, "from before")
	p, _ := w.wrapped()
	w.wantFile(stale, "from before")
	w.wantFile(stale+".1", twoServers)
	if got := strings.Join(p.Warnings(), "\n"); !strings.Contains(got, stale+" is an older backup and was kept; this backup is "+stale+".1") {
		t.Errorf("warnings: %q", got)
	}
	w.restore(p)
	w.wantFile(stale, "from before")
	w.wantFile(w.state(), twoServers)
	if _, err := os.Stat(stale + ".1"); err == nil {
		t.Error("our own backup stayed")
	}

	// A backup with the same content is used.
	w.write(stale, twoServers)
	p, _ = w.wrapped()
	if len(p.Warnings()) != 1 { // ${HOME} is not set here
		t.Errorf("warnings: %q", p.Warnings())
	}
	w.restore(p)
	w.wantFile(w.state(), twoServers)
	w.wantClean()
}

func TestPlantedBackup(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	victim := filepath.Join(w.home, "victim")
	w.write(victim, "precious")
	if err := os.Symlink(victim, w.state()+backupSuffix); err != nil {
		t.Fatal(err)
	}
	p, _ := w.wrapped()
	w.wantFile(victim, "precious")
	w.restore(p)
	w.wantFile(victim, "precious")
	w.wantFile(w.state(), twoServers)
}

// EC-STDIO-007: a file that can't be rewritten stays as it is, and the files rewritten before
// it are restored.
func TestApplyFails(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	w.write(w.project(), `{"mcpServers":{"one":{"command":"x"}}}`)
	p := w.prepared()
	p.step = func(step string) {
		if step == "applied" { // the first file is rewritten; make the second fail
			w.write(w.project(), `{"mcpServers":{"one":{"command":"another"}}}`)
		}
	}
	wantError(t, p.Apply(), "rewrite "+w.project(), "changed meanwhile by another program")
	w.wantFile(w.state(), twoServers)
	w.wantFile(w.project(), `{"mcpServers":{"one":{"command":"another"}}}`)
	w.restore(p)
	w.wantFile(w.state(), twoServers)
	w.wantClean()
}

// EC-STDIO-007: if the last of three files can't be written, the others are as they were, byte
// for byte.
func TestThirdFileFails(t *testing.T) {
	for _, step := range []string{"agent locked", "compared"} {
		w := killWorld(t)
		third := filepath.Join(filepath.Dir(w.cwd), ".mcp.json")
		w.write(third, oneServer)
		p := w.prepared()
		if len(p.files) != 3 {
			t.Fatalf("the plan has %q", p.Paths())
		}
		last, begun := p.files[2].file.path, 0
		p.step = func(name string) {
			if name == "agent locked" {
				begun++
			}
			if name == step && begun == 3 { // a file can't replace a folder
				if err := errors.Join(os.Rename(last, last+".moved"), os.Mkdir(last, 0o755)); err != nil {
					t.Error(err)
				}
			}
		}
		wantError(t, p.Apply(), "rewrite "+last)
		w.wantOriginals("the third failed") // at once, not only after Restore
		p.step = func(string) {}
		if err := errors.Join(os.Remove(last), os.Rename(last+".moved", last)); err != nil {
			t.Fatal(err)
		}
		w.restore(p)
		w.wantOriginals("that")
		w.wantFile(third, oneServer)
		w.wantClean()
	}
}

// EC-STDIO-007: permission denied.
func TestReadOnlyFolder(t *testing.T) {
	notRoot(t)
	w := newWorld(t)
	w.write(w.state(), twoServers)
	if err := os.Chmod(w.home, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(w.home, 0o755)
	p := w.plan()
	wantError(t, p.Lock("s"), "permission denied")
	w.wantFile(w.state(), twoServers)
}

// A file that the agent wrote after it was read is rewritten with its new content.
func TestApplyRebases(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p := w.prepared()
	now := strings.Replace(twoServers, "{\n", "{\n  \"numStartups\": 2,\n", 1)
	w.write(w.state(), now)
	if err := p.Apply(); err != nil {
		t.Fatal(err)
	}
	if got := w.read(w.state()); !strings.Contains(got, `"numStartups": 2`) || !strings.Contains(got, w.shim) {
		t.Errorf("after Apply: %s", got)
	}
	w.restore(p)
	w.wantFile(w.state(), now)
	w.wantClean()
}

// Two paths of one file are one file.
func TestLinkedSources(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	if err := os.Symlink(w.state(), w.project()); err != nil {
		t.Fatal(err)
	}
	p, journals := w.wrapped()
	if len(journals) != 1 {
		t.Errorf("%d journals, want 1", len(journals))
	}
	if got := w.read(w.state()); strings.Count(got, w.line().Session) != 2 {
		t.Errorf("rewritten as %s", got)
	}
	w.restore(p)
	w.wantFile(w.state(), twoServers)
	if target, err := os.Readlink(w.project()); err != nil || target != w.state() {
		t.Errorf("the link is %q, %v", target, err)
	}
}
