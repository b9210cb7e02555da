package kills

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// inFlight is how many requests an agent has open at once, at most.
const inFlight = 12

// agent has a session, from its shim's start to its end.
type agent struct {
	fixture *fixture
	name    string // of the server
	list    string // of what the server has executed
	r       *rand.Rand
	shim    *rig.Shim
	free    chan struct{} // one for each request that may still be made
	most    int           // requests in all
	next    func(id int) ([]byte, *request)
	heard   func(*request) // is called with each request that was answered; may be nil

	read, asks atomic.Int64 // lines that came, and requests that are open and held by nobody

	mu       sync.Mutex // guards what follows
	sent     map[int]*request
	open     int
	answered map[int]int
	refused  map[int]string // why the request, or its answer, was
	notes    int            // what the server says by itself, that came
	note     int            // the number of the last of them
}

type request struct {
	id     int
	judged bool   // it is a call, and no ping
	held   bool   // a person lets it through
	want   string // the answer
	sent   time.Time
}

// What an agent is told of a line that has ended two daemons.
const (
	callRefused   = "Not executed: the daemon ended twice while it handled the line"
	answerRefused = "the answer was refused: the daemon ended twice while it handled the line"
	inDoubt       = "may have been executed"
)

// overdue is in the refusal of a call that could not be judged in time, on a machine that
// does much else.
const overdue = "it could not be judged within"

// newAgent starts an agent's shim with its server.
func (h *fixture) newAgent(n int, r *rand.Rand, sockets bool) *agent {
	a := &agent{
		fixture: h, name: fmt.Sprintf("s%d", n), list: h.Path("work", fmt.Sprint("executed", n)), r: r, most: math.MaxInt,
		free: make(chan struct{}, inFlight), sent: map[int]*request{}, answered: map[int]int{}, refused: map[int]string{},
	}
	a.next = a.any
	for range inFlight {
		a.free <- struct{}{}
	}
	self, _ := os.Executable() // the rig has asked as well
	a.shim = h.Shim(h, rig.Options{
		Server: a.name, Shipped: true, Sockets: sockets, Before: rig.Launcher(), Command: []string{self, serverRole, a.list}, Each: a.hear,
	})
	h.entered(a)
	return a
}

// began reports whether its server has been started.
func (a *agent) began() bool {
	_, err := os.Lstat(a.list)
	return err == nil
}

// talk makes requests until there were enough, or nobody wants more.
func (a *agent) talk() {
	for id := 1; id <= a.most && !a.fixture.stopped(); id++ {
		select {
		case <-a.free:
		case <-a.fixture.stop:
			return
		case <-a.shim.Ended():
			a.fixture.Errorf("%s: its shim has ended: %s", a.name, a.shim.Stderr())
			return
		}
		line, q := a.next(id)
		q.sent = time.Now()
		a.mu.Lock()
		a.sent[id] = q
		a.open++
		a.mu.Unlock()
		if !q.held {
			a.asks.Add(1)
		}
		if err := a.shim.Send(line); err != nil {
			a.fixture.Errorf("%s: send request %d of %d bytes: %v: %s", a.name, id, len(line), err, a.shim.Stderr())
			return
		}
	}
}

// any is a request of any kind: a short one mostly, as agents make them.
func (a *agent) any(id int) ([]byte, *request) {
	size, answer, wait, tool := a.r.IntN(300), a.r.IntN(300), 0, "echo"
	switch n := a.r.IntN(300); {
	case n == 0:
		size = 1<<20 + a.r.IntN(8<<20)
	case n == 1:
		answer = 1<<20 + a.r.IntN(8<<20)
	case n < 6:
		size = 55<<10 + a.r.IntN(25<<10)
	case n < 10:
		answer = 55<<10 + a.r.IntN(25<<10)
	case n < 22:
		tool = "held"
	case n < 60:
		wait = 1 + a.r.IntN(30)
	case n < 90:
		return fmt.Appendf(nil, ping+"\n", id), &request{id: id, want: pong(id)}
	}
	return call(id, tool, wait, size, answer)
}

// call is a call with a text of size bytes, which is answered with as many as answer.
func call(id int, tool string, wait, size, answer int) ([]byte, *request) {
	text := bytes.Repeat([]byte{byte('a' + id%26)}, size)
	line := append(fmt.Appendf(nil, head, id, tool, wait, answer), text...)
	return append(line, tail+"\n"...), &request{id: id, judged: true, held: tool == "held", want: answerTo(id, crc32.ChecksumIEEE(text), answer)}
}

