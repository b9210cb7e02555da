package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
)

// serve answers every request at once, as an MCP server with nothing to do. A
// tool named size-N answers with N bytes of text.
func serve(in io.Reader, out io.Writer) {
	r := bufio.NewReaderSize(in, 1<<20)
	var line, answer []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return
		}
		if id := member(line, `"id":`); id != nil {
			answer = append(answer[:0], `{"jsonrpc":"2.0","id":`...)
			answer = append(append(answer, id...), `,"result":{"content":[{"type":"text","text":"`...)
			if n, err := strconv.Atoi(string(bytes.Trim(member(line, `"name":"size-`), `"`))); err == nil {
				answer = append(answer, bytes.Repeat([]byte("x"), n)...)
			}
			answer = append(answer, "\"}]}}\n"...)
			if _, err := out.Write(answer); err != nil {
				return
			}
		}
		line = line[:0]
	}
}

// member returns what stands behind key up to the next comma or quote.
func member(line []byte, key string) []byte {
	i := bytes.Index(line, []byte(key))
	if i < 0 {
		return nil
	}
	rest := line[i+len(key):]
	if end := bytes.IndexAny(rest, `,"}`); end >= 0 {
		return rest[:end]
	}
	return nil
}

// copyBetween starts command and copies bytes: what any program in between
// costs that looks at nothing.
func copyBetween(command []string) int {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return 125
	}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return 125
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		shovel(in, os.Stdin)
		in.Close()
	})
	shovel(os.Stdout, out)
	if cmd.Wait() != nil {
		return 1
	}
	return 0
}

func shovel(w io.Writer, r io.Reader) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// peer is a started server, seen from the agent.
type peer struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	next int
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

func (p *peer) close() error {
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", p.cmd.Path, err)
	}
	return nil
}

// send writes one request. text is put into its arguments.
func (p *peer) send(method, tool, text string) error {
	p.next++
	_, err := fmt.Fprintf(p.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"name":%q,"arguments":{"path":"/srv/notes/%d.txt","text":%q}}}`+"\n",
		p.next, method, tool, p.next, text)
	return err
}

// receive reads one line and returns its length.
func (p *peer) receive() (int, error) {
	n := 0
	for {
		part, err := p.out.ReadSlice('\n')
		n += len(part)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == nil && bytes.Contains(part[:min(len(part), 200)], []byte(`"error"`)) {
			return n, fmt.Errorf("a call failed: %s", part)
		}
		return n, err
	}
}

// call is one round trip.
func (p *peer) call(method, tool string) error {
	if err := p.send(method, tool, ""); err != nil {
		return err
	}
	_, err := p.receive()
	return err
}
