package backend

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// world has clients and a server that mark everything they cause: n is the number of a request, and
// of its owner. A message that arrives at the wrong place is a fault.
type world struct {
	*fixture
	mu      sync.Mutex // guards the fields below; locked inside the package's own mutexes
	faults  []string
	actors  []*actor
	sents   []*sent
	lives   map[*server]*played
	order   []*played
	refused int // requests of the server that the package answered
	asked   int // requests of the server that reached a client
}

// sent is a request of an actor.
type sent struct {
	actor     *actor
	n         int
	id, token string // raw
	format    string // the line, with %[1]s for the id and %[2]s for the token
	marked    bool   // its answer has the mark
	cancelled bool
	answers   int
	want      string // the server's answer, with %s for the id
}

// actor is a client.
type actor struct {
	w     *world
	m     *Member
	name  string
	caps  string
	open  []*sent
	asks  []string        // raw ids of requests of the server
	roots map[string]bool // those of asks that are for roots
	root  int
	told  string // roots that it sent last
	left  bool
	gone  error
	hello bool // its handshake is complete
}

// played is one life of the server.
type played struct {
	*server
	in   *instance
	open []*heard
	asks map[string]string // owner of each request of the server, by its raw id
	todo []string          // lines to be written
	root string            // roots that it got last
	next int
}

// heard is a request that the server has read.
type heard struct {
	*sent
	number string
	ended  time.Time // when it was cancelled
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

type message struct {
	ID     json.RawMessage
	Method string
	Result *struct {
		Of, By string
		N      int
		Roots  json.RawMessage
	}
	Error *struct {
		Code int
		Data struct{ N int }
	}
	Params struct {
		Of            string
		N             int
		RequestID     json.RawMessage `json:"requestId"`
		ProgressToken json.RawMessage `json:"progressToken"`
		URI           string
	}
}

func (w *world) read(line string) (m message) {
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		w.fault("%s: %v", line, err)
	}
	return m
}

// Deliver implements Client.
func (a *actor) Deliver(raw []byte) bool {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	line := string(raw)
	if a.left {
		a.w.fault("%s has left, and gets %s", a.name, line)
	}
	var e wire.Envelope
	if err := wire.Read(raw, wire.FromServer, &e); err != nil {
		a.w.fault("%s gets what can't be read: %v: %s", a.name, err, line)
	}
	m := a.w.read(line)
	if of := m.Params.Of; of != "" && of != a.name {
		a.w.fault("%s gets what is of %s: %s", a.name, of, line)
	}
	switch {
	case m.Method == "notifications/progress":
		s := a.w.sents[m.Params.N]
		if s.actor != a || string(m.Params.ProgressToken) != s.token {
			a.w.fault("%s gets the progress of another, or under another token: %s", a.name, line)
		}
	case m.Method == "notifications/cancelled":
		a.asks = slices.DeleteFunc(a.asks, func(id string) bool { return id == string(m.Params.RequestID) })
	case m.Method != "" && m.ID != nil:
		a.w.asked++
		a.roots[string(m.ID)] = m.Method == "roots/list"
		a.asks = append(a.asks, string(m.ID))
	case m.Method == "":
		a.answered(line, m)
	}
	return true
}

func (a *actor) answered(line string, m message) {
	n := 0 // number of the request that is answered; a late answer is allowed while its id is not reused
	if m.Result != nil {
		n = m.Result.N
	} else if m.Error != nil {
		n = m.Error.Data.N
	}
	var s *sent
	for _, open := range a.open {
		if open.id == string(m.ID) && (n == open.n || n == 0) && (s == nil || !open.cancelled) {
			s = open
		}
	}
	if s == nil {
		a.w.fault("%s gets an answer to nothing: %s", a.name, line)
		return
	}
	for _, open := range a.open {
		if open != s && open.id == s.id && s.cancelled && !open.cancelled {
			a.w.fault("%s gets a late answer as that of another: %s", a.name, line)
		}
	}
	if s.answers++; s.answers > 1 {
		a.w.fault("%s gets a second answer: %s", a.name, line)
	}
	ours := m.Error != nil && m.Error.Code < -31000 && m.Error.Code > -32000
	if s.marked && !ours && line != fmt.Sprintf(s.want, s.id) {
		a.w.fault("%s gets %s, and the server said %s", a.name, line, s.want)
	}
	a.open = slices.DeleteFunc(a.open, func(open *sent) bool { return open == s })
	if s.n == 0 {
		a.hello = m.Result != nil
	}
}

