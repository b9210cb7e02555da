package facts

import (
	"bytes"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	// mostHeard is how much of one message is looked at, in bytes: its head and
	// its tail when there is more.
	mostHeard = 1 << 20
	tailHeard = mostHeard / 4
	// mostDecoded is how many letters of base64 of one message are decoded.
	mostDecoded = 256 << 10
)

// Loss says that the memory of a session is not whole.
type Loss struct {
	Session    string // empty for a shim without one
	Attachment string
	Server     string // by what it said
	Profile    gate.Profile
	Reason     string
}

// Observe takes note of what a server says before the agent can read it, and of
// what an agent answers a server. It returns when the memory holds it.
func (f *Finder) Observe(m *gate.Message) {
	memory := f.sessions.of(m.Session, m.Attachment)
	l := listener{memory: memory, agent: m.Side == wire.FromAgent}
	if !l.agent {
		memory.mu.Lock()
		l.by = memory.number(m.Server)
		memory.read = memory.read || !isOffer(m.Method)
		memory.mu.Unlock()
		if m.Method == "tools/list" && m.Missing == 0 {
			f.definitions(memory, m)
		}
	}
	s := f.sight()
	defer f.release(s)
	// The definitions of tools name tools, their own above all.
	list, _ := mcp.ListOf(m.Method)
	s.to, s.tools = &l, !l.agent && list == ""
	if !l.agent {
		f.steers(memory, l.by, m, &s.steerer)
	}
	head, tail := heard(m.Text)
	decode := mostDecoded
	s.look(head, &decode)
	s.look(tail, &decode)
	l.commit()
	f.losses(memory, m, m.Missing+uint64(len(m.Text)-len(head)-len(tail)))
}

// heard returns what is looked at of a text: its head and its tail, or all of it as
// its tail.
func heard(text []byte) (head, tail []byte) {
	if len(text) <= mostHeard {
		return nil, text
	}
	return text[:mostHeard-tailHeard], text[len(text)-tailHeard:]
}

// isOffer reports whether a server says by a method, or by the answer to it, only
// what it is and offers. That can mislead an agent as well, but it comes before a
// word of a task, and what is odd in a definition waits for a person.
func isOffer(method string) bool {
	switch method {
	case "initialize", "server/discover", "ping", "logging/setLevel", "notifications/progress":
		return true
	}
	list, _ := mcp.ListOf(method)
	return list != "" || mcp.ListsOf(method) != nil
}

// losses tells of what the memory had to let go and of what was not looked at:
// the first time, and then each time it has doubled.
func (f *Finder) losses(memory *memory, m *gate.Message, missing uint64) {
	if f.loss == nil {
		return
	}
	tell := func(reason string) {
		f.loss(Loss{Session: m.Session, Attachment: m.Attachment, Server: m.Server, Profile: m.Profile, Reason: reason})
	}
	memory.mu.Lock()
	memory.unread.n += missing
	let, over := memory.let.n, memory.let.due()
	unread, cut := memory.unread.n, memory.unread.due()
	memory.mu.Unlock()
	if over {
		tell(fmt.Sprintf("servers named more than can be remembered; %d of the oldest are known only roughly", let))
	}
	if cut {
		tell(fmt.Sprintf("a message was too long to be looked at whole; %d bytes in this session were not", unread))
	}
}

// listener puts into the memory what a message names, some at a time.
type listener struct {
	memory *memory
	by     uint16
	agent  bool
	places []uint64
	tools  []namedTool
}

type namedTool struct {
	key uint64
	how strength
}

// batch is how much is noted with the memory locked once.
const batch = 256

func (l *listener) place(p place) {
	if l.places = append(l.places, p.key); len(l.places) == batch {
		l.commit()
	}
}

func (l *listener) named(key uint64, how strength) {
	if l.tools = append(l.tools, namedTool{key, how}); len(l.tools) == batch {
		l.commit()
	}
}

func (l *listener) commit() {
	if l.agent {
		for _, key := range l.places {
			l.memory.claim(key)
		}
		l.places = l.places[:0]
		return
	}
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	for _, key := range l.places {
		l.memory.heard(key, l.by)
	}
	for _, t := range l.tools {
		l.memory.toldOf(t.key, l.by, t.how)
	}
	l.places, l.tools = l.places[:0], l.tools[:0]
}

// definitions notes which tools of a list say of themselves that they destroy.
// What they don't say, or take back, loosens nothing.
func (f *Finder) definitions(memory *memory, m *gate.Message) {
	var e wire.Envelope
	if wire.Read(m.Text, wire.FromServer, &e) != nil || !e.Result.Present() {
		return
	}
	list, err := wire.ReadList(m.Text, &e, "tools")
	if err != nil {
		return
	}
	for _, tool := range list.Elements {
		if tool.ID != "" && saysItDestroys(m.Text, tool.Span) {
			memory.note(&memory.harms, f.ownTool(m.Server, tool.ID))
		}
	}
}

// saysItDestroys reports whether a definition has the hint. One that two readers
// would read in two ways has it.
func saysItDestroys(line []byte, tool wire.Span) bool {
	annotations, err := wire.Member(line, tool, "annotations")
	if err != nil {
		return true
	}
	if !bytes.HasPrefix(annotations.Of(line), []byte("{")) {
		return false
	}
	hint, err := wire.Member(line, annotations, "destructiveHint")
	return err != nil || string(hint.Of(line)) == "true"
}
