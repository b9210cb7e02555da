package relay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// source provides the lines of a side.
type source interface {
	// lines returns the reader of the lines, for the one pump.
	lines() *wire.Reader
	// progress appends events that record how far the pump has got, when it has handled the
	// line that was read last. s.mu must be held.
	progress(events []event) []event
	// inPlace returns the event that line is written to a side directly from this memory, or
	// nil if line is not in it.
	inPlace(line []byte, to wire.Side) event
	// bytes returns n bytes at an offset, and whether they are available.
	bytes(offset, n uint64) ([]byte, bool)
	// handledAll reports whether everything that the side has written so far has been handled.
	// s.mu must be held.
	handledAll() bool
	// cancels reports whether a line that the pump has not handled yet cancels the request
	// with the key. It may be called only while the pump waits for a verdict. s.mu must be
	// held.
	cancels(key string) bool
}

// input is the source that reads from a descriptor, into memory that outlives the daemon.
type input struct {
	*mapping.Input
	session          *Session
	side             wire.Side
	fd               int
	readable         *pipe.Readable
	reader           *wire.Reader
	at               uint64 // offset up to which the reader has taken lines
	idle             bool   // the pump waits for more; s.mu guards it
	ahead, aheadFrom uint64 // lines between these offsets were checked ahead of their turn
	failed           error  // read error or end found while looking ahead
}

func (s *Session) newInput(side wire.Side, fd int) (*input, error) {
	in, err := s.mapping.Input(mapping.Side(side), s.state.taken[side])
	if err != nil {
		return nil, err
	}
	i := &input{Input: in, session: s, side: side, fd: fd, at: s.state.taken[side]}
	i.reader = wire.NewReaderOf(i, s.mapping.Longest())
	if err := i.reader.Restore(s.state.framed[side]); err != nil {
		return nil, corruptError("%v", err)
	}
	i.readable, err = pipe.NewReadable(fd, s.wake)
	return i, err
}

// progress implements [source].
func (in *input) progress(events []event) []event {
	events = append(events, &consumed{in.side, in.at})
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
		if s.ctx.Err() != nil { // pending output stays in this memory
			return errEnded
		}
		if in.failed != nil {
			return in.failed
		}
		room := in.Room(in.at) // only now, because Room releases what is not needed
		if err := in.readable.Wait(); err != nil {
			return err
		}
		in.wait(false) // before a byte is taken, so that handledAll never misses it
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

// wait records whether the pump is idle. Before the pump may be idle, wait writes gathered
// lines, and waits until no pending output refers to this memory.
func (in *input) wait(idle bool) {
	s := in.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if idle {
		s.writePendingOutput(other(in.side))
	}
	in.idle = idle
	if !idle {
		return
	}
	for s.state.out[other(in.side)].refers() && s.outputs[other(in.side)].err == nil && s.ctx.Err() == nil {
		s.wrote[other(in.side)].Wait()
	}
	if in.at > s.state.taken[in.side] { // of a line that is too long, or blank
		s.commit(in.progress(nil)...)
	}
	s.noteChange()
}

// Shrink implements [wire.Window]. It does nothing, because Room releases what is not needed.
func (in *input) Shrink() {}

// Release implements [wire.Window].
func (in *input) Release() {}

// inPlace implements [source]. It returns nil if the line end is not a single byte, or if line
// is a copy, as an agent's lines are.
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

// pump handles the lines of one side until the side ends.
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

// recoverPanic ends the session, and nothing else, if one of its goroutines panics.
func (s *Session) recoverPanic() {
	if fault := recover(); fault != nil {
		s.log.Error("panic in a session, which is ended", "panic", fault, "stack", string(debug.Stack()))
		s.cancel(fmt.Errorf("internal error of ThoughtGate; see its log for details: %v", fault))
	}
}

// startGoroutine runs f in a goroutine of the session.
func (s *Session) startGoroutine(f func()) {
	s.wait.Go(func() {
		defer s.recoverPanic()
		f()
	})
}

// maxGathered is how many bytes of lines are gathered for one write.
const maxGathered = 64 << 10

// makeRoom writes the gathered lines of side if there are many. It blocks while side has too
// many of our replies unread: a peer that makes us reply and does not read the replies is not
// read either. Lines from the other side do not count: side may have to write before it can
// read those.
func (s *Session) makeRoom(side wire.Side) {
	s.mu.Lock()
	defer s.mu.Unlock()
	unread := func() bool {
		return s.state.out[side].replies > maxPendingOutput && s.outputs[side].err == nil && s.ctx.Err() == nil
	}
	if s.state.out[other(side)].size() >= maxGathered || unread() {
		s.writePendingOutput(other(side))
	}
	for unread() {
		s.wrote[side].Wait()
	}
}