// Gone implements Client.
func (a *actor) Gone(err error) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.gone = err
}

// write writes a line that is not a request of the actor.
func (a *actor) write(line string) {
	if err := a.m.Write(a.w.t.Context(), []byte(line)); err != nil && !a.left && a.gone == nil {
		a.w.mu.Lock()
		a.w.fault("%s can't write %s: %v", a.name, line, err)
		a.w.mu.Unlock()
	}
}

// ask sends a request with an id that is not in use.
func (a *actor) ask(s *sent) {
	a.w.mu.Lock()
	busy := slices.ContainsFunc(a.open, func(o *sent) bool { return o.id == s.id && !o.cancelled })
	if busy || a.left || a.gone != nil {
		a.w.mu.Unlock()
		return
	}
	s.actor = a
	if s.n != 0 {
		s.n = len(a.w.sents)
		a.w.sents = append(a.w.sents, s)
	}
	s.format = strings.ReplaceAll(s.format, "<n>", fmt.Sprint(s.n))
	a.open = append(a.open, s)
	a.w.mu.Unlock()
	a.write(fmt.Sprintf(s.format, s.id, s.token))
}

// hears handles a line that the server has read.
func (w *world) hears(p *played, line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.read(line)
	id := string(m.ID)
	switch {
	case m.Method == "notifications/cancelled":
		for _, h := range p.open {
			if h.number == string(m.Params.RequestID) {
				h.ended = time.Now()
			}
		}
	case m.Method == "notifications/roots/list_changed":
		p.root = ""
	case m.Method == "" && p.asks[id] == "all":
		if m.Result != nil {
			shared := slices.ContainsFunc(w.actors, func(a *actor) bool {
				return !a.left && a.gone == nil && a.m.in.Load() == p.in && p.root == a.told
			})
			if shared && p.root != "" && p.root != string(m.Result.Roots) {
				w.fault("the server was told the roots %s, and now %s", p.root, line)
			}
			p.root = string(m.Result.Roots)
		}
		delete(p.asks, id)
	case m.Method == "" && p.asks[id] != "":
		if m.Error == nil && (m.Result == nil || m.Result.By != p.asks[id]) {
			w.fault("a question of %s is answered with %s", p.asks[id], line)
		} else if m.Error != nil {
			w.refused++
		}
		delete(p.asks, id)
	case m.Method == "":
		w.fault("the server reads an answer to nothing: %s", line)
	case m.ID == nil:
	case m.Method == "initialize":
		p.todo = append(p.todo, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}}}}`, id))
	case m.Params.N == 0: // a request of the package itself
		p.todo = append(p.todo, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id))
	default:
		s := w.sents[m.Params.N]
		if want := fmt.Sprintf(s.format, id, id); line != want && !strings.Contains(line, "setLevel") {
			w.fault("the server reads %s, and %s said %s", line, s.actor.name, s.format)
		}
		if s.marked {
			p.open = append(p.open, &heard{sent: s, number: id})
		} else {
			p.todo = append(p.todo, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id))
		}
	}
}

// settle lets the server answer what it answers automatically, until nothing happens any more.
func (w *world) settle() {
	for {
		synctest.Wait()
		w.mu.Lock()
		var speaker *played
		var line string
		for _, p := range w.order {
			if len(p.todo) > 0 {
				speaker, line = p, p.todo[0]
				p.todo = p.todo[1:]
				break
			}
		}
		w.mu.Unlock()
		if speaker == nil {
			return
		}
		speaker.say(line)
	}
}
