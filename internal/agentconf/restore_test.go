package agentconf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRestoreBytesModeAndLink(t *testing.T) {
	texts := map[string]string{
		"usual":            twoServers,
		"no final newline": strings.TrimSpace(twoServers),
		"CRLF":             strings.ReplaceAll(twoServers, "\n", "\r\n"),
		"byte order mark":  "\ufeff" + twoServers,
		"one line":         `{"mcpServers":{"a":{"command":"x"},"b":{"args":null,"env":null,"command":"y"},"c":{"args":[ ],"env":{ },"command":"z"}}}`,
		"escapes":          `{"mcpServers":{"a\u0062":{"command":"n\u0070x","args":["\ud83d","1\/2"],"env":{"K":"\u00e9"}}}}`,
		"numbers":          `{"n":1.0,"m":1E400,"mcpServers":{"a":{"command":"x","timeout":6.0e4}}}`,
	}
	for name, text := range texts {
		for _, linked := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				target := w.state()
				if linked {
					target = filepath.Join(w.home, "dotfiles", "claude.json")
				}
				w.write(target, text)
				if linked {
					if err := os.Symlink(filepath.Join("dotfiles", "claude.json"), w.state()); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Chmod(target, 0o640); err != nil {
					t.Fatal(err)
				}
				p, journals := w.wrapped()
				wantMode(t, target, 0o640)
				if got := w.read(w.state()); got == text || !strings.Contains(got, w.shim) {
					t.Errorf("wrapped: %s", got)
				}
				reports := w.restore(p)
				if len(reports) != 1 || reports[0].State != Restored || reports[0].String() != "" {
					t.Errorf("reports %+v", reports)
				}
				w.wantFile(target, text)
				wantMode(t, target, 0o640)
				if _, err := os.Readlink(w.state()); (err == nil) != linked {
					t.Errorf("link: %v", err)
				}
				w.wantClean()

				// A second restore by another process finds nothing to do.
				report, err := Restore(journals[w.state()], nil)
				if err != nil || report.State != Untouched || report.String() != "" {
					t.Errorf("again: %+v, %v", report, err)
				}
				w.wantClean()
			})
		}
	}
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("mode of %s is %o, want %o", path, got, want)
	}
}

func TestKeepsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the superuser can give files away")
	}
	w := newWorld(t)
	w.write(w.state(), twoServers)
	if err := os.Chown(w.state(), 1234, 4321); err != nil {
		t.Fatal(err)
	}
	want := func() {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(w.state(), &st); err != nil || st.Uid != 1234 || st.Gid != 4321 {
			t.Errorf("owner %d, group %d, %v", st.Uid, st.Gid, err)
		}
	}
	p, _ := w.wrapped()
	want()
	w.restore(p)
	want()
	w.wantFile(w.state(), twoServers)
}

