package e2e

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A log that can't grow any more, where one may not mount anything.
func TestLogThatCannotGrow(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(stateRules)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	h.startDaemon()
	a := h.wrap(config)
	limit := unix.Rlimit{Cur: 256 << 10, Max: 256 << 10}
	if err := unix.Prlimit(h.daemon.pid(), unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	refused := reply{}
	for range 400 {
		r := a.call("one", "write_note", map[string]any{"name": "x", "text": strings.Repeat("y", 4000)})
		if r.IsError || r.Error != "" {
			refused = r
			break
		}
	}
	if !refused.IsError || !strings.Contains(refused.Text, "Not executed") || !strings.Contains(refused.Text, "record") {
		t.Errorf("got %+v, want a refusal that says that it can't be recorded", refused)
	}
	a.leave()
	if after := h.read("work/mcp.json"); strings.Contains(after, "tg-shim") {
		t.Errorf("the configuration stays rewritten:\n%s", after)
	}
}
