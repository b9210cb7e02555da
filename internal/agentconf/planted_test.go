package agentconf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// evil is the content planted by somebody who can write to the folder of a configuration.
const evil = `{"mcpServers":{"one":{"command":"/tmp/evil"}}}`

// plantedNames returns the names of our files, including those of older versions.
func plantedNames(now string) []string {
	return []string{
		swapSuffix + strings.Repeat("0", 16) + digest([]byte(now))[:16] + "12345678",
		swapSuffix + digest([]byte(now))[:16] + strings.Repeat("0", 16) + "12345678",
		tempSuffix + "12345678",
		tempSuffix + strings.Repeat("0", 32),
	}
}

// A file planted beside a configuration, under any name that we use, stays where it is, and its
// content does not get anywhere.
func TestPlantedFiles(t *testing.T) {
	ways := map[string]func(w *world){
		"wrap and restore": func(w *world) {
			p, _ := w.wrapped()
			w.restore(p)
		},
		"the daemon restores": func(w *world) {
			p, journals := w.wrapped()
			p.Unlock()
			for _, j := range journals {
				if _, err := Restore(j, nil); err != nil {
					w.t.Fatal(err)
				}
			}
		},
		"unwrap": func(w *world) {
			p, _ := w.wrapped()
			p.Unlock()
			for _, path := range []string{w.state(), w.project()} {
				report, err := Unwrap(path, w.notes())
				if err != nil || report.State != Restored {
					w.t.Fatal(report, err)
				}
			}
		},
		"protect and repair": func(w *world) {
			l := &lasting{world: w}
			l.protect()
			l.write(l.state(), twoServers)
			l.protect()
			if _, err := l.kept.Restore(); err != nil {
				w.t.Fatal(err)
			}
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			w := killWorld(t)
			// Anyone can learn the text during a wrap from a wrap of their own.
			p, _ := w.wrapped()
			var planted []string
			for _, path := range []string{w.state(), w.project()} {
				during := w.read(path)
				for _, suffix := range append(plantedNames(during), plantedNames(map[string]string{w.state(): twoServers, w.project(): oneServer}[path])...) {
					w.write(path+suffix, evil)
					planted = append(planted, path+suffix)
				}
			}
			w.restore(p)
			way(w)
			w.wantFile(w.state(), twoServers)
			w.wantFile(w.project(), oneServer)
			for _, path := range planted {
				w.wantFile(path, evil)
			}
		})
	}
}

// A link in the place of a file is not read: it may lead to any file.
func TestLinkIsNotRead(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("x"), 0o600), os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	if f, err := readFile(file); err != nil || string(f.data) != "x" {
		t.Errorf("a file: %v", err)
	}
	if _, err := readFile(link); err == nil || !strings.Contains(err.Error(), "is a link") {
		t.Errorf("a link: %v", err)
	}
}

// Anyone who finds the temporary file of a killed wrap can change it, but that text does not
// replace the configuration.
func TestPlantedInLeftTemp(t *testing.T) {
	w := killWorld(t)
	for last := 1; ; last++ {
		if killed, step := run(t, w, "wrap", last); !killed {
			t.Fatal("never killed after the swap")
		} else if step == "swapped" {
			break
		}
		for _, path := range []string{w.state(), w.project()} {
			if _, err := Unwrap(path, w.notes()); err != nil {
				t.Fatal(err)
			}
		}
	}
	temps, err := filepath.Glob(w.state() + tempSuffix + "*")
	if err != nil || len(temps) != 1 {
		t.Fatal(temps, err)
	}
	w.write(temps[0]+"~", evil)
	if err := os.Rename(temps[0]+"~", temps[0]); err != nil {
		t.Fatal(err)
	}
	report, err := Unwrap(w.state(), w.notes())
	if err != nil || !strings.Contains(report.String(), alteredSuffix) {
		t.Errorf("Unwrap = %v, %v", report, err)
	}
	w.wantFile(w.state(), twoServers)
	w.wantFile(w.state()+alteredSuffix, evil)
}

