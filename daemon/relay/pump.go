package relay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// source is what a side's lines are read from.
type source interface {
	// lines is the reader of what comes, for the one pump.
	lines() *wire.Reader
	// progress says how far the pump has got, once it has dealt with the line that was
	// read last. s.mu is held.
	progress() []event
	// inPlace is the event that line is written to a side as it stands in this memory,
	// nil where it does not.
	inPlace(line []byte, to wire.Side) event
	// bytes returns what stands at an offset, and whether it is there.
	bytes(offset, n uint64) ([]byte, bool)
	// handledAll reports whether all was dealt with that the side has said by now. s.mu is
	// held.
	handledAll() bool
	// cancels reports whether one of the lines that the pump has not dealt with yet takes
	// the request with the key back. The pump has a line judged; s.mu is held.
	cancels(key string) bool
}

// input is the source of what comes through a descriptor, in memory that outlives the
// daemon.
type input struct {
	*mapping.Input
	session          *Session
	side             wire.Side
	fd               int
	reader           *wire.Reader
	at               uint64 // offset up to which lines were taken by the reader
	idle             bool   // it waits for more; s.mu guards it
	ahead, aheadFrom uint64 // offset up to which lines were looked at before their turn, and from which on
	failed           error  // why nothing more is to be read, where that was found then
}

func (s *Session) newInput(side wire.Side, fd int) (*input, error) {
	in, err := s.mapping.Input(mapping.Side(side), s.state.taken[side])
	if err != nil {
		return nil, err
	}
	i := &input{Input: in, session: s, side: side, fd: fd, at: s.state.taken[side]}
	i.reader = wire.NewReaderOf(i, s.mapping.Longest())
	if err := i.reader.Restore(s.state.framed[side]); err != nil {
		return nil, damaged("%v", err)
	}
	return i, nil
}

// progress implements [source].
func (in *input) progress() []event {
	events := []event{&consumed{in.side, in.at}}
	if state := in.reader.State(); !bytes.Equal(state, in.session.state.framed[in.side]) {
		events = append(events, &framed{in.side, state})
	}
	return events
}

func (in *input) lines() *wire.Reader { return in.reader }

func (in *input) handledAll() bool { return in.idle && !pipe.Ready(in.fd) }

func (in *input) bytes(offset, n uint64) ([]byte, bool) { return in.Bytes(offset, n) }

// Unread implements [wire.Window].
func (in *input) Unread() []byte { return in.Input.Unread(in.at) }

// Take implements [wire.Window].
func (in *input) Take(n int) { in.at += uint64(n) }

// Fill implements [wire.Window].
func (in *input) Fill() error {
	s := in.session
	for {
		in.wait(true)
		if s.ctx.Err() != nil { // what is still to be written of this memory stays in it
			return errEnded
		}
		if in.failed != nil {
			return in.failed
		}
		room := in.Room(in.at) // now: it gives back what is not needed
		if err := s.wake.Wait(in.fd, unix.POLLIN); err != nil {
			return err
		}
		in.wait(false) // before a byte is taken, or nobody would see that it is being dealt with
		n, err := pipe.Read(in.fd, room)
		switch {
		case errors.Is(err, pipe.ErrNothing):
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		default:
			in.Read(n)
			return nil
		}
	}
}

// wait notes whether the pump waits for more. Before it may, what was gathered is written, and
// what is still to be written of this memory has to be.
func (in *input) wait(idle bool) {
	s := in.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if idle {
		s.writeOwed(other(in.side))
	}
	in.idle = idle
	if !idle {
		return
	}
	for s.state.out[other(in.side)].refers() && s.outputs[other(in.side)].err == nil && s.ctx.Err() == nil {
		s.changed.Wait()
	}
	if in.at > s.state.taken[in.side] { // of a line that is too long, or blank
		s.commit(in.progress()...)
	}
	if s.ending.begun {
		s.changed.Broadcast()
	}
}

// Shrink implements [wire.Window]: Room gives back what is not needed.
func (in *input) Shrink() {}

// Release implements [wire.Window].
func (in *input) Release() {}

// inPlace implements [source]. What stands there without a line end of one byte
// behind it does not do, nor does a copy of what stands there, as of an agent's lines.
func (in *input) inPlace(line []byte, to wire.Side) event {
	n := uint64(len(line)) + 1
	if in.at < n {
		return nil
	}
	all, ok := in.Bytes(in.at-n, n)
	if !ok || &all[0] != &line[0] || all[n-1] != '\n' {
		return nil
	}
	return &passed{to, in.at - n, n}
}

// pump deals with the lines of one side until that ends.
func (s *Session) pump(side wire.Side) error {
	reader := s.inputs[side].lines()
	defer reader.Close()
	var line wire.Line
	for {
		err := reader.Next(&line)
		switch err {
		case nil:
			err = s.take(side, &line)
		case io.EOF:
			return nil
		}
		if err != nil {
			return err
		}
		s.makeRoom(side)
	}
}

// recoverPanic ends the session, and nothing else, where what runs in its name meets a fault
// of ours.
func (s *Session) recoverPanic() {
	if fault := recover(); fault != nil {
		s.log.Error("a session has met a fault and is ended", "panic", fault, "stack", string(debug.Stack()))
		s.cancel(fmt.Errorf("a fault of ThoughtGate's, whose log has the details: %v", fault))
	}
}

// begin runs f as a part of the session.
func (s *Session) begin(f func()) {
	s.wait.Go(func() {
		defer s.recoverPanic()
		f()
	})
}

// maxGathered is how many bytes of lines are gathered to be written at once.
const maxGathered = 64 << 10

// makeRoom writes what was gathered of the lines of side, where that is much, and waits while
// side leaves more of our answers unread than may wait: who makes us answer, and does not read
// the answers, is read no more. What the other side sends it does not count: it may have to
// write before it can read that.
func (s *Session) makeRoom(side wire.Side) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unread := func() bool {
		return s.state.out[side].replies > maxOwed && s.outputs[side].err == nil && s.ctx.Err() == nil
	}
	if s.state.out[other(side)].size() >= maxGathered || unread() {
		s.writeOwed(other(side))
	}
	for unread() {
		s.changed.Wait()
	}
}
