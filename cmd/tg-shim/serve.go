package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// traffic is what runs while messages are carried.
type traffic struct {
	*proxy
	server     server
	others     sync.WaitGroup // lanes, the link, what the server writes
	agentGone  chan struct{}
	serverGone chan struct{}
	linkEnded  chan struct{}
	linkErr    error // valid once linkEnded is closed
}

// serve carries messages until one side has gone, and returns the exit status.
func (s *shim) serve(ctx context.Context, l *link, server server, signals <-chan os.Signal) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := s.begin(ctx, l, server)
	grace, reason := s.wait(t, signals)
	stop(ctx, server, grace, signals)
	for _, lane := range t.lanes {
		lane.loosen() // an agent that does not read must not keep us
	}
	await(t.serverGone, firstWord) // what the server wrote before it ended is read, unless the agent takes nothing
	t.lanes[wire.FromServer].idle(firstWord)
	if errors.Is(reason, errServerGone) {
		t.ledger.allWeighed(wire.FromAgent, finish) // it has answered; extensions are asked about that still
	}
	how := server.Wait()
	if how.aloud {
		fmt.Fprintf(s.stderr, "tg-shim: server %q: %s\n", s.server, how.text)
	}
	if errors.Is(reason, errAgentGone) {
		t.loseAll() // who hung up waits for nothing; servers answer nobody then either
	} else {
		t.failAll(how.code, how.text)
		l.end(reason) // the daemon is not waited for any more by those who read on
		s.hearOut(t.agentGone)
	}
	code := how.status
	if errors.Is(reason, errGateLost) {
		code = child.ExitOurs
	}
	l.leave(code, reason.Error(), how.ended)
	await(t.linkEnded, farewell)
	cancel()
	for _, lane := range t.lanes {
		lane.close()
	}
	ended := make(chan struct{})
	go func() { // ends with the lanes, or with the process when the agent does not read
		defer close(ended)
		t.others.Wait()
	}()
	await(ended, firstWord)
	return code
}

// begin starts to carry messages.
func (s *shim) begin(ctx context.Context, l *link, server server) *traffic {
	w := l.stream.Welcome()
	t := &traffic{
		proxy:  &proxy{server: s.server, log: s.log, link: l, ledger: newLedger(), profile: w.GetProfile(), longest: int(w.GetLimits().GetMaxMessage())},
		server: server, agentGone: make(chan struct{}), serverGone: make(chan struct{}), linkEnded: make(chan struct{}),
	}
	t.lanes = [2]*lane{newLane(server.Stdin()), newLane(s.stdout)}
	l.obey = t.proxy
	l.silent = func(all bool) *pb.Unanswered { return t.ledger.silent(all, l.number) }
	t.ledger.silence.due = time.AfterFunc(time.Hour, l.tellUnanswered)
	t.ledger.silence.due.Stop()
	if l.shared != nil {
		t.kept.wanted = true
		l.shared.settled = func(grace child.Grace) { t.ledger.settled(wire.FromAgent, grace.Stdin) }
	}
	for _, lane := range t.lanes {
		t.others.Go(lane.run)
	}
	t.others.Go(func() {
		defer close(t.linkEnded)
		if t.linkErr = l.run(ctx); t.linkErr != nil {
			l.end(t.linkErr) // whoever waits for the daemon need not any more
		}
	})
	t.others.Go(func() { s.copyStderr(server, w.GetRawStderr()) })
	t.others.Go(func() {
		defer close(t.serverGone)
		s.pump(ctx, t.proxy, wire.FromServer, server.Stdout())
	})
	go func() { // reads standard input, which may be one that nothing can interrupt; ends with it, hearOut or the process
		defer close(t.agentGone)
		s.pump(ctx, t.proxy, wire.FromAgent, s.stdin)
	}()
	return t
}

// wait returns when one side has gone: how long the server may take, and why.
func (s *shim) wait(t *traffic, signals <-chan os.Signal) (child.Grace, error) {
	select {
	case <-t.agentGone:
		t.failUndecided(true, mcp.CodeGate, "the agent has left")
		t.lanes[wire.FromAgent].idle(firstWord)
		return child.LeavingGrace, errAgentGone
	case <-t.serverGone:
		return child.LeavingGrace, errServerGone
	case <-t.server.Done():
		return child.LeavingGrace, errServerGone
	case sig := <-signals:
		return child.Grace{Term: child.LeavingGrace.Term}, fmt.Errorf("signal: %v", sig)
	case <-t.linkEnded:
		s.leaveGate(t.proxy, t.linkErr)
		return child.OurGrace, t.linkErr
	case <-t.link.asked:
		err := t.link.drained()
		s.leaveGate(t.proxy, err)
		return child.Grace{}, err
	}
}

// await waits for c to be closed, for d at most.
func await(c <-chan struct{}, d time.Duration) {
	select {
	case <-c:
	case <-time.After(d):
	}
}

// leaveGate refuses what is undecided once the daemon asked to leave or can't
// be found any more, and gives answers that are on their way the time to come.
func (s *shim) leaveGate(p *proxy, err error) {
	if errors.Is(err, errGateLost) {
		fmt.Fprintf(s.stderr, "tg-shim: %v; server %q is ended, since nothing may pass unjudged\n", err, s.server)
	}
	p.link.end(err)
	p.failUndecided(false, mcp.CodeGate, "Not executed: "+err.Error())
	p.ledger.settled(wire.FromAgent, finish)
}

// stop ends the server by the ladder. A signal that comes meanwhile is passed
// on, since agents send several kinds in a row; one more of the same kind means
// that somebody has lost patience, and takes the ladder in one go.
func stop(ctx context.Context, server server, grace child.Grace, signals <-chan os.Signal) {
	ctx, hasten := context.WithCancel(ctx)
	defer hasten()
	stopped := make(chan struct{})
	defer close(stopped)
	go func() { // ends with stopped
		seen := map[os.Signal]bool{}
		for {
			select {
			case sig := <-signals:
				if seen[sig] {
					hasten()
				}
				seen[sig] = true
				server.Signal(sig.(syscall.Signal))
			case <-stopped:
				return
			}
		}
	}()
	server.Stop(ctx, grace)
}

// rest is how long after a long line the system gets back what was needed for it.
const rest = 100 * time.Millisecond

// pump handles the lines that side writes until it ends or the agent does not
// read any more. Requests of the agent are read on when the server has gone:
// they get errors.
func (s *shim) pump(ctx context.Context, p *proxy, side wire.Side, r io.Reader) {
	reader := wire.NewLongReader(&source{r, widthOf(r)}, p.longest)
	defer reader.Close()
	tidy := time.AfterFunc(time.Hour, debug.FreeOSMemory)
	defer tidy.Stop()
	var line wire.Line
	for {
		if err := reader.Next(&line); err != nil {
			return
		}
		p.onward(side).more.Store(reader.More())
		if err := p.line(ctx, side, &line); err != nil {
			s.log.Debug("a line was not written", "direction", directionName(side), "err", err)
			if side == wire.FromServer || errors.Is(err, errNotMCP) {
				return
			}
		}
		if len(line.Data) >= long {
			tidy.Reset(rest)
		}
		p.back(side).heed()
	}
}

func (s *shim) copyStderr(server server, raw bool) {
	if raw {
		_, _ = io.Copy(s.stderr, server.Stderr())
		return
	}
	_ = child.EscapeStderr(s.stderr, server.Stderr())
}
