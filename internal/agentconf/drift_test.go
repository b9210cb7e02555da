package agentconf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drift returns the result of Drift in one line.
func drift(t *testing.T, p Governing) string {
	t.Helper()
	all, err := p.Drift()
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, d := range all {
		words = append(words, fmt.Sprint(d.ID, " ", d.How))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// daemonKeeps has the latest journal of each path, like a daemon.
type daemonKeeps map[string][]byte

func (d daemonKeeps) commit(journals []Journal) error {
	for _, j := range journals {
		d[j.Path] = j.Text
	}
	return nil
}

// EC-STDIO-039: a server that is added during the session is reported, and stays after the
// session. So does an entry of ours that was changed so that it does not start tg-shim.
func TestDrift(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p, _ := w.wrapped()
	if got := drift(t, p); got != "" {
		t.Errorf("at once: %s", got)
	}
	stamp := p.Stamp()
	w.write(w.state(), reformat(t, w.read(w.state()), func(v map[string]any) {
		dig(v, "mcpServers")["new"] = map[string]any{"command": "new"}
		dig(v, "mcpServers")["far"] = map[string]any{"type": "http", "url": "u"}
		dig(v, "mcpServers")["copy"] = dig(v, "mcpServers", "clock")
		dig(v, "mcpServers", "files")["command"] = "npx"
	}))
	if p.Stamp() == stamp {
		t.Error("the stamp is the same")
	}
	stamp = p.Stamp()
	w.write(w.project(), `{"mcpServers":{"shipped":{"command":"x"}}}`)
	if p.Stamp() == stamp {
		t.Error("the stamp is the same although there is a new file")
	}
	if got := drift(t, p); got != "files changed, new added, shipped added" {
		t.Errorf("drift: %s", got)
	}
	w.restore(p)
	if got := w.read(w.state()); !strings.Contains(got, `"new"`) {
		t.Errorf("afterwards: %s", got)
	}
	w.write(w.state(), "{")
	if _, err := p.Drift(); err == nil {
		t.Error("of a broken file drift can be told")
	}
}

// EC-STDIO-039: Adopt governs such a server, wherever it is. At the end it is restored as
// written, by anyone who has the journals.
func TestAdopt(t *testing.T) {
	for _, by := range []string{"the wrap", "the daemon", "a person"} {
		t.Run(by, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.state(), twoServers)
			p, journals := w.wrapped()
			daemon := daemonKeeps(journals)

			// A person adds servers in their own style: to a file that was rewritten, to a file
			// in another folder, and to a file that did not exist.
			added := `{
  "mcpServers": {
    "bare": {"command":   "bare"},
    "full" : { "args" : [ ] , "env":{}, "command":"full" },`
			w.write(w.state(), strings.Replace(w.read(w.state()), "{\n  \"mcpServers\": {", added, 1))
			want := strings.Replace(twoServers, "{\n  \"mcpServers\": {", added, 1)
			w.write(w.project(), oneServer)
			if got := drift(t, p); got != "bare added, full added, one added" {
				t.Fatalf("drift: %s", got)
			}
			if err := p.Adopt(daemon.commit); err != nil {
				t.Fatal(err)
			}
			if got := drift(t, p); got != "" {
				t.Errorf("still: %s", got)
			}
			if got := w.read(w.state()) + w.read(w.project()); strings.Count(got, w.line().Session) != 5 {
				t.Errorf("adopted:\n%s", got)
			}
			if err := p.Adopt(func([]Journal) error { return errors.New("nothing is new") }); err != nil {
				t.Errorf("once more: %v", err)
			}
			var locked *LockedError
			if _, err := Unwrap(w.project(), w.notes()); !errors.As(err, &locked) {
				t.Errorf("the new file is not locked: %v", err)
			}

			if by == "the wrap" {
				w.restore(p)
			}
			p.Unlock()
			for _, path := range []string{w.state(), w.project()} {
				var report Report
				err := error(nil)
				switch by {
				case "the daemon":
					report, err = Restore(daemon[path], nil)
				case "a person":
					report, err = Unwrap(path, w.notes())
				}
				if err != nil || len(report.Notes) > 0 && by != "a person" {
					t.Errorf("%s: %+v, %v", path, report, err)
				}
			}
			if by == "a person" { // nothing says what the added entries lacked
				want = strings.NewReplacer(`{"command":   "bare"}`, `{"args":   [],   "env":   {},   "command":   "bare"}`).Replace(want)
				_ = os.Remove(w.state() + backupSuffix) // differs from the file, and stays
			}
			w.wantFile(w.state(), want)
			w.wantFile(w.project(), oneServer)
			for _, path := range []string{w.state(), w.project()} {
				_ = os.Remove(lockPath(path)) // the daemon is this process and can't release the lock
			}
			w.wantClean()
		})
	}
}

// Changes by others to a governed server are kept. Adopt governs the changed server, and its
// entry keeps the change when our line is removed. A removed server stays removed.
func TestAdoptChanged(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	w.write(w.project(), oneServer)
	p, journals := w.wrapped()
	daemon := daemonKeeps(journals)
	w.write(w.state(), reformat(t, w.read(w.state()), func(v map[string]any) {
		dig(v, "mcpServers")["files"] = map[string]any{"command": "uvx", "args": []any{"files@2"}}
		delete(dig(v, "mcpServers"), "clock")
	}))
	if got := drift(t, p); got != "files changed" {
		t.Fatalf("drift: %s", got)
	}
	if err := p.Adopt(daemon.commit); err != nil {
		t.Fatal(err)
	}
	if got := drift(t, p); got != "" || !strings.Contains(w.read(w.state()), `"uvx"`) {
		t.Errorf("drift: %s\n%s", got, w.read(w.state()))
	}
	w.restore(p)
	want := reformat(t, twoServers, func(v map[string]any) {
		dig(v, "mcpServers")["files"] = map[string]any{"command": "uvx", "args": []any{"files@2"}}
		delete(dig(v, "mcpServers"), "clock")
	})
	if got := reformat(t, w.read(w.state()), func(map[string]any) {}); got != want {
		t.Errorf("afterwards:\n%s\nwant\n%s", got, want)
	}
	w.wantClean()
}

