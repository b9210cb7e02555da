package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

// private is how many agents with servers of their own those with a shared one are
// compared with.
var private = flag.Int("private", 2, "how many private servers a shared one is compared with")

// sharers is how many share one.
const sharers = 20

const sharedRules = `schema: 1
governance:
  defaults: {action: forward, asks: forward}
sources:
  - {id: "shared*", shared: true, command: "*/node *"}
shim: {reattach: 2m}
`

// Agents that share a server notice nothing of each other: the transcript of each
// is that of one with a server of its own. One process serves them all.
func TestSharedServer(t *testing.T) {
	needProc(t)
	program := npmServer(t, "server-everything")
	t.Parallel()
	h := newFixture(t)
	h.rules(sharedRules)
	h.startDaemon()
	alone := h.together(t, "private", program, *private)
	if t.Failed() {
		return
	}
	play(t, alone)
	if n := len(h.everything(program)); n != *private {
		t.Errorf("%d servers run, want %d", n, *private)
	}
	one, shim := pss(h.everything(program)), pss(h.pidsOf("tg-shim"))
	leave(alone)
	all := h.together(t, "shared", program, sharers)
	if t.Failed() {
		return
	}
	play(t, all)
	pids := h.everything(program)
	if len(pids) != 1 {
		t.Fatalf("%d servers run, want 1", len(pids))
	}
	shared := pss(pids)
	t.Logf("a private server has %.0f MB resident (PSS), the one that %d share %.0f MB; a shim %.1f MB, and %.1f MB when it shares", one, sharers, shared, shim, pss(h.pidsOf("tg-shim")))
	if shared > 4*one {
		t.Errorf("the shared server has %.0f MB resident, a private one %.0f MB", shared, one)
	}
	for _, s := range all {
		if diff := cmp.Diff(alone[0].lines, s.lines); diff != "" {
			t.Fatalf("%s: other than with a server of its own (-own +shared):\n%s", s.name, diff)
		}
	}
	t.Run("kill the server", func(t *testing.T) { h.under(t, all, program, func() { _ = syscall.Kill(pids[0], syscall.SIGKILL) }) })
	t.Run("kill the daemon", func(t *testing.T) {
		h.under(t, all, program, func() {
			h.killDaemon()
			h.startDaemon()
		})
	})
	leave(all)
}

// together starts n agents at the same time.
func (h *fixture) together(t *testing.T, server, program string, n int) []*sharer {
	all := make([]*sharer, n)
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() { all[i] = h.join(t, server, program, i) })
	}
	wait.Wait()
	return all
}

// leave has the agents leave.
func leave(all []*sharer) {
	var wait sync.WaitGroup
	for _, s := range all {
		wait.Go(func() { _ = s.session.Close() })
	}
	wait.Wait()
}

// play has the agents do everything.
func play(t *testing.T, all []*sharer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	for _, phase := range phases {
		var wait sync.WaitGroup
		for _, s := range all {
			wait.Go(func() { phase(s, ctx) })
		}
		wait.Wait()
	}
}

// everything are the processes of the server.
func (h *fixture) everything(program string) []int {
	var all []int
	for _, pid := range h.pids() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		args := bytes.Split(line, []byte{0})
		if len(args) > 1 && bytes.HasSuffix(args[0], []byte("node")) && string(args[1]) == program {
			all = append(all, pid)
		}
	}
	return all
}

// pss is what processes have on average of the memory that is resident, each its
// share of what they share, in MB; 0 where it can't be told.
func pss(pids []int) float64 {
	sum := 0.0
	for _, pid := range pids {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		for line := range strings.Lines(string(raw)) {
			var kb float64
			if n, _ := fmt.Sscanf(line, "Pss: %f kB", &kb); n == 1 {
				sum += kb / 1024
			}
		}
	}
	return sum / float64(max(1, len(pids)))
}

