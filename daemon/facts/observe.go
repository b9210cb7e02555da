package facts

import (
	"bytes"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	// maxExaminedBytes is the number of bytes of a message that are examined: the head and the tail of a
	// longer one.
	maxExaminedBytes = 1 << 20
	tailHeard        = maxExaminedBytes / 4
	// mostDecoded is the number of base64 letters that are decoded per message.
	mostDecoded = 256 << 10
)

// Loss reports that the memory of a session is incomplete.
type Loss struct {
	Session    string // empty for a shim without one
	Attachment string
	Server     string // whose message caused it
	Profile    gate.Profile
	Reason     string
}

// Observe updates the memory with what a server sends, before the agent can read it, and with
// what an agent answers a server. It returns when the memory is updated.
func (f *Finder) Observe(m *gate.Observation) {
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
	// Definitions name tools, above all their own.
	list, _ := mcp.ListOf(m.Method)
	s.to, s.tools = &l, !l.agent && list == ""
	if !l.agent {
		f.detectSteering(memory, l.by, m, &s.steerer)
	}
	head, tail := headAndTail(m.Text)
	decode := mostDecoded
	s.report(head, &decode)
	s.report(tail, &decode)
	l.commit()
	f.reportLosses(memory, m, m.Missing+uint64(len(m.Text)-len(head)-len(tail)))
}

// headAndTail returns the parts of a text to examine: head and tail, or the whole text as tail.
func headAndTail(text []byte) (head, tail []byte) {
	if len(text) <= maxExaminedBytes {
		return nil, text
	}
	return text[:maxExaminedBytes-tailHeard], text[len(text)-tailHeard:]
}

// isOffer reports whether messages of a method only describe the server and what it provides.
// These can mislead an agent, too, but they come before any task, and suspicious definitions wait
// for a person.
func isOffer(method string) bool {
	switch method {
	case "initialize", "server/discover", "ping", "logging/setLevel", "notifications/progress":
		return true
	}
	list, _ := mcp.ListOf(method)
	return list != "" || mcp.ListsOf(method) != nil
}

// reportLosses reports discarded entries and unexamined bytes: the first time, and then whenever the
// number has doubled.
func (f *Finder) reportLosses(memory *memory, m *gate.Observation, missing uint64) {
	if f.loss == nil {
		return
	}
	tell := func(reason string) {
		f.loss(Loss{Session: m.Session, Attachment: m.Attachment, Server: m.Server, Profile: m.Profile, Reason: reason})
	}
	memory.mu.Lock()
	memory.unexamined.n += missing
	let, over := memory.discarded.n, memory.discarded.due()
	unread, cut := memory.unexamined.n, memory.unexamined.due()
	memory.mu.Unlock()
	if over {
		tell(fmt.Sprintf("servers named more than can be stored; %d of the oldest names are stored only approximately", let))
	}
	if cut {
		tell(fmt.Sprintf("a message was too long to be checked completely; %d bytes in this session were not checked", unread))
	}
}

// listener adds what a message names to the memory, in batches.
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

// batch is the number of entries to record per lock of the memory.
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
		l.memory.recordPlace(key, l.by)
	}
	for _, t := range l.tools {
		l.memory.recordNaming(t.key, l.by, t.how)
	}
	l.places, l.tools = l.places[:0], l.tools[:0]
}

// definitions records the tools of a list that declare themselves destructive. Omitting or
// withdrawing the declaration loosens nothing.
func (f *Finder) definitions(memory *memory, m *gate.Observation) {
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
			memory.recordKey(&memory.harms, f.ownTool(m.Server, tool.ID))
		}
	}
}

// saysItDestroys reports whether a definition has the hint. A definition that two parsers may
// read differently counts as having it.
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
