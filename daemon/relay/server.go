package relay

import (
	"os"
	"syscall"

	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// Server is the server's end of a session, of one kind of server: [Pipes] for a process, [InMemory]
// for one in the daemon's memory, or [Refusal] for none. The session owns it.
type Server interface {
	// join prepares the server for session s. If there is no server, both results are nil.
	join(s *Session) (source, sink, error)
	// endsWithDaemon reports whether the server does not outlive the daemon.
	endsWithDaemon() bool
	// renew prepares session s, which a previous daemon has run, for another server if the one of
	// that daemon has ended with it.
	renew(s *Session)
	// begin prepares the sink, and may block. It is called once, before anything is written.
	begin() error
	// interrupt ends a write that is under way.
	interrupt()
	// hangUp tells the server that nothing more will be written. No write may be under way.
	hangUp(letGo func(*os.File))
	terminate()
	kill()
	// handle returns the handle of the process to wait for. If it is nil, the server has ended
	// when its output has.
	handle() *os.File
	// failure returns what the agent is told when there is no server any more; nil: that it
	// has ended.
	failure() *Refusal
	// status returns the exit code for a tg-shim that has started no server; otherwise -1.
	status() int
	// close releases the server when nobody uses it any more.
	close(letGo func(*os.File))
}

// Pipes is a server that was started for the session.
type Pipes struct {
	Pair
	Staging *pipe.Staging // for writes to the server; nil if the system has none
	Process *proc.Handle  // nil if the system has no process handles

	wake *pipe.Waker
}

func (p *Pipes) endsWithDaemon() bool { return false }
func (p *Pipes) renew(*Session)       {}

func (p *Pipes) begin() error      { return nil }
func (p *Pipes) interrupt()        { p.wake.Wake() }
func (p *Pipes) failure() *Refusal { return nil }
func (p *Pipes) status() int       { return -1 }

func (p *Pipes) join(s *Session) (source, sink, error) {
	p.wake = s.toServer
	in, err := s.newInput(fromServer, int(p.From.Fd()))
	if err != nil || p.To == nil { // a previous daemon has closed it
		return in, nil, err
	}
	cursor, err := s.cursor(fromServer)
	return in, pipe.NewWriter(int(p.To.Fd()), p.Staging, cursor, s.toServer), err
}

func (p *Pipes) hangUp(letGo func(*os.File)) {
	if p.To != nil {
		letGo(p.To)
		p.To = nil
	}
}

func (p *Pipes) terminate() {
	_ = p.Process.Signal(syscall.SIGTERM) // fails if it has ended
	_ = p.Process.Signal(syscall.SIGCONT) // a stopped process could not handle the signal
}

func (p *Pipes) kill()            { _ = p.Process.Signal(syscall.SIGKILL) } // likewise
func (p *Pipes) handle() *os.File { return p.Process.File() }

func (p *Pipes) close(letGo func(*os.File)) {
	p.hangUp(letGo)
	letGo(p.From)
	letGo(p.Staging.File())
	letGo(p.Process.File())
}

// Refusal stands for a missing server: the agent's requests are answered with an error that
// says why, until the agent leaves.
type Refusal struct {
	Code int
	Text string
}

func (r *Refusal) join(s *Session) (source, sink, error) {
	s.noServer = r
	return nil, nil, nil
}

func (r *Refusal) endsWithDaemon() bool  { return false }
func (r *Refusal) renew(*Session)        {}
func (r *Refusal) begin() error          { return nil }
func (r *Refusal) interrupt()            {}
func (r *Refusal) failure() *Refusal     { return r }
func (r *Refusal) status() int           { return 0 }
func (r *Refusal) hangUp(func(*os.File)) {}
func (r *Refusal) terminate()            {}
func (r *Refusal) kill()                 {}
func (r *Refusal) handle() *os.File      { return nil }
func (r *Refusal) close(func(*os.File))  {}
