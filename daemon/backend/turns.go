package backend

import (
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// mostClasses is how many tools are remembered. Past that all is learned anew.
const mostClasses = 4096

// class is what is known of calls of one kind, which is mostly a tool.
type class uint8

const (
	unknown class = iota
	quiet         // it has answered without asking
	asking        // it has asked, or may have
)

// turn is the calls of one client that are under way, if they may make the server ask.
type turn struct {
	exclusive int
	all       int
}

// classOf returns by what it is known whether a request of the legacy era makes the
// server ask; empty for a request that is taken not to, and takes no turn: those that
// list, complete, log, or follow a task, whose questions name the task.
func (in *instance) classOf(line []byte, e *wire.Envelope) string {
	if in.greeting == nil || !in.greeting.asks {
		return ""
	}
	switch e.Method {
	case "ping", "server/discover", "completion/complete", "tools/list", "resources/list", "resources/templates/list",
		"prompts/list", "skills/list", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel":
		return ""
	case "tools/call", "prompts/get":
		if name, err := wire.Unquote(e.Name, line); err == nil {
			return e.Method + " " + name
		}
	}
	return e.Method
}

// admits reports whether it is the turn of r. blocked says that a call before it
// waits. mu is held.
func (in *instance) admits(r *request, blocked bool) bool {
	r.exclusive = in.classes[r.class] != quiet
	if time.Since(r.since) >= in.options.Turn {
		return true
	}
	if blocked && (r.m == nil || len(r.m.asks) == 0 || in.turns[r.owner].exclusive == 0) {
		return false // but a client that is being asked may need the server to answer
	}
	for owner, t := range in.turns {
		if owner != r.owner && (r.exclusive || t.exclusive > 0) {
			return false
		}
	}
	return true
}

func (in *instance) takeTurn(r *request) {
	t := in.turns[r.owner]
	t.all++
	if r.exclusive {
		t.exclusive++
	}
	in.turns[r.owner] = t
}

// endTurn ends the turn of r, if it has one. mu is held.
func (in *instance) endTurn(r *request) {
	if r.class == "" || !r.sent {
		return
	}
	t := in.turns[r.owner]
	t.all--
	if r.exclusive {
		t.exclusive--
	}
	in.turns[r.owner] = t
	if t.all <= 0 {
		delete(in.turns, r.owner)
	}
	r.class = ""
}

// learn notes that calls of a class have, or have not, made the server ask.
func (in *instance) learn(name string, c class) {
	if name == "" || in.classes[name] == asking {
		return
	}
	if len(in.classes) >= mostClasses {
		clear(in.classes)
	}
	in.classes[name] = c
}

// suspect notes that the server has asked while these clients' calls were open: those
// of them that are not known to be quiet, or all if they are.
func (in *instance) suspect(owners map[uint64]turn) {
	all := true
	for _, r := range in.open {
		if _, ok := owners[r.owner]; ok && r.class != "" && in.classes[r.class] != quiet {
			all = false
		}
	}
	for _, r := range in.open {
		if _, ok := owners[r.owner]; ok && r.class != "" && (all || in.classes[r.class] != quiet) {
			in.learn(r.class, asking)
		}
	}
}
