package backend

import (
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// levels are those of log messages, the most talkative first. A client that has set
// none counts as one that wants info and more, and gets all that comes.
var levels = []string{"", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

const info = 2

func levelOf(text string) int { return max(0, slices.Index(levels, text)) }

// setLevel notes what m wants to hear. The server is told when that is more than, or
// no longer as much as, what it says now. mu is held.
func (in *instance) setLevel(r *request, line []byte, e *wire.Envelope) {
	s, err := wire.Member(line, e.Params, "level")
	text, _ := wire.Unquote(s, line)
	level := levelOf(text)
	if err != nil || level == 0 { // the server may know it
		in.send(r, line, e)
		return
	}
	r.m.level = level
	want := in.voice()
	if want == in.level {
		in.succeed(r)
		return
	}
	in.level = want
	r.then = func(ok bool) {
		if !ok {
			in.level = 0
		}
	}
	in.send(r, line, e, wire.Edit{Span: s, With: fmt.Appendf(nil, "%q", levels[want])})
}

// voice is the level that the most talkative client wants; 0 when none has set one.
func (in *instance) voice() int {
	want, set := len(levels), false
	for _, m := range in.members {
		switch {
		case m.level > 0:
			want, set = min(want, m.level), true
		case m.ready:
			want = min(want, info)
		}
	}
	if !set {
		return 0
	}
	return want
}

// tuneVoice tells the server when clients that came or went change what it has to
// say. mu is held.
func (in *instance) tuneVoice() {
	if want := in.voice(); in.ready && in.level > 0 && want > 0 && want != in.level {
		in.tellLevel(in.talk, want)
	}
}

// restoreLevel tells the life t what the last one was told.
func (in *instance) restoreLevel(t *talk) {
	if want := in.voice(); want > 0 {
		in.tellLevel(t, want)
	}
}

func (in *instance) tellLevel(t *talk, level int) {
	in.level = level
	in.own(t, "logging/setLevel", fmt.Sprintf(`{"level":%q}`, levels[level]), func([]byte, *wire.Envelope) {})
}

// message delivers a log message to the client that it must be of, if it wants it.
func (in *instance) message(line []byte, e *wire.Envelope) {
	m := in.addressee(in.busyOwners())
	if m == nil {
		in.drop("a log message that can't be attributed")
		return
	}
	text, _ := memberText(line, e.Params, "level")
	if level := levelOf(text); level > 0 && level < m.level {
		in.drop("a log message below the client's level")
		return
	}
	in.deliver(m, line)
}
