package main

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/child"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// remoteWindow is how many bytes of lines may be on their way to a shared
	// server, about what two pipes hold; a line that begins within it may be longer.
	remoteWindow = 1 << 20
	// tookEvery is after how many bytes the daemon is told that lines were taken
	// over. It keeps them until then, should the stream tear.
	tookEvery = remoteWindow / 8
)

// remote is the way to a server that the daemon shares. What is written to it goes
// up the stream, what comes down is read from it, a line at a time. Where the
// stream tears it waits for the next one, as a pipe to a busy server would.
//
// One goroutine writes, and one reads.
type remote struct {
	link    *link
	env     [][]byte
	settled func(grace child.Grace) // waits until the server has answered; set before Stop
	done    chan struct{}           // closed when the server serves us no more

	partial []byte // of a line that is being written; the writer's
	rest    []byte // of a line that is being read; the reader's

	mu      sync.Mutex // guards what follows; taken after the link's
	changed sync.Cond
	away    bool // there is no stream
	gone    *pb.Gone
	over    bool // done is closed

	seq       uint64   // of the last line that went up
	kept      [][]byte // lines that went up and that nobody confirmed, oldest first
	keptBytes int
	pending   []byte // the line that waits to go up
	skip      bool   // it need not any more

	lines  [][]byte // came down and were not read, oldest first
	came   uint64   // seq of the last line that came down
	idle   bool     // the reader waits
	untold int      // bytes that were read since the daemon was told
}

// share opens the way to the server that the daemon shares. It is called before
// the link runs.
func (l *link) share(env []string) *remote {
	r := &remote{link: l, done: make(chan struct{}), settled: func(child.Grace) {}}
	r.changed.L = &r.mu
	for _, entry := range env {
		r.env = append(r.env, []byte(entry))
	}
	l.shared = r
	l.send.Lock()
	defer l.send.Unlock()
	_ = l.transmit(l.stream, r.open(nil)) // when it fails, the next stream opens it
	return r
}

func (r *remote) open(initialize []byte) *pb.Up {
	return &pb.Up{Msg: &pb.Up_Open{Open: &pb.Open{Env: r.env, Initialize: initialize, Took: r.took()}}}
}

// took is the last line that was taken over.
func (r *remote) took() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.came - uint64(len(r.lines))
}

// Write takes in lines, or parts of lines.
func (r *remote) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		r.partial = append(r.partial, line...)
		if b = rest; !whole {
			break
		}
		line, r.partial = r.partial, nil
		if err := r.writeLine(line); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// writeLine sends a line, which it keeps until the daemon has it. It waits while
// too many are on their way, and while there is no stream.
func (r *remote) writeLine(line []byte) error {
	for {
		r.mu.Lock()
		r.pending = line
		for !r.over && !r.skip && (r.away || r.keptBytes >= remoteWindow) {
			r.changed.Wait()
		}
		over, skip := r.over, r.skip
		if over || skip {
			r.pending, r.skip = nil, false
		}
		r.mu.Unlock()
		switch {
		case over:
			return errServerGone
		case skip || r.sendLine(line):
			return nil
		}
	}
}

// sendLine sends the line that is pending. It returns false when there is no
// stream after all, or the line is not pending any more.
func (r *remote) sendLine(line []byte) bool {
	r.link.send.Lock()
	defer r.link.send.Unlock()
	r.link.mu.Lock()
	stream := r.link.stream
	r.link.mu.Unlock()
	r.mu.Lock()
	if stream == nil || r.skip {
		r.mu.Unlock()
		return false
	}
	r.pending = nil
	r.keep(line)
	up := r.write(r.seq, line)
	r.mu.Unlock()
	_ = r.link.transmit(stream, up) // when it fails, the next stream gets it
	return true
}

// keep numbers a line. r.mu is held.
func (r *remote) keep(line []byte) {
	r.seq++
	r.kept = append(r.kept, line)
	r.keptBytes += len(line)
}

func (r *remote) write(seq uint64, line []byte) *pb.Up {
	return &pb.Up{Msg: &pb.Up_Write{Write: &pb.Write{Seq: seq, Line: line}}}
}

// wrote is the daemon's word that it has the lines up to seq.
func (r *remote) wrote(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.kept) > 0 && r.seq-uint64(len(r.kept)) < seq {
		r.keptBytes -= len(r.kept[0])
		r.kept[0] = nil
		r.kept = r.kept[1:]
	}
	r.changed.Broadcast()
}

// read takes a line that came down.
func (r *remote) read(seq uint64, line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq != r.came+1 || r.over {
		return
	}
	r.came = seq
	r.lines = append(r.lines, line)
	r.changed.Broadcast()
}

// Read gives the next line, with its end, or a part of it.
func (r *remote) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		line, took, err := r.nextLine()
		if took > 0 {
			r.link.tell(&pb.Up{Msg: &pb.Up_Took{Took: &pb.Took{Seq: took}}})
		}
		if err != nil {
			return 0, err
		}
		r.rest = append(line, '\n')
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// nextLine waits for a line, and says what the daemon is to be told of, 0 for
// nothing. Lines that came before the end are read still.
func (r *remote) nextLine() (line []byte, took uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = true
	r.changed.Broadcast()
	for len(r.lines) == 0 && !r.over {
		r.changed.Wait()
	}
	r.idle = false
	if len(r.lines) == 0 {
		return nil, 0, io.EOF
	}
	line = r.lines[0]
	r.lines[0] = nil
	r.lines = r.lines[1:]
	if r.untold += len(line); r.untold >= tookEvery {
		r.untold, took = 0, r.came-uint64(len(r.lines))
	}
	return line, took, nil
}

// depart notes that there is no stream.
func (r *remote) depart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = true
}

// readOut waits until the lines that had come have been read.
func (r *remote) readOut() {
	waitWhile(&r.changed, finish, func() bool { return !r.over && (len(r.lines) > 0 || !r.idle) })
}

// end is the end: of the server with what the daemon says of it, ours with nil.
func (r *remote) end(gone *pb.Gone) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.over, r.gone = true, gone
	close(r.done)
	r.changed.Broadcast()
}

// Stop leaves the server, once it has answered what it was asked.
func (r *remote) Stop(ctx context.Context, grace child.Grace) {
	answered := make(chan struct{})
	go func() { // ends with the grace
		defer close(answered)
		r.settled(grace)
	}()
	select {
	case <-answered:
	case <-r.done:
	case <-ctx.Done():
	}
	r.end(nil)
}

// sift gives up the line that waits to be written, if keep does not want it.
func (r *remote) sift(keep func(line []byte) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending != nil && !keep(r.pending) {
		r.skip = true
	}
}

// begin begins anew with a server that knows nothing of us; the lines in first are
// written before all others.
func (r *remote) begin(first [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq, r.kept, r.keptBytes = 0, nil, 0
	for _, line := range first {
		r.keep(line)
	}
	r.lines, r.came, r.untold = nil, 0, 0
}

// resume sends on a new stream what the daemon does not have. The link's lock on
// sending is held.
func (r *remote) resume(wrote uint64) []*pb.Up {
	r.wrote(wrote)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = false
	r.changed.Broadcast()
	var ups []*pb.Up
	for i, line := range r.kept {
		ups = append(ups, r.write(r.seq-uint64(len(r.kept))+uint64(i)+1, line))
	}
	return ups
}
