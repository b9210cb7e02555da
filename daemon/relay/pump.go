package relay

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// input is the memory that a side's lines are read through. It is a [wire.Window]
// of the side's pump.
type input struct {
	*mapping.Input
	session *Session
	side    wire.Side
	fd      int
	wake    *pipe.Waker
	at      uint64 // offset up to which lines were taken by the reader
	line    uint64 // offset at which the line that was read last ends
}

// taken is the offset up to which the pump has dealt with what was read, once it has
// dealt with the line that was read last.
func (in *input) taken() uint64 { return in.at }

// Unread implements [wire.Window].
func (in *input) Unread() []byte { return in.Input.Unread(in.at) }

// Take implements [wire.Window].
func (in *input) Take(n int) { in.at += uint64(n) }

// Fill implements [wire.Window].
func (in *input) Fill() error {
	s := in.session
	s.mu.Lock()
	for s.state.out[other(in.side)].refers() && s.outputs[other(in.side)].err == nil && s.ctx.Err() == nil {
		s.changed.Wait() // what is still to be written stands in this memory
	}
	if in.at > s.state.taken[in.side] { // of a line that is too long, or blank
		s.happen(&consumed{in.side, in.at})
	}
	s.mu.Unlock()
	n, err := in.wake.Read(in.fd, in.Room(in.at))
	if err != nil {
		return err
	}
	if n == 0 {
		return io.EOF
	}
	in.Read(n)
	return nil
}

// Shrink implements [wire.Window]: Room gives back what is not needed.
func (in *input) Shrink() {}

// Release implements [wire.Window].
func (in *input) Release() {}

// standing is the event that line is written to a side as it stands in this memory,
// nil where it does not stand there with a line end of one byte behind it. What an
// agent has written is never taken from there a second time: whoever can reach the
// memory could change it after it was judged.
func (in *input) standing(line []byte, to wire.Side) event {
	n := uint64(len(line)) + 1
	if in.side == wire.FromAgent || in.at < n {
		return nil
	}
	all, ok := in.Bytes(in.at-n, n)
	if !ok || &all[0] != &line[0] || all[n-1] != '\n' {
		return nil
	}
	return &passed{to, in.at - n, n}
}

// pump deals with the lines of one side until that ends.
func (s *Session) pump(side wire.Side) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			s.log.Error("a session has met a fault and is ended", "panic", fault, "stack", string(debug.Stack()))
			err = fmt.Errorf("a fault of ThoughtGate's, whose log has the details: %v", fault)
			s.cancel(err)
		}
	}()
	reader := wire.NewReaderOf(s.inputs[side], s.mapping.Longest())
	defer reader.Close()
	var line wire.Line
	for {
		if err := reader.Next(&line); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.take(side, &line); err != nil {
			return err
		}
		if !reader.More() || s.owes(other(side)) >= together {
			s.drain(other(side))
		}
		s.heed(side)
	}
}

// together is how many bytes of lines are gathered to be written at once.
const together = 64 << 10

// owes is how many bytes a side is owed.
func (s *Session) owes(to wire.Side) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.out[to].size()
}

// heed waits while side leaves more of what it is owed unread than may wait, so that
// who makes us answer, and does not read the answers, is read no more.
func (s *Session) heed(side wire.Side) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.state.out[side].size() > mostOwed && s.outputs[side].err == nil && s.ctx.Err() == nil {
		s.changed.Wait()
	}
}
