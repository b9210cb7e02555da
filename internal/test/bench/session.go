package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// session is a started server, seen from the agent: the client is the same for all ways.
type session struct {
	cmd  *exec.Cmd // nil for a server behind an address that the agent speaks to itself
	in   io.WriteCloser
	out  *bufio.Reader
	next int
	line []byte

	sending sync.WaitGroup // sends that continue after a failed call
	folder  string         // of a peer's session; empty otherwise
	life    *time.Timer    // kills a peer's session that does not end by itself; nil otherwise
}

const (
	// longestPeer is the timeout of a peer for the calls of a turn, so that one that hangs does
	// not hold up the run.
	longestPeer = 10 * time.Minute
	// peerGrace is how long a peer may take to end after its agent has left.
	peerGrace = 5 * time.Second
	// peerStderr is the file in a peer's folder with its standard error.
	peerStderr = "stderr"
)

// start starts a session. A peer's session has a folder of its own, which is its home and
// current directory.
func (w way) start() (*session, error) {
	s, err := w.begin()
	if err == nil && w.greets {
		if err = s.greet(); err != nil {
			err = errors.Join(err, s.close())
		}
	}
	return s, err
}

func (w way) begin() (*session, error) {
	if w.address != "" {
		c := newCarrier(w.address)
		return &session{in: c, out: bufio.NewReaderSize(c, 1<<20)}, nil
	}
	s := &session{cmd: exec.Command(w.command[0], w.command[1:]...)}
	s.cmd.Env, s.cmd.Stderr = w.env, os.Stderr
	if w.isPeer() {
		stderr, err := s.moveIn(w)
		if err != nil {
			return nil, err
		}
		defer stderr.Close() // the process has a copy by then
	}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.in, s.out = in, bufio.NewReaderSize(out, 1<<20)
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if w.isPeer() {
		s.life = time.AfterFunc(longestPeer, func() { _ = s.cmd.Process.Kill() }) // it may have ended
	}
	return s, nil
}

// moveIn creates the folder of a peer's session and the file for its standard error.
func (s *session) moveIn(w way) (stderr *os.File, err error) {
	if s.folder, err = os.MkdirTemp(w.folders, w.name); err != nil {
		return nil, err
	}
	if stderr, err = os.Create(filepath.Join(s.folder, peerStderr)); err != nil {
		return nil, err
	}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stderr = s.folder, append(slices.Clone(w.env), "HOME="+s.folder), stderr
	return stderr, nil
}

func (s *session) pid() int { return s.cmd.Process.Pid }

// close ends the session as an agent does. It ignores how a peer ends.
func (s *session) close() error {
	s.in.Close()
	s.sending.Wait()
	if s.cmd == nil {
		return nil
	}
	if s.life == nil {
		if err := s.cmd.Wait(); err != nil {
			return fmt.Errorf("%s: %w", s.cmd.Path, err)
		}
		return nil
	}
	s.life.Reset(peerGrace)
	_ = s.cmd.Wait()
	s.life.Stop()
	return os.RemoveAll(s.folder)
}

// explain adds the last line of a peer's standard error to an error.
func (s *session) explain(err error) error {
	if s.folder == "" {
		return err
	}
	said := strings.TrimSpace(readFile(filepath.Join(s.folder, peerStderr)))
	return fmt.Errorf("%w; on stderr it said last: %.200s", err, said[strings.LastIndexByte(said, '\n')+1:])
}

// send writes one request. text is put into its arguments and must need no escapes.
func (s *session) send(method, tool, text string) error {
	s.next++
	b := append(s.line[:0], `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, int64(s.next), 10)
	b = append(append(append(b, `,"method":"`...), method...), '"')
	if tool != "" {
		b = append(append(b, `,"params":{"name":"`...), tool...)
		b = append(b, `","arguments":{"path":"/srv/notes/`...)
		b = strconv.AppendInt(b, int64(s.next), 10)
		b = append(append(append(b, `.txt","text":"`...), text...), `"}}`...)
	}
	s.line = append(b, "}\n"...)
	if _, err := s.in.Write(s.line); err != nil {
		return s.explain(err)
	}
	return nil
}

// receive reads one answer and returns its id.
func (s *session) receive() (int, error) {
	part, err := s.out.ReadSlice('\n')
	id, noID := strconv.Atoi(string(member(part, `"id":`)))
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return 0, s.explain(fmt.Errorf("read an answer: %w after %q", err, part[:min(len(part), 500)]))
	}
	if noID != nil || bytes.Contains(part[:min(len(part), 200)], []byte(`"error"`)) {
		return 0, s.explain(fmt.Errorf("a call failed: %q", part[:min(len(part), 500)]))
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = s.out.ReadSlice('\n')
	}
	return id, err
}

// call makes one round trip.
func (s *session) call(method, tool, text string) error {
	if err := s.send(method, tool, text); err != nil {
		return err
	}
	_, err := s.receive()
	return err
}

// pipeline makes n calls, of which flight are pending at a time, and returns the time of each
// from request to answer.
func (s *session) pipeline(method, tool string, n, flight int) ([]time.Duration, error) {
	if s.life != nil {
		s.life.Reset(longestPeer)
	}
	took := make([]time.Duration, n)
	if flight == 1 {
		for i := range n {
			began := time.Now()
			if err := s.call(method, tool, ""); err != nil {
				return nil, err
			}
			took[i] = time.Since(began)
		}
		return took, nil
	}
	first, began := s.next+1, time.Now()
	at := make([]atomic.Int64, n) // when each was sent, since began
	room, sent, gone := make(chan struct{}, flight), make(chan error, 1), make(chan struct{})
	defer close(gone)
	s.sending.Go(func() {
		for i := range n {
			select {
			case room <- struct{}{}:
			case <-gone:
				return
			}
			at[i].Store(int64(time.Since(began)))
			if err := s.send(method, tool, ""); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	})
	for range n {
		id, err := s.receive()
		if err != nil {
			return nil, err
		}
		if id < first || id >= first+n {
			return nil, fmt.Errorf("an answer to %d, which was not asked", id)
		}
		took[id-first] = time.Since(began) - time.Duration(at[id-first].Load())
		<-room
	}
	return took, <-sent
}