// A backup that we did not make is not restored.
func TestPlantedBackupBringsNothingBack(t *testing.T) {
	for name, now := range map[string]string{"gone": "", "broken": `{"mcpServers": "` + shimName} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if now != "" {
				w.write(w.project(), now)
			}
			w.write(w.project()+backupSuffix, evil)
			_, err := Unwrap(w.project(), w.notes())
			wantError(t, err, w.project()+backupSuffix, "may not have been made by ThoughtGate", "copy it")
			if text, err := os.ReadFile(w.project()); string(text) != now {
				t.Errorf("the file holds %q, %v", text, err)
			}
		})
	}
	t.Run("a later one than ours", func(t *testing.T) {
		w := killWorld(t)
		p, _ := w.wrapped()
		p.Unlock()
		w.write(w.project()+backupSuffix+".1", evil)
		if err := os.Remove(w.project()); err != nil {
			t.Fatal(err)
		}
		if _, err := Unwrap(w.project(), w.notes()); err != nil {
			t.Fatal(err)
		}
		w.wantFile(w.project(), oneServer)
	})
}

// The content of a lock file is only informative: folders that it names are not removed.
//
//gotest:race several change the same files
func TestPlantedLockNamesFolders(t *testing.T) {
	w := killWorld(t)
	folder := filepath.Join(w.home, "precious")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	is, err := identify(folder)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"path":%q,"dev":%d,"ino":%d,"changed":%d}`, folder, is.Dev, is.Ino, is.Changed)
	w.write(w.project()+lockSuffix, `{"pid":1,"agent_locks":[`+text+`],"locks":[`+text+`]}`)
	p, _ := w.wrapped()
	w.restore(p)
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
}

// A planted pipe or folder with the name of our file does not block.
func TestPlantedPipes(t *testing.T) {
	for _, suffix := range []string{lockSuffix, backupSuffix, alteredSuffix, tempSuffix + "12345678"} {
		t.Run(suffix, func(t *testing.T) {
			w := killWorld(t)
			mkfifo(t, w.project()+suffix)
			p, err := NewPlan(claudeCode{}, w.env(), w.shim)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Unlock()
			if err := p.Lock("5e55104f5e55104f5e55104f5e55104f"); err != nil {
				wantError(t, err, lockSuffix, "is not a regular file")
				return
			}
			if err := p.Backup(); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Restore(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Nor does one in place of a file that is only read.
func TestPlantedPipesThatAreLookedAt(t *testing.T) {
	w := killWorld(t)
	if err := os.MkdirAll(filepath.Join(w.cwd, ".claude", "agents"), 0o755); err != nil {
		t.Fatal(err)
	}
	mkfifo(t, filepath.Join(w.cwd, ".claude", "agents", "helper.md"))
	w.plan()
	if err := os.MkdirAll(filepath.Join(w.cwd, ".vscode"), 0o755); err != nil {
		t.Fatal(err)
	}
	mkfifo(t, filepath.Join(w.cwd, ".vscode", "settings.json"))
	w.write(filepath.Join(w.cwd, ".vscode", "mcp.json"), `{"servers":{"one":{"command":"x"}}}`)
	env := w.env()
	env.Command = []string{"code", w.cwd}
	if _, err := NewPlan(vscode{}, env, w.shim); err != nil {
		wantError(t, err, "settings.json", "is not a regular file")
	}
}

// Nobody has agreed to a server that is added while the files are rewritten: the rewrite is
// refused, and the error names the server.
func TestUnplannedServer(t *testing.T) {
	withEvil := strings.Replace(twoServers, servers, servers+"\n    \"evil\": {\"command\":\"/tmp/evil\"},", 1)
	for _, at := range []string{"journal stored", "compared", "renamed"} {
		t.Run(at, func(t *testing.T) {
			w := killWorld(t)
			p := w.prepared()
			once := false
			p.step = func(step string) {
				if step == at && !once {
					once = true
					text := withEvil
					if at == "renamed" { // has read our text and writes it back
						text = strings.Replace(w.read(w.state()), servers, servers+"\n    \"evil\": {\"command\":\"/tmp/evil\"},", 1)
					}
					w.write(w.state()+"~", text)
					if err := os.Rename(w.state()+"~", w.state()); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := p.Journals(); err != nil {
				t.Fatal(err)
			}
			p.step("journal stored")
			wantError(t, p.Apply(), "server evil was added", w.state())
			w.restore(p)
			w.wantFile(w.state(), withEvil)
			w.wantFile(w.project(), oneServer)
		})
	}
	t.Run("before the lock", func(t *testing.T) {
		w := killWorld(t)
		p := w.plan()
		w.write(w.state(), withEvil)
		wantError(t, p.Lock(w.line().Session), "evil", w.state(), "try again")
		w.wantClean()
	})
}

// What a killed writer left replaces the configuration only if everything noted of the swap is
// still true.
func TestWhatALeftFileIs(t *testing.T) {
	const before, ours, theirs, other = "before", "ours", "theirs", "other"
	for _, tt := range []struct {
		name      string
		left      string
		now       string
		change    func(*note)
		want      string // the configuration's content afterwards
		kept      string // content of the file kept beside it
		untouched bool   // the left file stays
	}{
		{"what somebody wrote at the swap", theirs, ours, func(*note) {}, theirs, "", false},
		{"what was to be replaced", before, ours, func(*note) {}, ours, "", false},
		{"what we wrote", ours, before, func(*note) {}, before, "", false},
		{"half of what we wrote", "ou", before, func(n *note) { n.ID = identity{} }, before, "", false},
		{"beside another configuration", theirs, other, func(*note) {}, other, theirs, false},
		{"beside a copy of ours", theirs, ours, func(n *note) { n.ID.Ino++ }, ours, theirs, false},
		{"beside a copy of ours on another device", theirs, ours, func(n *note) { n.ID.Dev++ }, ours, theirs, false},
		{"of another configuration", theirs, ours, func(n *note) { n.Target += "x" }, ours, "", true},
		{"named by a path", theirs, ours, func(n *note) { n.Name = "./" + n.Name }, ours, "", true},
		{"of another kind", theirs, ours, func(n *note) { n.Kind = noteBackup }, ours, "", true},
	} {
		dir := t.TempDir()
		notes, target := notebook(filepath.Join(dir, "notes")), filepath.Join(dir, "conf.json")
		n := &note{Kind: noteTemp, Target: target, Name: tempName("conf.json"), Before: digest([]byte(before)), After: digest([]byte(ours))}
		left := n.path()
		for _, f := range [][2]string{{left, tt.left}, {target, tt.now}} { // in this order, since the swap was the last change
			if err := os.WriteFile(f[0], []byte(f[1]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f, err := readFile(target)
		if err != nil {
			t.Fatal(err)
		}
		n.ID = f.id
		tt.change(n)
		notes.put(n)
		said := sweepTemps(target, notes)
		if got, err := os.ReadFile(target); err != nil || string(got) != tt.want {
			t.Errorf("%s: the configuration holds %q, %v", tt.name, got, err)
		}
		if kept, _ := os.ReadFile(target + alteredSuffix); string(kept) != tt.kept || (len(said) > 0) != (tt.kept != "") {
			t.Errorf("%s: kept %q, said %q", tt.name, kept, said)
		}
		if _, err := os.Lstat(left); (err == nil) != tt.untouched {
			t.Errorf("%s: what was left: %v", tt.name, err)
		}
	}
}

// What a killed writer left is restored before a plan is read, so that the person who agrees to
// the plan sees it. It is not restored while another process holds the configuration.
func TestWhatIsLeftIsBroughtBackBeforeThePlan(t *testing.T) {
	w := killWorld(t)
	withThird := strings.Replace(twoServers, servers, servers+"\n    \"third\": {\"command\":\"x\"},", 1)
	name := tempName(filepath.Base(w.state()))
	w.write(filepath.Join(w.home, name), withThird)
	w.write(w.state(), twoServers)
	f, err := readFile(w.state())
	if err != nil {
		t.Fatal(err)
	}
	notebook(w.notes()).put(&note{Kind: noteTemp, Target: w.state(), Name: name, Before: digest([]byte("before")), After: digest([]byte(twoServers)), ID: f.id})
	l, err := takeLock(lockPath(w.state()), w.state(), holder{Brief: true, notes: notebook(w.notes())})
	if err != nil {
		t.Fatal(err)
	}
	w.plan()
	w.wantFile(w.state(), twoServers)
	l.release()
	if diff := w.prepared().Diff(); !strings.Contains(diff, "third") {
		t.Errorf("it is not in the plan:\n%s", diff)
	}
	w.wantFile(w.state(), withThird)
}

// A copy is ours only if it has the noted name and content.
func TestWhichCopiesAreOurs(t *testing.T) {
	dir := t.TempDir()
	notes, target := notebook(filepath.Join(dir, "notes")), filepath.Join(dir, "conf.json")
	n := &note{Kind: noteBackup, Target: target, Name: "conf.json.bak", After: digest([]byte("whole"))}
	notes.put(n)
	for _, tt := range []struct {
		path, data, target string
		ours               bool
	}{
		{n.path(), "whole", target, true},
		{n.path(), "other", target, false},
		{n.path() + "2", "whole", target, false},
		{n.path(), "whole", target + "2", false},
	} {
		if got := notes.made(&file{path: tt.path, data: []byte(tt.data)}, tt.target); got != tt.ours {
			t.Errorf("%s, %s, of %s: %v", tt.path, tt.data, tt.target, got)
		}
	}
}
