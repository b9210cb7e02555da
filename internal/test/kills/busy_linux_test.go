package kills

import (
	"math/rand/v2"
	"os"
	"testing"
)

// What a server is owed that does not read for long survives the daemon, and nothing is
// put on record twice, however much others put there meanwhile.
func TestOwedToABusyServer(t *testing.T) {
	h := newFixture(t, 300)
	h.Activate()
	h.start()
	c, err := h.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { c.Close() }()
	hold := h.Path("work", "executed0") + busy
	if err := os.WriteFile(hold, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	slow := h.newAgent(0, rand.New(rand.NewPCG(1, 1)), false)
	slow.most = 6
	slow.next = func(id int) ([]byte, *request) {
		tool := "echo"
		if id == 1 {
			tool = "held"
		}
		return call(id, tool, 0, 30<<10, 100) // its pipe takes two, and the last is the agent's still
	}
	slow.talk()
	idle := h.newAgent(2, rand.New(rand.NewPCG(1, 3)), false)
	idle.most = 3
	idle.next = func(id int) ([]byte, *request) { return call(id, "echo", 0, 100, 100) }
	idle.talk()
	if err := h.until("the idle one is answered", func() bool { return idle.asks.Load() == 0 }); err != nil {
		t.Fatal(err)
	}
	other := h.newAgent(1, rand.New(rand.NewPCG(1, 2)), true)
	other.most = 120 // 7 MB on record
	other.next = func(id int) ([]byte, *request) { return call(id, "echo", 0, 60<<10, 100) }
	other.talk()
	other.leave()
	for range 2 {
		c.Close() // a call could still go to the daemon that is killed
		h.KillDaemon()
		h.StartDaemon()
		if c, err = h.dial(t.Context()); err != nil {
			t.Fatal(err)
		}
		if open := h.open(c); len(open) != 1 {
			t.Errorf("the questions %q are open, want one", open)
		}
	}
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	h.approve(c)
	slow.leave()
	idle.leave()
	h.StopDaemon()
	h.compare(2)
	if n := len(slow.refused); n > 0 {
		t.Errorf("%d calls were refused", n)
	}
}
