//gotest:plain files are changed by one goroutine, and other processes do the rest
package agentconf

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The test binary plays a wrap or a daemon that is killed after a given number of steps.
// AGENTCONF_TEST names the role.
func TestMain(m *testing.M) {
	if role := os.Getenv("AGENTCONF_TEST"); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fatal is a testing.TB for the player. Its Fatal panics.
type fatal struct{ testing.TB }

func (fatal) Helper()           {}
func (fatal) Cleanup(func())    {}
func (fatal) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// play plays one of the roles "wrap", "restore" and "unwrap" in the world whose home is
// AGENTCONF_HOME.
func play(role string) error {
	home := os.Getenv("AGENTCONF_HOME")
	last, _ := strconv.Atoi(os.Getenv("AGENTCONF_LAST"))
	log, err := os.OpenFile(filepath.Join(home, "..", "steps"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	taken := 0
	other := otherWriter{path: filepath.Join(home, ".claude.json"), at: os.Getenv("AGENTCONF_WRITE")}
	step := func(name string) {
		fmt.Fprintln(log, name)
		other.see(name)
		taken++
		if taken == last && os.Getenv("AGENTCONF_CLOSED") != "" {
			(&world{t: fatal{}, home: home, cwd: filepath.Join(home, "src", "shop")}).setFolders(0o555)
		} else if taken == last && os.Getenv("AGENTCONF_FULL") != "" {
			if err := fillUp(os.Getenv("AGENTCONF_FULL"), home); err != nil {
				panic(err)
			}
			log = os.Stdout // a pipe
		} else if taken == last {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	w := &world{t: fatal{}, home: home, cwd: filepath.Join(home, "src", "shop"), shim: filepath.Join(home, "..", "libexec", shimName)}
	switch role {
	case "wrap":
		return playWrap(w, step)
	case "restore":
		return restoreAll(w, step)
	case "protect":
		return playProtect(w, step)
	case "unprotect":
		return playUnprotect(w, step)
	}
	paths := []string{w.state(), w.project()}
	if os.Getenv("AGENTCONF_TOOLS") != "" {
		paths = []string{w.state(), w.settings()}
	}
	for _, path := range paths {
		if _, err := unwrap(path, notebook(w.notes()), step); err != nil {
			return err
		}
	}
	return nil
}

// playWrap calls the methods of a plan like tgctl wrap.
func playWrap(w *world, step func(string)) error {
	p, err := NewPlan(claudeCode{}, w.env(), w.shim)
	if err != nil {
		return err
	}
	p.step = step
	if err := p.Lock(w.line().Session); err != nil {
		return err
	}
	defer p.Unlock()
	err = playSession(w, p)
	_, failed := p.Restore()
	step("restored")
	return errors.Join(err, failed)
}

func playSession(w *world, p *Plan) error {
	for _, do := range []func() error{p.Backup, func() error { return p.Prepare(w.line()) }} {
		if err := do(); err != nil {
			return err
		}
	}
	journals, err := p.Journals()
	if err != nil {
		return err
	}
	for i, j := range journals { // as the daemon does
		if err := os.MkdirAll(filepath.Dir(journalFile(w, i)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(journalFile(w, i), j.Text, 0o600); err != nil {
			return err
		}
	}
	p.step("journal stored")
	if err := p.Apply(); err != nil || os.Getenv("AGENTCONF_ADOPT") == "" {
		return err
	}
	w.addServers()
	return p.Adopt(func(journals []Journal) error {
		for _, j := range journals {
			at := slices.Index([]string{w.state(), w.project(), w.third()}, j.Path)
			if err := os.WriteFile(journalFile(w, at)+"~", j.Text, 0o600); err != nil {
				return err
			}
			if err := os.Rename(journalFile(w, at)+"~", journalFile(w, at)); err != nil {
				return err
			}
		}
		return nil
	})
}

// third returns the path of a file without servers at first.
func (w *world) third() string { return filepath.Join(filepath.Dir(w.cwd), ".mcp.json") }

const (
	servers   = "\"mcpServers\": {"
	longer    = servers + "\n    \"new\": {\"command\":\"new\",\"args\":[\"-y\"],\"env\":{\"A\":\"b\"}},"
	newServer = `{"mcpServers":{"newer":{"command":"n","args":["-y"],"env":{"A":"b"}}}}`
)

// addServers adds a server to a file that is rewritten, and one to a new file, like a person.
func (w *world) addServers() {
	w.write(w.state()+"~", strings.Replace(w.read(w.state()), servers, longer, 1))
	if err := os.Rename(w.state()+"~", w.state()); err != nil {
		w.t.Fatal(err)
	}
	w.write(w.third(), newServer)
}

func journalFile(w *world, i int) string {
	return filepath.Join(w.home, "..", "journals", strconv.Itoa(i))
}

// restoreAll restores by all journals, like a daemon.
func restoreAll(w *world, step func(string)) error {
	for i := range 3 {
		journal, err := os.ReadFile(journalFile(w, i))
		if err != nil {
			return nil // the process was killed before it was stored
		}
		unlock, held, err := TryLock(journal)
		if err != nil || held {
			return fmt.Errorf("lock: held %v, %v", held, err)
		}
		step("locked")
		if _, err := Restore(journal, step); err != nil {
			return err
		}
		unlock()
		step("unlocked")
	}
	return nil
}

// player returns a process that plays a role until step number last.
func (w *world) player(role string, last int) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "AGENTCONF_TEST="+role, "AGENTCONF_HOME="+w.home, "AGENTCONF_LAST="+strconv.Itoa(last))
	return cmd
}

// run plays a role until step number last, and reports whether the process was killed there,
// and after which step.
func run(t *testing.T, w *world, role string, last int) (killed bool, step string) {
	t.Helper()
	steps := filepath.Join(w.home, "..", "steps")
	os.Remove(steps)
	cmd := w.player(role, last)
	out, err := cmd.CombinedOutput()
	log, _ := os.ReadFile(steps)
	taken := strings.Split(strings.TrimSpace(string(log)), "\n")
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return true, taken[len(taken)-1]
	}
	if err != nil {
		t.Fatalf("%s until step %d: %v\n%s", role, last, err, out)
	}
	return false, ""
}

const oneServer = "\ufeff{\"mcpServers\":{\"one\":{\"command\":\"x\"}}}\r\n"

func killWorld(t *testing.T) *world { return fillWorld(newWorld(t)) }

// killedServers returns twoServers, for TestKillRemotes with one that is behind an address.
func killedServers() string {
	if os.Getenv("AGENTCONF_REMOTES") == "" {
		return twoServers
	}
	return strings.Replace(twoServers, `"ws", "url": "wss:`, `"http", "url": "https:`, 1)
}

func fillWorld(w *world) *world {
	w.write(w.state(), killedServers())
	w.write(w.project(), oneServer)
	return w
}

// leaveWrapped wraps both files, stores the journals, and leaves the files as if the wrap was
// killed.
func (w *world) leaveWrapped() {
	p, journals := w.wrapped()
	for i, path := range []string{w.state(), w.project()} {
		w.write(journalFile(w, i), string(journals[path]))
	}
	p.Unlock()
}

func (w *world) wantOriginals(when string) {
	w.t.Helper()
	w.wantFile(w.state(), killedServers())
	w.wantFile(w.project(), oneServer)
	if w.t.Failed() {
		w.t.Fatalf("killed after %q", when)
	}
}

// A wrap is killed after each of its steps. The daemon restores everything from its journals,
// and so does a person without the daemon.
func TestKillWrap(t *testing.T) {
	for _, by := range []string{"daemon", "person"} {
		t.Run(by, func(t *testing.T) {
			seen := map[string]bool{}
			for last := 1; ; last++ {
				w := killWorld(t)
				killed, step := run(t, w, "wrap", last)
				if !killed {
					w.wantOriginals("nothing")
					w.wantClean()
					break
				}
				seen[step] = true
				if by == "daemon" {
					if err := restoreAll(w, func(string) {}); err != nil {
						t.Fatalf("killed after %q: %v", step, err)
					}
					w.wantOriginals(step)
				}
				// Before the journals are stored, only a person can restore the files.
				for _, path := range []string{w.state(), w.project()} {
					if _, err := Unwrap(path, w.notes()); err != nil {
						t.Fatalf("killed after %q: %v", step, err)
					}
				}
				w.wantOriginals(step)
				w.wantClean()
			}
			for _, step := range []string{"locked", "backed up", "journal stored", "agent locked", "temp noted", "temp written", "temp identified", "compared", "swapped", "renamed",
				"folder synced", "applied", "agent unlocked", "backup removed", "restored", "unlocked"} {
				if !seen[step] {
					t.Errorf("never killed after %q", step)
				}
			}
		})
	}
}

// The process that restores the files can be killed as well.
func TestKillRestore(t *testing.T) {
	for _, role := range []string{"restore", "unwrap"} {
		t.Run(role, func(t *testing.T) {
			for last := 1; ; last++ {
				w := killWorld(t)
				w.leaveWrapped()
				killed, step := run(t, w, role, last)
				if killed {
					if k, _ := run(t, w, role, 0); k {
						t.Fatal("killed without a step")
					}
				}
				w.wantOriginals(step)
				w.wantClean()
				if !killed {
					if last < 5 {
						t.Errorf("only %d steps", last)
					}
					break
				}
			}
		})
	}
}
