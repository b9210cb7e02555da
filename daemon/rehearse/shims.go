package rehearse

import (
	"container/list"
	"context"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// mostShims is how many simulated shims a stage has at a time. What servers said is kept for each
// session. Beyond the limit the least recently used shim leaves.
const mostShims = 4096

// shimKey identifies a simulated shim.
type shimKey struct{ session, server, agent, project string }

// shim is a simulated shim.
type shim struct {
	key        shimKey
	id         string
	at         *list.Element // in recent
	attachment *gate.Attachment
	last       []byte     // params of the call judged last
	waits      *gate.Call // that call, unless it was forwarded
	defined    []byte     // definition listed last
}

// shim returns the shim for l.
func (s *Stage) shim(l *Line) *shim {
	key := shimKey{l.Session, l.Server, l.Agent, l.Project}
	if sh := s.shims[key]; sh != nil {
		s.recent.MoveToFront(sh.at)
		return sh
	}
	if len(s.shims) >= mostShims {
		s.leave(s.recent.Back().Value.(*shim))
	}
	s.played++
	s.shares[l.Session]++
	sh := &shim{key: key, id: fmt.Sprintf("rehearsal-%d", s.played)}
	sh.attachment = s.gate.Attach(context.Background(), gate.Shim{
		Attachment: sh.id, Session: l.Session, Agent: l.Agent, Project: l.Project,
		Server: l.Server, Command: l.Command, Remote: gate.IsAddress(l.Command),
	}, nil)
	sh.attachment.Bind(func(v gate.Verdict) { s.note(func(seen *sighting) { seen.verdict = v }) })
	s.shims[key], sh.at = sh, s.recent.PushFront(sh)
	return sh
}

// leave ends a shim. With the last shim of a session, the session's memory is deleted.
func (s *Stage) leave(sh *shim) {
	sh.attachment.Close(true)
	s.recent.Remove(sh.at)
	delete(s.shims, sh.key)
	session := sh.key.session
	if s.shares[session]--; session != "" && s.shares[session] > 0 {
		return
	}
	delete(s.shares, session)
	s.gate.Facts.Forget(session, sh.id)
}
