package agentconf

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that is not the original backup is never restored, and is kept for the person.
func TestATamperedBackupIsNotPutBack(t *testing.T) {
	const broken = `{"mcpServers":`
	for _, test := range []struct {
		name   string
		tamper func(w *world, path string)
		kept   string // expected content of the backup; empty: not checked
	}{
		{"another text", func(w *world, path string) { w.write(path, evil) }, evil},
		{"the beginning of it", func(w *world, path string) { w.write(path, twoServers[:len(twoServers)/2]) }, twoServers[:len(twoServers)/2]},
		{"a link", func(w *world, path string) {
			w.write(w.home+"/elsewhere", twoServers)
			if err := errors.Join(os.Remove(path), os.Symlink(w.home+"/elsewhere", path)); err != nil {
				w.t.Fatal(err)
			}
		}, twoServers},
		{"a pipe", func(w *world, path string) {
			if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
				w.t.Fatal(err)
			}
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			// If the file does not parse any more, there is nothing else to restore.
			w := newWorld(t)
			w.write(w.state(), twoServers)
			p, journals := w.wrapped()
			defer p.Unlock()
			backup := w.state() + backupSuffix
			test.tamper(w, backup)
			w.write(w.state(), broken)
			_, err := Restore(journals[w.state()], nil)
			wantError(t, err, "the file is invalid", "no valid backup", backup)
			w.wantFile(w.state(), broken)
			if test.kept != "" {
				w.wantFile(backup, test.kept)
			}
		})
		t.Run(test.name+", and the way back leads elsewhere", func(t *testing.T) {
			w := newWorld(t)
			w.write(w.state(), twoServers)
			p, journals := w.wrapped()
			defer p.Unlock()
			j, err := parseJournal(journals[w.state()])
			if err != nil {
				t.Fatal(err)
			}
			j.Original = digest([]byte("what it was, which nothing leads back to"))
			text, err := json.Marshal(j)
			if err != nil {
				t.Fatal(err)
			}
			backup := w.state() + backupSuffix
			test.tamper(w, backup)
			report, err := Restore(text, nil)
			if err != nil || report.State != Merged || report.Backup != backup || !strings.Contains(report.String(), "is not the backup that was made") {
				t.Errorf("%+v, %v", report, err)
			}
			w.wantFile(w.state(), twoServers)
			if test.kept != "" {
				w.wantFile(backup, test.kept)
			}
		})
	}
}

// Only a backup in the same folder, with the same owner and mode, may be swapped in for a file
// that can't be written, and only if nobody has written the file meanwhile.
func TestWhatIsSwappedIn(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "x", Err: unix.ENOSPC}
	for _, test := range []struct {
		name    string
		change  func(w *world, now, backup *file)
		failed  error
		swapped bool
	}{
		{"a full disk", nil, full, true},
		{"nothing failed", nil, nil, false},
		{"somebody wrote", nil, errChanged, false},
		{"another mode", func(_ *world, _, backup *file) { backup.mode ^= 0o077 }, full, false},
		{"another owner", func(_ *world, _, backup *file) { backup.uid++ }, full, false},
		{"another group", func(_ *world, _, backup *file) { backup.gid++ }, full, false},
		{"another folder", func(w *world, _, backup *file) { backup.path = w.cwd + "/x" }, full, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.state(), oneServer)
			w.write(w.state()+backupSuffix, twoServers)
			now, err := readFile(w.state())
			if err != nil {
				t.Fatal(err)
			}
			backup, err := readFile(w.state() + backupSuffix)
			if err != nil {
				t.Fatal(err)
			}
			if test.change != nil {
				test.change(w, now, backup)
			}
			err = now.orSwap(backup, test.failed, func(string) {})
			if want := test.failed; test.swapped && err != nil || !test.swapped && err != want {
				t.Errorf("got %v, want %v", err, want)
			}
			want := oneServer
			if test.swapped {
				want = twoServers
			}
			w.wantFile(w.state(), want)
		})
	}
}

// watchSyncs calls see before each sync of a folder, and lets the sync fail with the error of
// see.
func watchSyncs(t *testing.T, see func() error) {
	was := fsync
	t.Cleanup(func() { fsync = was })
	fsync = func(dir int) error { return errors.Join(see(), was(dir)) }
}

// A folder is synced after a file in it was created, renamed or removed, before the next step
// depends on it.
func TestFoldersAreSynced(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	text := func(path string) string {
		content, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		return string(content)
	}
	backup := w.state() + backupSuffix
	var synced []string
	watchSyncs(t, func() error {
		state := "rewritten"
		if text(w.state()) == twoServers {
			state = "as it was"
		}
		if text(backup) == twoServers {
			state += ", with its backup"
		}
		synced = append(synced, state)
		return nil
	})
	want := func(when string, states ...string) {
		t.Helper()
		for _, state := range states {
			if !slices.Contains(synced, state) {
				t.Errorf("%s: never synced while it is %s; synced %q", when, state, synced)
			}
		}
		synced = nil
	}
	p := w.plan()
	if err := errors.Join(p.Lock(w.line().Session), p.Backup()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Unlock)
	want("backup", "as it was, with its backup")
	if err := errors.Join(p.Prepare(w.line()), p.Apply()); err != nil {
		t.Fatal(err)
	}
	want("apply", "rewritten, with its backup")
	w.restore(p)
	want("restore", "as it was, with its backup", "as it was")

	p, _ = w.wrapped()
	p.Unlock()
	synced = nil
	if report, err := Unwrap(w.state(), w.notes()); err != nil || report.State != Restored {
		t.Fatalf("%+v, %v", report, err)
	}
	want("unwrap", "as it was, with its backup", "as it was")
	w.wantClean()
}

// If a folder can't be synced, the operation fails, unless its file system does not support it.
func TestAFolderThatCannotBeSynced(t *testing.T) {
	for _, test := range []struct {
		fails error
		ends  bool
	}{{unix.EIO, true}, {unix.EINVAL, false}} {
		w := newWorld(t)
		w.write(w.state(), twoServers)
		p := w.plan()
		if err := p.Lock(w.line().Session); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Unlock)
		var fails error
		watchSyncs(t, func() error { return fails })
		fails = test.fails
		if err := p.Backup(); (err != nil) != test.ends {
			t.Errorf("%v: backup: %v", test.fails, err)
		}
		fails = nil
		if err := errors.Join(p.Backup(), p.Prepare(w.line())); err != nil {
			t.Fatal(err)
		}
		fails = test.fails
		if err := p.Apply(); (err != nil) != test.ends {
			t.Errorf("%v: apply: %v", test.fails, err)
		}
		fails = nil
		w.restore(p)
		w.wantFile(w.state(), twoServers)
	}
}