// reformat encodes a JSON file again, like an agent that decodes it completely.
func reformat(t testing.TB, text string, change func(map[string]any)) string {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	change(v)
	out, err := json.MarshalIndent(v, "", "   ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func dig(v map[string]any, path ...string) map[string]any {
	for _, step := range path {
		v = v[step].(map[string]any)
	}
	return v
}

// What the agent or a person wrote during the session stays; our line is removed.
func TestRestoreMerges(t *testing.T) {
	type object = map[string]any
	type array = []any
	tests := []struct {
		name   string
		change func(object) // changes the wrapped file
		want   func(object) // makes the same change to the original
		state  State
		notes  []string
		kept   bool // the altered file is kept
	}{
		{name: "something else was written",
			change: func(v object) { v["numStartups"] = 7 }, want: func(v object) { v["numStartups"] = 7 }},
		{name: "a server was added",
			change: func(v object) { dig(v, "mcpServers")["new"] = object{"command": "new"} },
			want:   func(v object) { dig(v, "mcpServers")["new"] = object{"command": "new"} }},
		{name: "only the layout was changed", change: func(object) {}, want: func(object) {}},
		{name: "arguments and variables were added to ours",
			change: func(v object) {
				files := dig(v, "mcpServers", "files")
				files["args"] = append(files["args"].(array), "more")
				dig(files, "env")["MORE"] = "1"
				files["timeout"] = 5
				dig(v, "mcpServers", "clock", "env")["TZ"] = "UTC"
			},
			want: func(v object) {
				files := dig(v, "mcpServers", "files")
				files["args"] = append(files["args"].(array), "more")
				dig(files, "env")["MORE"] = "1"
				files["timeout"] = 5
				dig(v, "mcpServers", "clock")["env"] = object{"TZ": "UTC"}
			}},
		{name: "the command behind ours was changed",
			change: func(v object) {
				args := dig(v, "mcpServers", "files")["args"].(array)
				args[3] = "bunx"
			},
			want: func(v object) { dig(v, "mcpServers", "files")["command"] = "bunx" }},
		{name: "a server was removed",
			change: func(v object) { delete(dig(v, "mcpServers"), "clock") },
			want:   func(v object) { delete(dig(v, "mcpServers"), "clock") },
			notes:  []string{"clock was removed meanwhile and was not restored"}},
		{name: "a server was replaced",
			change: func(v object) { dig(v, "mcpServers")["clock"] = object{"command": "other-clock"} },
			want:   func(v object) { dig(v, "mcpServers")["clock"] = object{"command": "other-clock"} },
			notes:  []string{"clock was replaced meanwhile and was not changed"}},
		{name: "a server was put back by hand",
			change: func(v object) { dig(v, "mcpServers")["clock"] = object{"command": "clock-mcp"} },
			want:   func(object) {}},
		{name: "a server was renamed",
			change: func(v object) {
				servers := dig(v, "mcpServers")
				servers["uhr"] = servers["clock"]
				delete(servers, "clock")
			},
			want: func(v object) {
				servers := dig(v, "mcpServers")
				servers["uhr"] = servers["clock"]
				delete(servers, "clock")
			},
			notes: []string{"clock was removed meanwhile and was not restored", "a copy of the tg-shim entry at /mcpServers/uhr was removed too"}},
		{name: "the agent copied an entry",
			change: func(v object) {
				v["projects"] = object{"/else": object{"list": array{1, dig(v, "mcpServers", "files")}}}
			},
			want: func(v object) {
				v["projects"] = object{"/else": object{"list": array{1, dig(v, "mcpServers", "files")}}}
			},
			notes: []string{"a copy of the tg-shim entry at /projects/~1else/list/1 was removed too"}},
		{name: "the command was pointed elsewhere", kept: true,
			change: func(v object) { dig(v, "mcpServers", "files")["command"] = "/tmp/evil" }, want: func(object) {},
			notes: []string{"files was altered and was restored"}},
		{name: "our words were damaged", kept: true,
			change: func(v object) {
				args := dig(v, "mcpServers", "files")["args"].(array)
				dig(v, "mcpServers", "files")["args"] = args[2:]
				dig(v, "mcpServers", "clock")["args"] = "text"
			},
			want:  func(object) {},
			notes: []string{"files was altered and was restored", "clock was altered and was restored"}},
		{name: "members were taken away", kept: true,
			change: func(v object) {
				delete(dig(v, "mcpServers", "files"), "args")
				delete(dig(v, "mcpServers", "clock"), "command")
				dig(v, "mcpServers", "clock")["note"] = "n"
			},
			want:  func(v object) { dig(v, "mcpServers", "clock")["note"] = "n" },
			notes: []string{"files was altered and was restored", "clock was altered and was restored"}},
		{name: "our variables were taken away",
			change: func(v object) { delete(dig(v, "mcpServers", "clock"), "env") }, want: func(object) {}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.state(), twoServers)
			p, _ := w.wrapped()
			changed := reformat(t, w.read(w.state()), test.change)
			w.write(w.state(), changed)
			report := w.restore(p)[0]

			same := func(object) {}
			got, want := reformat(t, w.read(w.state()), same), reformat(t, reformat(t, twoServers, test.want), same)
			if got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
			if report.State != Merged {
				t.Errorf("state %s", report.State)
			}
			for _, note := range test.notes {
				if !strings.Contains(report.String(), note) {
					t.Errorf("report %q lacks %q", report, note)
				}
			}
			altered := w.state() + alteredSuffix
			if test.kept {
				w.wantFile(altered, changed)
				if !strings.Contains(report.String(), altered) {
					t.Errorf("report %q does not name %s", report, altered)
				}
				os.Remove(altered)
			}
			w.wantClean()
		})
	}
}

// A person's layout of the entries around ours stays byte for byte.
func TestRestoreMergesToTheByte(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p, _ := w.wrapped()
	add := func(s string) string {
		return strings.Replace(s, `"web"`, "\"mine\" :{\"command\":\"m\" },\n\n    \"web\"", 1)
	}
	w.write(w.state(), add(w.read(w.state())))
	w.restore(p)
	w.wantFile(w.state(), add(twoServers))
	w.wantClean()
}

