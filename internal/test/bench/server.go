package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
)

// serve answers every request at once, as an MCP server without work. A tool named size-N
// returns N bytes of text.
func serve(in io.Reader, out io.Writer) {
	r := bufio.NewReaderSize(in, 1<<20)
	var line []byte
	var a answerer
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil {
			return
		}
		if answer := a.answer(line); answer != nil {
			if _, err := out.Write(answer); err != nil {
				return
			}
		}
		line = line[:0]
	}
}

// answerer answers messages, and keeps its memory between answers.
type answerer struct{ line, text []byte }

// answer returns the line that answers a message, or nil if that is no request. It is valid until the next call.
func (a *answerer) answer(line []byte) []byte {
	id := member(line, `"id":`)
	if id == nil {
		return nil
	}
	a.line = append(a.line[:0], `{"jsonrpc":"2.0","id":`...)
	a.line = append(append(a.line, id...), `,"result":{"content":[{"type":"text","text":"`...)
	if n, err := strconv.Atoi(string(member(line, `"name":"size-`))); err == nil {
		if len(a.text) != n { // created once, so that only the ways differ
			a.text = bytes.Repeat([]byte("x"), n)
		}
		a.line = append(a.line, a.text...)
	}
	a.line = append(a.line, "\"}]}}\n"...)
	return a.line
}

// member returns what follows key, up to the next comma, quote or brace.
func member(line []byte, key string) []byte {
	line = line[:min(len(line), 1<<10)] // it is at the beginning
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

// copyBetween starts command and copies bytes both ways: the cost of any program in between
// that does not look at the data. Each direction has a thread with plain read and write, which
// is as fast as in C: a slower floor would flatter what is compared with it.
func copyBetween(command []string) int {
	const failed = 125
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	serverReads, in, err := os.Pipe()
	if err != nil {
		return failed
	}
	out, serverWrites, err := os.Pipe()
	if err != nil {
		return failed
	}
	cmd.Stdin, cmd.Stdout = serverReads, serverWrites
	if cmd.Start() != nil {
		return failed
	}
	serverReads.Close()
	serverWrites.Close()
	go func() { // ends with the agent's end of the pipe, or with the process
		shovel(int(in.Fd()), syscall.Stdin)
		in.Close()
	}()
	shovel(syscall.Stdout, int(out.Fd()))
	if cmd.Wait() != nil {
		return 1
	}
	return 0
}

// shovel copies until one of the two ends is closed. Both must be blocking descriptors.
func shovel(to, from int) {
	runtime.LockOSThread()
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(from, buf)
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return
		}
		for rest := buf[:n]; len(rest) > 0; {
			m, err := syscall.Write(to, rest)
			if err != nil && err != syscall.EINTR {
				return
			}
			rest = rest[max(0, m):]
		}
	}
}