// What can't be adopted stays as it is and does no harm.
func TestAdoptRefuses(t *testing.T) {
	tests := []struct {
		name string
		set  func(*testing.T, *world, *Plan)
		says string
	}{
		{"a file that another wrap has", func(t *testing.T, w *world, _ *Plan) {
			w.write(w.project(), newServer)
			other, err := takeLock(lockPath(w.project()), w.project(), holder{Session: "other"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(other.release)
		}, "is already wrapped"},
		{"an entry of ours that was damaged", func(_ *testing.T, w *world, _ *Plan) {
			w.write(w.state(), strings.Replace(w.read(w.state()), `"`+w.shim+`"`, `"npx"`, 1))
			w.write(w.state(), strings.Replace(w.read(w.state()), `"mcpServers": {`, `"mcpServers": {"new":{"command":"x"},`, 1))
		}, "was altered"},
		{"a link that was replaced", func(t *testing.T, w *world, _ *Plan) {
			text := w.read(w.state())
			if err := os.Rename(w.state(), w.state()+".old"); err != nil {
				t.Fatal(err)
			}
			w.write(filepath.Join(w.home, "elsewhere.json"), strings.Replace(text, `"mcpServers": {`, `"mcpServers": {"new":{"command":"x"},`, 1))
			if err := os.Symlink("elsewhere.json", w.state()); err != nil {
				t.Fatal(err)
			}
		}, "leads to another file"},
		{"a daemon that can't keep the journal", func(_ *testing.T, w *world, p *Plan) {
			w.write(w.project(), newServer)
		}, "no daemon"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.state(), twoServers)
			p, _ := w.wrapped()
			test.set(t, w, p)
			before := w.read(w.state())
			wantError(t, p.Adopt(func([]Journal) error { return errors.New("no daemon") }), test.says)
			w.wantFile(w.state(), before)
			if _, err := os.Stat(w.project()); err == nil {
				w.wantFile(w.project(), newServer)
			}
			w.restore(p)
			if _, err := os.Stat(w.project()); err == nil {
				w.wantFile(w.project(), newServer)
			}
			if left, _ := filepath.Glob(w.project() + ".thoughtgate-backup*"); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// An entry that starts tg-shim under another name, or that another session has rewritten, does
// not get a second line.
func TestAdoptNestsNothing(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p, journals := w.wrapped()
	if err := os.Link(w.shim, filepath.Join(w.cwd, "hard")); err != nil {
		t.Fatal(err)
	}
	others := `{"mcpServers":{"a":{"command":"./hard","args":["x"]},
		"b":{"command":"/elsewhere/tg-shim","args":["--server-id","b","--","x"],"env":{"THOUGHTGATE_SESSION":"other"}},
		"c":{"command":"c"}}}`
	w.write(w.project(), others)
	if err := p.Adopt(daemonKeeps(journals).commit); err != nil {
		t.Fatal(err)
	}
	if got := w.read(w.project()); strings.Count(got, w.line().Session) != 1 || !strings.Contains(got, `"a":{"command":"./hard","args":["x"]}`) {
		t.Errorf("adopted: %s", got)
	}
	w.restore(p)
	w.wantFile(w.project(), others)
}

// Adopt works whichever entries of any file somebody rewrites, and the file is restored byte
// for byte.
func TestAdoptAny(t *testing.T) {
	w := newWorld(t)
	env := w.env()
	env.Config = filepath.Join(w.home, "any.json")
	rapid.Check(t, func(rt *rapid.T) {
		text := drawLayout(rt, true).file()
		w.write(env.Config, text)
		p, err := NewPlan(custom{}, env, w.shim)
		if err != nil {
			return // has no server
		}
		defer p.Unlock()
		for _, do := range []func() error{
			func() error { return p.Lock(w.line().Session) }, p.Backup, func() error { return p.Prepare(w.line()) }, p.Apply,
		} {
			if err := do(); err != nil {
				rt.Fatalf("%v\n%s", err, text)
			}
		}
		var kept []*Entry
		for _, e := range p.files[0].governed() {
			if rapid.Bool().Draw(rt, "kept") {
				kept = append(kept, e)
			}
		}
		if len(kept) > 0 {
			partly, _, err := rewrite(p.files[0].doc, kept, nil, p.line)
			if err != nil {
				rt.Fatal(err)
			}
			w.write(env.Config, string(partly))
		} else {
			w.write(env.Config, text)
		}
		if err := p.Adopt(func([]Journal) error { return nil }); err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		if got := strings.Count(w.read(env.Config), w.line().Session); got != len(p.files[0].governed()) {
			rt.Fatalf("%d entries are governed:\n%s", got, w.read(env.Config))
		}
		if _, err := p.Restore(); err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		if got := w.read(env.Config); got != text {
			rt.Fatalf("\n got %q\nwant %q", got, text)
		}
	})
	w.wantClean()
}
