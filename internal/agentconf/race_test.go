package agentconf

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

// otherWriter saves a file by replacing it, like an editor, directly after a step, so that the
// next step finds it changed.
type otherWriter struct {
	path string
	at   string // which step, and which time it is taken: "compared 2"
	seen map[string]int
}

const (
	beforeEdit = "{\n"
	edited     = "{\n  \"edited\": true,\n"
)

// see is called after each step.
func (o *otherWriter) see(step string) {
	if o.seen == nil {
		o.seen = map[string]int{}
	}
	o.seen[step]++
	if o.at != fmt.Sprint(step, " ", o.seen[step]) {
		return
	}
	text, err := os.ReadFile(o.path)
	if err == nil {
		err = os.WriteFile(o.path+"~", []byte(strings.Replace(string(text), beforeEdit, edited, 1)), 0o644)
	}
	if err == nil {
		err = os.Rename(o.path+"~", o.path)
	}
	if err != nil {
		panic(err)
	}
}

var allKills = flag.Bool("all-kills", false, "have the daemon and a person restore after each step; otherwise each has every second case")

// Another program saves the file at the worst moment, and then the process is killed after each
// possible step. The saved text is there after the restore.
func TestKillBesideAnotherWriter(t *testing.T) {
	tests := []struct{ role, at string }{
		// The first two concern the wrap of the state file, the others its restore.
		{"wrap", "compared 1"},
		{"wrap", "swapped 1"},
		{"wrap", "compared 4"},
		{"wrap", "swapped 4"},
		{"restore", "compared 1"},
		{"restore", "swapped 1"},
		{"unwrap", "compared 1"},
	}
	want := strings.Replace(twoServers, beforeEdit, edited, 1)
	for i, test := range tests {
		for j, by := range []string{"daemon", "person"} {
			if !*allKills && i%2 != j {
				continue
			}
			t.Run(test.role+" "+test.at+" "+by, func(t *testing.T) {
				t.Setenv("AGENTCONF_WRITE", test.at)
				saved := 0
				for last := 1; ; last++ {
					w := killWorld(t)
					if test.role != "wrap" {
						w.leaveWrapped()
					}
					killed, step := run(t, w, test.role, last)
					if killed && by == "daemon" {
						if err := restoreAll(w, func(string) {}); err != nil {
							t.Fatalf("killed after %q: %v", step, err)
						}
					}
					for _, path := range []string{w.state(), w.project()} {
						if _, err := Unwrap(path, w.notes()); err != nil {
							t.Fatalf("killed after %q, number %d: %v", step, last, err)
						}
					}
					got := w.read(w.state())
					if got != twoServers {
						saved++
					}
					if got != want && (saved > 0 || got != twoServers) {
						t.Fatalf("killed after %q, number %d: the file is\n%s", step, last, got)
					}
					w.wantFile(w.project(), oneServer)
					if !killed {
						break
					}
				}
				if saved == 0 {
					t.Error("nobody else saved anything")
				}
			})
		}
	}
}

// Servers that a person adds are adopted, and the process is killed after each possible step.
// What the person wrote is there, and nothing of ours.
func TestKillAdopt(t *testing.T) {
	for _, by := range []string{"daemon", "person"} {
		t.Run(by, func(t *testing.T) {
			t.Setenv("AGENTCONF_ADOPT", "1")
			seen := map[string]bool{}
			for last := 1; ; last++ {
				w := killWorld(t)
				killed, step := run(t, w, "wrap", last)
				seen[step] = true
				if killed && by == "daemon" {
					if err := restoreAll(w, func(string) {}); err != nil {
						t.Fatalf("killed after %q: %v", step, err)
					}
				}
				_, err := os.Stat(w.third())
				added := err == nil
				paths := []string{w.state(), w.project()}
				if added {
					paths = append(paths, w.third())
				}
				for _, path := range paths {
					report, err := Unwrap(path, w.notes())
					if err != nil {
						t.Fatalf("killed after %q: %v", step, err)
					}
					if report.Backup != "" { // it differs from the file as the person wrote it
						os.Remove(report.Backup)
					}
				}
				want := twoServers
				if added {
					want = strings.Replace(want, servers, longer, 1)
					w.wantFile(w.third(), newServer)
				}
				w.wantFile(w.state(), want)
				w.wantFile(w.project(), oneServer)
				w.wantClean()
				if t.Failed() {
					t.Fatalf("killed after %q", step)
				}
				if !killed {
					break
				}
			}
			for _, step := range []string{"taken", "amended", "adopted"} {
				if !seen[step] {
					t.Errorf("never killed after %q", step)
				}
			}
		})
	}
}