// under does what is to be done while all agents make calls without end. Each call
// is answered, with a result or an error, and all agents can go on after it.
func (h *fixture) under(t *testing.T, all []*sharer, program string, do func()) {
	var results, refused atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	for _, s := range all {
		for _, tool := range []string{"echo", "trigger-long-running-operation", "get-sum"} {
			wait.Go(func() {
				for after := false; ; {
					answered, err := s.ask(t.Context(), tool)
					if answered {
						results.Add(1)
					} else if refused.Add(1); err != nil {
						t.Errorf("%s: %s: %v", s.name, tool, err)
						return
					}
					select {
					case <-stop:
						return
					case <-done:
						if after && answered {
							return
						}
						after = true // this call may have been made before
					default:
					}
				}
			})
		}
	}
	if !eventually(func() bool { return results.Load() > 3*sharers }, patience) {
		t.Error("the agents get no results")
	}
	before := h.everything(program)
	do()
	close(done)
	timer := time.AfterFunc(2*patience, func() { close(stop) })
	wait.Wait()
	if !timer.Stop() {
		t.Error("the agents don't go on")
	}
	after := h.everything(program)
	t.Logf("%d results, %d errors; the server was %v and is %v", results.Load(), refused.Load(), before, after)
	if len(after) != 1 || len(before) != 1 || after[0] == before[0] {
		t.Error("there should be one server, and another one than before")
	}
}

// ask makes one call. It is answered with a result (true), or with an error that
// says what became of it. An error of ask is a call without an answer.
func (s *sharer) ask(ctx context.Context, tool string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	result, err := s.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments[tool](s)})
	switch {
	case ctx.Err() != nil:
		return false, errors.New("no answer")
	case err != nil && !strings.Contains(err.Error(), "server") && !strings.Contains(err.Error(), "daemon"): // as ours do
		return false, err
	case err != nil:
		return false, nil
	}
	if text, ok := result.Content[0].(*mcp.TextContent); tool == "echo" && (!ok || text.Text != "Echo: "+s.name) {
		return false, fmt.Errorf("the answer to another: %q", text.Text)
	}
	return true, nil
}

// Sessions that share a server are judged each by what holds for it, and stand on
// record each with its own calls. What one is refused the other may do.
func TestSharedServerIsJudgedPerSession(t *testing.T) {
	needProc(t)
	t.Parallel()
	h := newFixture(t)
	h.rules(`schema: 1
governance:
  defaults: {action: forward}
  rules: [{match: "write_*", action: deny}]
sources: [{id: one, shared: true}]
pins: {mode: off}
`)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	other := h.write("work/other.json", h.read("work/mcp.json"), 0o600)
	h.startDaemon()
	strict, loose := h.wrap(config), h.wrap(other, "--profile", "development")
	if r := strict.call("one", "write_note", map[string]any{"name": "a", "text": "strict"}); !r.IsError || !strings.Contains(r.Text, "Not executed") {
		t.Errorf("in the one session: %+v", r)
	}
	if r := loose.call("one", "write_note", map[string]any{"name": "a", "text": "loose"}); strings.Contains(r.Text, "Not executed") || r.Error != "" {
		t.Errorf("in the other: %+v", r)
	}
	strict.leave()
	if r := loose.call("one", "list_notes", nil); r.IsError || r.Error != "" {
		t.Errorf("when one has left: %+v", r)
	}
	loose.leave()
	verdicts := map[string]string{}
	for _, l := range h.log() {
		if l.Kind == "call" && l.Tool == "write_note" {
			verdicts[l.Session] = l.Verdict
		}
	}
	if len(verdicts) != 2 {
		t.Errorf("on record are %v, want a verdict in each of two sessions", verdicts)
	}
	executed, err := fake.ReadLog(h.path("one.log"))
	if err != nil || len(executed) != 2 || executed[0].Tool != "write_note" || executed[1].Tool != "list_notes" {
		t.Errorf("executed: %+v, %v", executed, err)
	}
}