func TestRestoreRemovedFile(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p, journals := w.wrapped()
	if err := os.Remove(w.state()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		report, err := Restore(journals[w.state()], nil)
		if err != nil || report.State != Missing || report.Backup != w.state()+backupSuffix ||
			!strings.Contains(report.String(), "was not restored; to restore it from "+w.state()+backupSuffix+", run `tgctl unwrap "+w.state()+"`") {
			t.Errorf("report %+v, %v", report, err)
		}
	}
	p.Unlock()
	report, err := Unwrap(w.state(), w.notes())
	if err != nil || report.State != Restored {
		t.Errorf("unwrap: %+v, %v", report, err)
	}
	w.wantFile(w.state(), twoServers)
	w.wantClean()
}

func TestRestoreBrokenFile(t *testing.T) {
	for name, text := range map[string]string{"cut short": `{"mcpServers": {"files": {"token": "s3cr3t`, "emptied": ""} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(w.state(), twoServers)
			p, _ := w.wrapped()
			w.write(w.state(), text)
			report := w.restore(p)[0]
			w.wantFile(w.state(), twoServers)
			w.wantFile(w.state()+alteredSuffix, text)
			if got := report.String(); !strings.Contains(got, "the file was invalid") || strings.Contains(got, "s3cr3t") {
				t.Errorf("report %q", got)
			}
		})
	}
}

// Either our words or the backup is sufficient for a restore.
func TestRestoreWithoutBackup(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p, _ := w.wrapped()
	os.Remove(w.state() + backupSuffix)
	w.restore(p)
	w.wantFile(w.state(), twoServers)

	p, journals := w.wrapped()
	w.write(w.state()+backupSuffix, "something else")
	report, err := Restore(journals[w.state()], nil)
	if err != nil || !strings.Contains(report.String(), "is not the backup that was made") {
		t.Errorf("%+v, %v", report, err)
	}
	w.wantFile(w.state(), twoServers)
	w.wantFile(w.state()+backupSuffix, "something else")
	p.Unlock()

	w.write(w.state(), twoServers)
	os.Remove(w.state() + backupSuffix)
	p, journals = w.wrapped()
	os.Remove(w.state() + backupSuffix)
	w.write(w.state(), "{")
	_, err = Restore(journals[w.state()], nil)
	wantError(t, err, "the file is invalid", "no valid backup")
	w.wantFile(w.state(), "{")
	p.Unlock()
}

// An editor that replaces a link by a file leaves two files with our lines.
func TestRestoreReplacedLink(t *testing.T) {
	w := newWorld(t)
	target := filepath.Join(w.home, "dotfiles", "claude.json")
	w.write(target, twoServers)
	if err := os.Symlink(target, w.state()); err != nil {
		t.Fatal(err)
	}
	p, _ := w.wrapped()
	text := w.read(target)
	if err := os.Remove(w.state()); err != nil {
		t.Fatal(err)
	}
	w.write(w.state(), text+"\n")
	w.restore(p)
	w.wantFile(target, twoServers)
	w.wantFile(w.state(), twoServers+"\n")
	w.wantClean()
}

func TestRestoreRefusesJournals(t *testing.T) {
	for text, want := range map[string]string{
		"{":                     "read journal",
		`{"v":99}`:              "unsupported version 99; this program supports versions up to 4",
		`{"v":1,"target":"/x"}`: "file, lock or session is missing",
	} {
		_, err := Restore([]byte(text), nil)
		wantError(t, err, want)
		_, _, err = TryLock([]byte(text))
		wantError(t, err, want)
	}
}

// The daemon stores a journal, so it must not contain the environment of a server.
func TestJournalHoldsNoEnvironment(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p, journals := w.wrapped()
	defer w.restore(p)
	if text := string(journals[w.state()]); strings.Contains(text, "s3cr3t") || strings.Contains(text, "TOKEN") {
		t.Errorf("journal %s", text)
	}
}

// A session whose wrap and daemon died may be restored late, when another session has rewritten
// the file, or has left it rewritten on purpose.
func TestRestoreLeavesOtherSessions(t *testing.T) {
	w := newWorld(t)
	w.write(w.state(), twoServers)
	p, journals := w.wrapped()
	w.restore(p)
	p = w.plan()
	line := w.line()
	line.Session = "00000000000000000000000000000000"
	for _, err := range []error{p.Lock(line.Session), p.Backup(), p.Prepare(line), p.Apply()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p.Unlock()
	kept := w.read(w.state())
	if _, err := Restore(journals[w.state()], nil); err != nil {
		t.Error(err)
	}
	w.wantFile(w.state(), kept)
	if report, err := Unwrap(w.state(), w.notes()); err != nil || report.State != Restored {
		t.Errorf("unwrap: %+v, %v", report, err)
	}
	w.wantFile(w.state(), twoServers)
	w.wantClean()
}