// hear takes in what the agent reads.
func (a *agent) hear(line []byte) {
	a.read.Add(1)
	line = bytes.TrimSuffix(line, []byte("\n"))
	a.mu.Lock()
	defer a.mu.Unlock()
	id, ok := idOf(line)
	if !ok {
		var n int
		if _, err := fmt.Sscanf(string(line), notice, &n); err != nil || n <= a.note || string(line) != fmt.Sprintf(notice, n) {
			a.fixture.Errorf("%s reads %.300q behind notice %d", a.name, line, a.note)
		}
		a.notes, a.note = a.notes+1, n
		return
	}
	a.answered[id]++
	q := a.sent[id]
	if q == nil || a.answered[id] > 1 {
		a.fixture.Errorf("%s reads an answer that it has had or never asked for: %.300q", a.name, line)
		return
	}
	a.open--
	if !q.held {
		a.asks.Add(-1)
	}
	switch {
	case string(line) == q.want:
	case bytes.Contains(line, []byte(inDoubt)):
		a.fixture.Errorf("%s: request %d is in doubt: %.500q", a.name, id, line)
	case bytes.Contains(line, []byte(callRefused)):
		a.refused[id] = callRefused
	case bytes.Contains(line, []byte(answerRefused)):
		a.refused[id] = answerRefused
	case bytes.Contains(line, []byte(overdue)):
		a.refused[id] = overdue
	default:
		a.fixture.Errorf("%s: request %d is answered with %.500q (%d bytes), want %.100q (%d bytes)", a.name, id, line, len(line), q.want, len(q.want))
	}
	q.want = ""
	if a.heard != nil {
		a.heard(q)
	}
	a.free <- struct{}{}
}

// idOf is the id of an answer; the members of ours stand in this order.
func idOf(line []byte) (int, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"jsonrpc":"2.0","id":`))
	if !ok {
		return 0, false
	}
	digits, _, _ := bytes.Cut(rest[:min(len(rest), 20)], []byte(","))
	id, err := strconv.Atoi(string(digits))
	return id, err == nil
}

// leave waits until all is answered, hangs up, and compares what the server has
// executed.
func (a *agent) leave() {
	h := a.fixture
	waited := h.until("", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.open == 0 || a.shim.HasEnded()
	})
	a.mu.Lock()
	if a.open > 0 {
		var open []int
		for id := range a.sent {
			if a.answered[id] == 0 {
				open = append(open, id)
			}
		}
		h.Errorf("%s: of %d requests %d have no answer (%v), as %v; the shim: %s", a.name, len(a.sent), a.open, waited, open, a.shim.Stderr())
	}
	a.mu.Unlock()
	a.shim.HangUp()
	if code, ok := a.shim.Wait(rig.Timeout); !ok || code != 0 {
		h.Errorf("%s: the shim: exit status %d, ended %v: %s", a.name, code, ok, a.shim.Stderr())
	}
	a.compare()
}

// compare holds the server's own list against what the agent has asked for and read.
func (a *agent) compare() {
	h := a.fixture
	list, err := os.ReadFile(a.list)
	if err != nil && len(a.sent) > 0 {
		h.Errorf("%s has executed nothing: %v", a.name, err)
	}
	executed, said := map[string]int{}, 0
	for line := range strings.Lines(string(list)) {
		executed[strings.TrimSuffix(line, "\n")]++
		said++
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.sent {
		want := 1
		if why := a.refused[id]; why == callRefused || why == overdue {
			want = 0
		}
		word := strconv.Itoa(id)
		if executed[word] != want || a.answered[id] != 1 {
			h.Errorf("%s: request %d was executed %d times, want %d, and answered %d times %s", a.name, id, executed[word], want, a.answered[id], a.refused[id])
		}
		delete(executed, word)
	}
	if len(executed) > 0 {
		h.Errorf("%s has executed what nobody asked for: %v", a.name, executed)
	}
	if said /= noticeEvery; a.note > said {
		h.Errorf("%s has said %d things by itself, and number %d came", a.name, said, a.note)
	}
	h.left(a, said-a.notes)
}
