package agentconf

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// others are an agent and a person who write the same file without any coordination with
// ThoughtGate. Each reads it, changes some members, and writes it as a whole by replacing the
// file; the agent uses its own layout. They do not conflict with each other, but may conflict
// with us.
type others struct {
	mu     sync.Mutex
	path   string
	writes int // by the agent
	added  int // servers, by the person
}

// written returns how often the agent has written.
func (o *others) written() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writes
}

// agentWrites is one write of the agent. It fails if an earlier write, also one of the person,
// was lost.
func (o *others) agentWrites() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, err := os.ReadFile(o.path)
	if err != nil {
		return err
	}
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("the agent read %q: %w", text, err)
	}
	if got, _ := v["writes"].(float64); int(got) != o.writes {
		return fmt.Errorf("the agent's write %d is lost: the file says %v", o.writes, v["writes"])
	}
	servers, _ := v["mcpServers"].(map[string]any)
	for i := range o.added {
		if servers[fmt.Sprint("added", i)] == nil {
			return fmt.Errorf("the person's server %d of %d is lost: %s", i, o.added, text)
		}
	}
	v["writes"] = o.writes + 1
	if text, err = json.MarshalIndent(v, "", "    "); err == nil {
		err = save(o.path, text)
	}
	if err == nil {
		o.writes++
	}
	return err
}

// personAdds adds a server like a person.
func (o *others) personAdds() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	text, err := os.ReadFile(o.path)
	if err != nil {
		return err
	}
	server := fmt.Sprintf(`"mcpServers": { "added%d": {"command":"c%d","args":["-y"],"env":{"K":"v"}},`, o.added, o.added)
	if err := save(o.path, []byte(strings.Replace(string(text), `"mcpServers": {`, server, 1))); err != nil {
		return err
	}
	o.added++
	return nil
}

func save(path string, text []byte) error {
	if err := os.WriteFile(path+"~", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+"~", path)
}

// An agent that rewrites its file all the time and ignores locks, and a person who adds
// servers, keep all their changes through several wraps. When all have finished, one command
// removes what the agent, which had read our lines, may have written again.
//
//gotest:race several change the same files
func TestOthersKeepTheirChanges(t *testing.T) {
	for _, adopt := range []bool{false, true} {
		t.Run(fmt.Sprint("adopt ", adopt), func(t *testing.T) {
			w := newWorld(t)
			w.write(w.state(), twoServers)
			o := &others{path: w.state()}
			stop, failed := make(chan struct{}), make(chan error, 1)
			go func() {
				pause := time.Millisecond
				for {
					select {
					case <-stop:
						failed <- nil
						return
					case <-time.After(pause):
					}
					began := time.Now()
					if err := o.agentWrites(); err != nil {
						failed <- err
						return
					}
					// On a busy machine we are slow too, and have to come between two writes.
					pause = max(time.Millisecond, 10*time.Since(began))
				}
			}()
			for over := time.Now().Add(3 * time.Minute); (o.added < 12 || o.written() < 12) && !t.Failed(); {
				wrapBeside(t, w, o, adopt)
				if time.Now().After(over) {
					t.Errorf("only %d sessions and %d writes came about", o.added, o.written())
				}
			}
			close(stop)
			if err := <-failed; err != nil {
				t.Fatal(err)
			}
			if err := o.agentWrites(); err != nil { // once more, to detect lost writes
				t.Fatal(err)
			}
			if _, err := Unwrap(w.state(), w.notes()); err != nil {
				t.Fatal(err)
			}
			if got := w.read(w.state()); strings.Contains(got, "THOUGHTGATE") || strings.Contains(got, shimName) || o.added < 12 || o.writes < 12 {
				t.Errorf("%d servers were added and %d writes made:\n%s", o.added, o.writes, got)
			}
			want := reformat(t, twoServers, func(v map[string]any) {
				v["writes"] = o.writes
				for i := range o.added {
					dig(v, "mcpServers")[fmt.Sprint("added", i)] = map[string]any{
						"command": fmt.Sprint("c", i), "args": []any{"-y"}, "env": map[string]any{"K": "v"},
					}
				}
				if clock := dig(v, "mcpServers", "clock"); strings.Contains(w.read(w.state()), `"args": []`) {
					clock["args"], clock["env"] = []any{}, map[string]any{} // left of a line that was written again
				}
			})
			if got := reformat(t, w.read(w.state()), func(map[string]any) {}); got != want {
				t.Errorf("the file is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// wrapBeside is one session in which a server is added, while the others write.
func wrapBeside(t *testing.T, w *world, o *others, adopt bool) {
	t.Helper()
	if _, err := Unwrap(w.state(), w.notes()); err != nil { // lines that the agent wrote again
		t.Fatal(err)
	}
	p, err := NewPlan(custom{}, withConfig(w), w.shim)
	if err != nil {
		return // the agent has written them again already
	}
	defer p.Unlock()
	line := w.line()
	line.Session = fmt.Sprintf("%032d", o.added)
	for _, do := range []func() error{
		func() error { return p.Lock(line.Session) }, p.Backup, func() error { return p.Prepare(line) }, p.Apply,
	} {
		if err := do(); err != nil { // the agent has written them just now
			if _, err := p.Restore(); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	if err := o.personAdds(); err != nil {
		t.Fatal(err)
	}
	if adopt {
		for over := time.Now().Add(time.Minute); ; { // retries while the agent interferes
			err := p.Adopt(func([]Journal) error { return nil })
			drift, failed := p.Drift()
			if err == nil && failed == nil && len(drift) == 0 {
				break
			}
			if time.Now().After(over) {
				t.Fatalf("not adopted: %v, %+v, %v", err, drift, failed)
			}
		}
	}
	if _, err := p.Restore(); err != nil {
		t.Fatal(err)
	}
}

func withConfig(w *world) Env {
	env := w.env()
	env.Config = w.state()
	return env
}
