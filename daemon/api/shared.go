package api

import (
	"context"
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	"github.com/thoughtgate/thoughtgated/daemon/sharing"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// wayOf is the way to a shared server as one stream sees it. Where the server is
// the shim's own, way is nil and every message that is about it is refused.
type wayOf struct {
	gateService
	way    *sharing.Way
	fresh  bool // nobody has asked for it before
	hello  *pb.Hello
	launch string
	out    *outbox
	kept   bool // it stands since an earlier stream
	opened bool // by this one
}

// way returns the way of the shim that says h. The tools of an extension are
// always shared; what the configuration in force
// says of sharing the server is looked at when an attachment comes for the first
// time.
func (g gateService) way(h *pb.Hello, hello session.Hello, out *outbox) *wayOf {
	w := &wayOf{gateService: g, hello: h, launch: hello.Shim.Launch, out: out}
	w.way, w.fresh = g.s.Sharing.Way(h.GetAttachment(), func() bool {
		return h.GetExtension() != "" || g.s.Policies.Shared(hello.Shim.Server, hello.Shim.Command)
	})
	return w
}

func (w *wayOf) welcome(m *pb.Welcome) *pb.Welcome {
	if w.way != nil {
		m.Shared = true
		m.Kept, m.Wrote = w.way.Kept()
		w.kept = m.Kept
	}
	return m
}

// unused forgets the way of a shim that was not let in.
func (w *wayOf) unused() {
	if w.fresh {
		w.s.Sharing.Forget(w.hello.GetAttachment())
	}
}

// verdict takes note of a verdict on its way to the shim.
func (w *wayOf) verdict(v gate.Verdict) {
	if w.way != nil {
		w.way.Verdict(v)
	}
	w.out.verdict(v)
}

func (w *wayOf) submitted(s gate.Submission) error {
	if w.way == nil {
		return nil
	}
	return w.way.Submitted(s)
}

func (w *wayOf) cancelled(seq uint64) {
	if w.way != nil {
		w.way.Cancelled(seq)
	}
}

func (w *wayOf) part() {
	if w.way != nil {
		w.way.Part(w.out)
	}
}

// heed does what a message says that is about a shared server.
func (w *wayOf) heed(ctx context.Context, a *gate.Attachment, up *pb.Up) error {
	if open := up.GetOpen(); open != nil && w.way != nil && !w.opened {
		w.opened = true
		w.open(ctx, open)
		return nil
	}
	if !w.opened {
		return fmt.Errorf("a message that this shim can't send: %w", gate.ErrInvalid)
	}
	switch m := up.GetMsg().(type) {
	case *pb.Up_Write:
		err := w.way.Write(m.Write.GetSeq(), m.Write.GetLine())
		if err != nil {
			a.Refused(ctx, wire.FromAgent, err.Error(), nil)
			w.s.Logger.Warn("a line for a shared server was not taken", "server_id", w.hello.GetServer(), "err", err)
		}
		return err
	case *pb.Up_Took:
		w.way.Took(m.Took.GetSeq())
		return nil
	}
	return fmt.Errorf("a message that a shim can't send: %w", gate.ErrInvalid)
}

// open takes the way up, or looks for a server, which may have to be started: also
// for a shim that comes back, since its server went with the daemon before.
func (w *wayOf) open(ctx context.Context, m *pb.Open) {
	env := make([]string, len(m.GetEnv()))
	for i, entry := range m.GetEnv() {
		env[i] = string(entry)
	}
	if !w.kept {
		if err := w.judgeStart(ctx, w.hello, env); err != nil {
			w.way.Fail(sharing.Gone{Status: child.ExitOurs, Reason: err.Error()}, w.out)
			return
		}
	}
	w.way.Open(sharing.Launch{
		Server: w.hello.GetServer(), Launch: w.launch, Executable: w.hello.GetExecutable(),
		Command: w.hello.GetCommand(), Cwd: w.hello.GetCwd(), Env: env,
	}, m.GetInitialize(), m.GetTook(), w.out)
}

// Read implements [sharing.Sink].
func (o *outbox) Read(seq uint64, line []byte) {
	o.add(&pb.Down{Msg: &pb.Down_Read{Read: &pb.Read{Seq: seq, Line: line}}})
}

// Wrote implements [sharing.Sink].
func (o *outbox) Wrote(seq uint64) {
	o.add(&pb.Down{Msg: &pb.Down_Wrote{Wrote: &pb.Wrote{Seq: seq}}})
}

// Gone implements [sharing.Sink].
func (o *outbox) Gone(g sharing.Gone) {
	o.add(&pb.Down{Msg: &pb.Down_Gone{Gone: &pb.Gone{Started: g.Started, Status: int32(g.Status), Reason: g.Reason}}})
}
