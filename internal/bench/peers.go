package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"
)

// peer is a started server, seen from the agent: the same client for all ways.
type peer struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	next int
	line []byte
}

func startPeer(command []string, env []string) (*peer, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = env
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &peer{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}, nil
}

func (p *peer) pid() int { return p.cmd.Process.Pid }

func (p *peer) close() error {
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", p.cmd.Path, err)
	}
	return nil
}

// send writes one request. text, which needs no escapes, is put into its arguments.
func (p *peer) send(method, tool, text string) error {
	p.next++
	b := append(p.line[:0], `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, int64(p.next), 10)
	b = append(append(append(b, `,"method":"`...), method...), '"')
	if tool != "" {
		b = append(append(b, `,"params":{"name":"`...), tool...)
		b = append(b, `","arguments":{"path":"/srv/notes/`...)
		b = strconv.AppendInt(b, int64(p.next), 10)
		b = append(append(append(b, `.txt","text":"`...), text...), `"}}`...)
	}
	p.line = append(b, "}\n"...)
	_, err := p.in.Write(p.line)
	return err
}

// receive reads one answer and returns its id.
func (p *peer) receive() (int, error) {
	part, err := p.out.ReadSlice('\n')
	id, noID := strconv.Atoi(string(member(part, `"id":`)))
	if noID != nil || bytes.Contains(part[:min(len(part), 200)], []byte(`"error"`)) {
		return 0, errors.Join(err, fmt.Errorf("a call failed: %q", part[:min(len(part), 500)]))
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = p.out.ReadSlice('\n')
	}
	return id, err
}

// call is one round trip.
func (p *peer) call(method, tool, text string) error {
	if err := p.send(method, tool, text); err != nil {
		return err
	}
	_, err := p.receive()
	return err
}

// pipeline makes n calls of which flight are open at a time, and returns what each
// took from when it was sent until its answer was read.
func (p *peer) pipeline(method, tool string, n, flight int) ([]time.Duration, error) {
	took := make([]time.Duration, n)
	if flight == 1 {
		for i := range n {
			began := time.Now()
			if err := p.call(method, tool, ""); err != nil {
				return nil, err
			}
			took[i] = time.Since(began)
		}
		return took, nil
	}
	first, began := p.next+1, time.Now()
	at := make([]atomic.Int64, n) // when each was sent, since began
	room, sent := make(chan struct{}, flight), make(chan error, 1)
	go func() { // ends with the last call, or when the peer is closed
		for i := range n {
			room <- struct{}{}
			at[i].Store(int64(time.Since(began)))
			if err := p.send(method, tool, ""); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for range n {
		id, err := p.receive()
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
