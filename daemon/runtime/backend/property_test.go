package backend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
)

// Whatever clients and server do, in any order: no client gets a message of another, each request
// gets exactly one answer unless it was cancelled or its client left, and no byte changes except
// those of ids and tokens.
func TestNobodyGetsTheMessageOfAnother(t *testing.T) {
	var asked, refused int
	rapid.Check(t, func(rt *rapid.T) {
		length := rapid.IntRange(1, 200).Draw(rt, "length")
		ops := rapid.SliceOfN(rapid.Uint64(), length, length).Draw(rt, "ops")
		var faults []string
		synctest.Test(t, func(t *testing.T) {
			w := &world{fixture: &fixture{t: t}, sents: []*sent{nil}, lives: map[*server]*played{}}
			w.Pool = New(Options{Policy: supervise.Policy{Restarts: 1000}})
			w.make = func(o supervise.Options[*talk]) process {
				p := &lives{o: o, again: make(chan struct{}, 1), begun: w.begin}
				w.procs = append(w.procs, p)
				return p
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = w.Run(ctx)
			}()
			for _, op := range ops {
				w.step(shake(op))
				w.settle()
			}
			w.end()
			cancel()
			<-ended
			faults = w.faults
			asked, refused = asked+w.asked, refused+w.refused
		})
		if len(faults) > 0 {
			rt.Fatalf("%d faults:\n%s", len(faults), strings.Join(faults[:min(len(faults), 5)], "\n"))
		}
	})
	if asked == 0 {
		t.Error("no question has reached a client: the test tests nothing")
	}
	t.Logf("%d questions reached a client, %d were refused", asked, refused)
}

func (w *world) begin(s *server, in *instance) {
	p := &played{server: s, in: in, asks: map[string]string{}}
	s.read = func(line string) { w.hears(p, line) }
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order = append(w.order, p)
}

// alive returns the lives that have not ended.
func (w *world) alive() []*played {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.order), func(p *played) bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
}

