package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A daemon that was killed knows who is an agent before it serves the first decision:
// what runs below one, wrapped or protected, is refused, however early it asks.
func TestNobodyBelowAnAgentDecidesAfterAKill(t *testing.T) {
	needProc(t)
	tests := map[string]struct {
		start func(*fixture) *agent
		why   string
	}{
		"wrapped": {func(h *fixture) *agent {
			config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
			h.startDaemon()
			return h.wrap(config)
		}, "below the wrapped agent"},
		"protected": {func(h *fixture) *agent {
			h.claudeState()
			h.startDaemon()
			h.tgctl("protect", "--yes", "claude-code")
			if err := os.Symlink(testBinary(h.t), filepath.Join(h.bin, "claude")); err != nil {
				h.t.Fatal(err)
			}
			return h.client("claude", nil, roleVar+"=claude")
		}, "below"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			h.rules(askBeforeWriting)
			a := test.start(h)
			_, result := a.begin(order{Server: "one", Tool: "write_note", Arguments: map[string]any{"name": "x", "text": "y"}})
			q := h.question()
			for i := range 3 {
				out, begun := h.path("work", fmt.Sprint("out", i)), h.path("work", fmt.Sprint("begun", i))
				h.killDaemon()
				// It asks from when there is no daemon until one answers.
				_, asked := a.begin(order{Shell: fmt.Sprintf(`while :; do %s approvals approve --no-start %s >%[3]s 2>&1; code=$?; : >%[4]s; test $code = 3 || break; done; echo "exit $code" >>%[3]s`,
					h.path("bin/tgctl"), q.ID, out, begun)})
				if !eventually(func() bool { _, err := os.Stat(begun); return err == nil }, patience) {
					t.Fatal("nobody asks")
				}
				h.startDaemon()
				a.await(asked, "the one below")
				said, err := os.ReadFile(out)
				if err != nil || !strings.HasSuffix(string(said), "exit 1\n") || !strings.Contains(string(said), test.why) {
					t.Errorf("the one below approves: %s, %v", said, err)
				}
			}
			if got := h.question(); got.ID != q.ID {
				t.Errorf("the question has become %s", got.ID)
			}
			h.tgctl("approvals", "approve", q.ID)
			if r := a.await(result, "what was approved from outside"); r.IsError || r.Error != "" {
				t.Errorf("approved from outside: %+v", r)
			}
			if code := a.leave(); code != 0 {
				t.Errorf("the agent: exit %d\n%s", code, a.talk())
			}
		})
	}
}
