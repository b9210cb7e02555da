package storm

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// pair is an agent, its shim and the server, with the test at both ends. They
// talk until the shim ends.
type pair struct {
	*storm
	r    *rand.Rand // of the agent's side
	shim *rig.Shim

	struck     bool // something was done that ends it
	shimKilled bool
	agentGone  bool // it was killed, or has hung up
	lost       bool // the daemon, and who keeps descriptors for the next one

	quiet chan struct{} // closed when the agent asks nothing more
	wait  sync.WaitGroup

	mu     sync.Mutex // guards what follows
	server *rig.Server
	asked  []string // ids of the agent's requests, in order
	sent   int      // bytes that the test has written as the agent
	ends   []int    // where in them the requests end
	due    int      // how many of these had reached the shim at the first blow
	noted  bool
	waived map[string]bool // ids of those that are held or cancelled
	read   int             // lines of the agent that answered has seen
	got    map[string]int  // answers, by id
}

func (p *pair) start() {
	p.quiet, p.waived, p.got = make(chan struct{}), map[string]bool{}, map[string]int{}
	p.shim = p.fixture.Shim(p.T, rig.Options{Agent: true})
	p.wait.Go(p.talk)
	p.wait.Go(p.serve)
}

// joined returns the server, nil as long as it has not been started.
func (p *pair) joined() *rig.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server
}

// talk is the agent: it asks one thing after the other.
func (p *pair) talk() {
	say := func(line string) bool {
		if p.shim.Send([]byte(line+"\n")) != nil {
			return false
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sent += len(line) + 1
		return true
	}
	for i := 0; ; i++ {
		select {
		case <-p.quiet:
			return
		case <-time.After(time.Duration(p.r.IntN(3000)) * time.Microsecond):
		}
		id, tool, line := fmt.Sprint(i), "", ""
		switch p.r.IntN(8) {
		case 0:
			line = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"ping"}`, id)
		case 1:
			line = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/list"}`, id)
		case 2:
			tool = "held"
		case 3:
			tool = "denied"
		default:
			tool = "echo"
		}
		if tool != "" {
			line = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"pad":%q}}}`, id, tool, strings.Repeat("x", p.r.IntN(3000)))
		}
		p.mu.Lock()
		p.asked = append(p.asked, id)
		if tool == "held" {
			p.waived[id] = true
		}
		p.mu.Unlock()
		if !say(line) {
			return
		}
		p.mu.Lock()
		p.ends = append(p.ends, p.sent)
		p.mu.Unlock()
		if p.r.IntN(10) == 0 {
			p.mu.Lock()
			p.waived[id] = true
			p.mu.Unlock()
			if !say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id)) {
				return
			}
		}
	}
}

// envelope is what both sides look at.
type envelope struct {
	ID     json.RawMessage
	Method string
	Params struct{ Name string }
}

// serve is the server: it answers everything, and asks something now and then.
func (p *pair) serve() {
	if p.shim.Join() != nil {
		return // it was never started
	}
	server := p.shim.Server
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	for n := 0; ; n++ {
		at, err := server.Await(n, rig.Timeout, func([]byte) bool { return true })
		if err != nil {
			return
		}
		lines, _ := server.Since(at)
		var e envelope
		if err := json.Unmarshal(lines[0], &e); err != nil {
			p.Errorf("the server reads %q: %v", lines[0], err)
			continue
		}
		switch {
		case e.Params.Name == "held" || e.Params.Name == "denied":
			p.Errorf("the server reads what may not pass: %s", lines[0])
		case e.Method == "tools/list":
			err = server.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"echo"}]}}`+"\n", e.ID))
		case e.Method != "" && e.ID != nil:
			err = server.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", e.ID))
		}
		if err == nil && n%7 == 3 {
			err = server.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"s%d","method":"roots/list"}`+"\n", n))
		}
		if err != nil {
			return
		}
	}
}

// stopTalking makes the agent ask nothing more: at once, or when the shim has
// ended.
func (p *pair) stopTalking(atOnce bool) {
	if !atOnce {
		p.shim.Wait(rig.Timeout)
	}
	close(p.quiet)
}

// end waits for both sides.
func (p *pair) end() { p.wait.Wait() }

// count takes in what the agent has read.
func (p *pair) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines, _ := p.shim.Agent.Since(p.read)
	p.read += len(lines)
	for _, line := range lines {
		var e envelope
		if err := json.Unmarshal(line, &e); err != nil {
			p.Errorf("the agent reads %q: %v", line, err)
		} else if e.Method == "" {
			p.got[string(e.ID)]++
		}
	}
}

// unanswered returns the requests without an answer that is due, in order.
func (p *pair) unanswered() []string {
	p.count()
	p.mu.Lock()
	defer p.mu.Unlock()
	var open []string
	for _, id := range p.asked {
		if p.got[id] == 0 && !p.waived[id] {
			open = append(open, id)
		}
	}
	return open
}

// note remembers what was asked before anything was done to the pair. What the
// agent's own process still holds was not: the shim can't know of it.
func (p *pair) note() {
	passed := p.shim.Passed()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.noted {
		p.noted, p.due = true, sort.SearchInts(p.ends, passed+1)
	}
}

// declines reports whether the shim has found no daemon, and so answers by itself.
func (p *pair) declines() bool { return strings.Contains(p.shim.Stderr(), "is not started") }

// check looks at the answers: one at most to each request, and one to each that
// was asked before the shim lost its server. With the daemon and who keeps its
// descriptors go the answers, too.
func (p *pair) check() {
	p.eventually("the agent's end of the pipe is closed", p.shim.Agent.Ended) // its last lines may come after its exit
	p.count()
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := map[string]bool{}
	for _, id := range p.asked {
		asked[id] = true
	}
	for id, n := range p.got {
		if n > 1 || !asked[id] {
			p.Errorf("%d answers to request %s, which was asked: %v", n, id, asked[id])
		}
	}
	if p.shimKilled || p.agentGone || p.lost {
		return
	}
	for _, id := range p.asked[:p.due] {
		if p.got[id] == 0 && !p.waived[id] {
			p.Errorf("request %s of %d has no answer: %s", id, p.due, p.shim.Stderr())
		}
	}
}

func (p *pair) state() string {
	open := p.unanswered()
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("%d asked, open %v; shim killed %v, agent gone %v; stderr: %s", len(p.asked), open, p.shimKilled, p.agentGone, p.shim.Stderr())
}