func (w *world) step(d *dice) {
	kind := d.roll(26)
	present := slices.DeleteFunc(slices.Clone(w.actors), func(a *actor) bool { return a.left || a.gone != nil })
	if kind == 0 && len(present) < 6 || len(present) == 0 {
		w.arrive(d)
		return
	}
	a := present[d.roll(len(present))]
	alive := w.alive()
	switch {
	case kind <= 10:
		w.request(a, d)
	case kind == 11:
		a.cancelOne(d)
	case kind == 12:
		a.answerOne(d)
	case kind == 13 && d.roll(4) == 0:
		w.mu.Lock()
		a.left = true
		w.mu.Unlock()
		a.m.Leave()
	case kind == 14 && len(alive) > 0 && d.roll(3) == 0:
		alive[d.roll(len(alive))].exit()
	case kind == 24 && d.roll(3) == 0:
		w.mu.Lock()
		a.root, a.told = d.roll(2), ""
		w.mu.Unlock()
		if a.hello {
			a.write(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		}
	case kind == 15:
		time.Sleep([]time.Duration{10 * time.Millisecond, time.Second, 6 * time.Second, 2 * time.Minute}[d.roll(4)])
	case len(alive) > 0:
		w.serve(alive[d.roll(len(alive))], kind, d)
	}
}

func (w *world) arrive(d *dice) {
	a := &actor{w: w, name: fmt.Sprintf("c%d", len(w.actors)+1), roots: map[string]bool{}, root: d.roll(2)}
	a.caps = []string{`"sampling":{}`, `"sampling":{}`, ``, `"sampling":{},"roots":{}`}[d.roll(4)]
	a.m = w.join(a)
	w.actors = append(w.actors, a)
	a.ask(&sent{id: []string{`0`, `"hello"`, `1`}[d.roll(3)],
		format: `{"jsonrpc":"2.0","id":%[1]s,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{` + a.caps + `},"clientInfo":{"name":"` + a.name + `"}}}` + "%[2]s"})
	w.settle()
	if a.hello {
		a.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
}

// request sends a random request, also with ids that other clients or the package itself use.
func (w *world) request(a *actor, d *dice) {
	ids := []string{"1", "2", "3", `"1"`, `"2"`, `"x"`, `"\u0079"`, "-5", "7", "12", "20", "31", "9007199254740993", `""`}
	s := &sent{n: -1, id: ids[d.roll(len(ids))], marked: true, token: []string{`1`, `"1"`, `"t"`, `3`}[d.roll(4)]}
	body := []string{
		`"method":"tools/call","params":{"name":"a",%s}`,
		`"method":"tools/call","params":{"name":"b",%s}`,
		`"params":{"name":"c" , %s},"method":"tools/call"`,
		`"method":"tools/list","params":{%s}`,
		`"method":"resources/read","params":{"uri":"file:///a",%s}`,
		`"method":"resources/subscribe","params":{"uri":"file:///a",%s}`,
		`"method":"resources/unsubscribe","params":{"uri":"file:///a",%s}`,
		`"method":"logging/setLevel","params":{"level":"debug",%s}`,
	}[d.roll(8)]
	s.marked = !strings.Contains(body, "subscribe") && !strings.Contains(body, "setLevel")
	mark := fmt.Sprintf(`"of":"%s","n":<n>`, a.name)
	if s.marked && d.roll(2) == 0 {
		mark = `"_meta":{ "progressToken" :%[2]s },` + mark
	} else {
		s.token = ""
		mark += "%[2]s"
	}
	if s.token == "" {
		mark = strings.Replace(mark, "%[2]s", "%.0[2]s", 1)
	}
	s.format = `{"jsonrpc":"2.0",` + strings.Replace(body, "%s", mark, 1) + `, "id":%[1]s}`
	a.ask(s)
}

func (a *actor) cancelOne(d *dice) {
	a.w.mu.Lock()
	var id string
	open := slices.DeleteFunc(slices.Clone(a.open), func(s *sent) bool { return s.cancelled || s.n == 0 })
	if len(open) > 0 { // a handshake can't be cancelled
		s := open[d.roll(len(open))]
		id, s.cancelled = s.id, true
	}
	a.w.mu.Unlock()
	if id != "" {
		a.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
	}
}

// answerOne answers a request of the server, or forges an answer.
func (a *actor) answerOne(d *dice) {
	a.w.mu.Lock()
	id := fmt.Sprint(d.roll(5))
	if len(a.asks) > 0 && d.roll(8) > 0 {
		id = a.asks[0]
	}
	a.asks = slices.DeleteFunc(a.asks, func(open string) bool { return open == id })
	result := fmt.Sprintf(`{"by":"%s"}`, a.name)
	if a.roots[id] {
		a.told = fmt.Sprintf("[%d]", a.root)
		result = fmt.Sprintf(`{"roots":%s}`, a.told)
	}
	a.w.mu.Unlock()
	a.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

// serve does something that a server may do.
func (w *world) serve(p *played, kind int, d *dice) {
	w.mu.Lock()
	var line string
	var h *heard
	if len(p.open) > 0 {
		h = p.open[d.roll(len(p.open))]
	}
	live := h != nil && (h.ended.IsZero() || time.Since(h.ended) < 5*time.Second)
	switch {
	case kind == 16:
		line = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	case kind == 25:
		p.next++
		p.asks[fmt.Sprint(p.next)] = "all"
		line = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, p.next)
	case kind == 17:
		line = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}`
	case h == nil:
	case kind == 18 && live:
		line = fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","of":"%s"}}`, h.actor.name)
	case kind == 19 && live && h.token != "" && h.ended.IsZero():
		line = fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"of":"%s","n":%d}}`, h.number, h.actor.name, h.n)
	case kind <= 21 && live && strings.Contains(h.format, "tools/call"):
		p.next++
		id := []string{fmt.Sprint(p.next), fmt.Sprintf(`"%d"`, p.next)}[d.roll(2)]
		p.asks[id] = h.actor.name
		line = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"sampling/createMessage","params":{"of":"%s"}}`, id, h.actor.name)
	default:
		line = p.answer(h, d.roll(5) == 0)
	}
	w.mu.Unlock()
	if line != "" {
		p.say(line)
	}
}

// answer completes a request. w.mu must be held.
func (p *played) answer(h *heard, fails bool) string {
	p.open = slices.DeleteFunc(p.open, func(open *heard) bool { return open == h })
	h.want = fmt.Sprintf(`{ "result": {"of":"%s", "n":%d, "t":1.0},"jsonrpc":"2.0","id":%%s}`, h.actor.name, h.n)
	if fails {
		h.want = fmt.Sprintf(`{"id":%%s,"jsonrpc":"2.0" ,"error":{"code":-32603,"message":"no","data":{"n":%d}}}`, h.n)
	}
	return fmt.Sprintf(h.want, h.number)
}

// end completes everything: each request that was not cancelled must then have exactly one answer.
func (w *world) end() {
	for quiet := 0; quiet < 10; quiet++ {
		open := false
		for _, p := range w.alive() {
			w.mu.Lock()
			var lines []string
			for len(p.open) > 0 {
				lines = append(lines, p.answer(p.open[0], false))
			}
			w.mu.Unlock()
			for _, line := range lines {
				p.say(line)
				open = true
			}
		}
		w.settle()
		time.Sleep(10 * time.Second)
		w.settle()
		if open {
			quiet = 0
		}
	}
	for _, in := range w.all() {
		in.mu.Lock()
		kept := len(in.open) + len(in.waiting) + len(in.cancelled) + len(in.busy) + len(in.turns) + len(in.tokens)
		in.mu.Unlock()
		if kept > 0 {
			w.fault("%d things are kept at the end", kept)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.actors {
		if a.gone != nil && !a.left {
			w.fault("%s was let go: %v", a.name, a.gone)
		}
		for _, s := range a.open {
			if !s.cancelled && !a.left {
				w.fault("%s has no answer to %s %s", a.name, s.id, s.format)
			}
		}
	}
}
