package rig

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// serverRole is the first argument of the test binary when it is the server
// that a shim wraps; the second is the socket on which the test listens.
const serverRole = "rig-server"

// copierRole is that of a program that starts another and copies what both
// sides say: an agent without a mind of its own, or a shim that guards nothing.
const copierRole = "rig-copier"

// Copier is the beginning of the command line of a program that starts the rest
// of the command line and copies its input and output. It ends when that does.
func Copier(tb testing.TB) []string { return copier(tb, os.DevNull) }

// copier is Copier; it keeps in the file passed how many bytes of its input it
// has written on.
func copier(tb testing.TB, passed string) []string {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return []string{self, copierRole, passed}
}

// copyAll is the copier. It returns its exit status.
func copyAll(passed string, command []string) int {
	count, err := os.OpenFile(passed, os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the copier of a test:", err)
		return exitAlone
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return exitAlone
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return exitAlone
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "the copier of a test:", err)
		return exitAlone
	}
	go func() { // ends with standard input, or the process
		defer in.Close()
		buf, sum := make([]byte, 4<<10), uint64(0)
		for {
			n, err := os.Stdin.Read(buf)
			if err != nil {
				return
			}
			if _, err := in.Write(buf[:n]); err != nil {
				return
			}
			sum += uint64(n)
			_, _ = count.WriteAt(binary.LittleEndian.AppendUint64(nil, sum), 0) // one that is too small shows less, nothing wrong
		}
	}()
	_, _ = io.Copy(os.Stdout, out)
	_ = cmd.Wait() // the status is in ProcessState
	return cmd.ProcessState.ExitCode()
}

// What the test and the server say to each other: a byte for what it is, the
// length, the content.
const (
	tellPID    = 'p' // server: my process id, in decimal
	tellInput  = 'i' // server: what came on standard input
	tellEnd    = 'z' // server: standard input has ended
	tellOutput = 'o' // test: write this to standard output
	tellError  = 'e' // test: write this to standard error
	tellClose  = 'c' // test: close standard output
	tellExit   = 'x' // test: exit with this status
)

// exitAlone is the server's status when the test has gone.
const exitAlone = 3

// relay is the server. It returns its exit status.
func relay(socket string) int {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the server of a test:", err)
		return exitAlone
	}
	var mu sync.Mutex // one message at a time
	say := func(kind byte, content []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return writeFrame(conn, kind, content)
	}
	if say(tellPID, fmt.Append(nil, os.Getpid())) != nil {
		return exitAlone
	}
	go func() { // ends with standard input, or the process
		buf := make([]byte, 64<<10)
		for {
			n, err := os.Stdin.Read(buf)
			if n > 0 && say(tellInput, buf[:n]) != nil {
				return
			}
			if err != nil {
				_ = say(tellEnd, nil)
				return
			}
		}
	}()
	in := bufio.NewReaderSize(conn, 64<<10)
	for {
		kind, content, err := readFrame(in)
		if err != nil {
			return exitAlone
		}
		switch kind {
		case tellOutput:
			_, _ = os.Stdout.Write(content) // a shim that has gone shows by what the test gets
		case tellError:
			_, _ = os.Stderr.Write(content)
		case tellClose:
			_ = os.Stdout.Close()
		case tellExit:
			return int(content[0])
		}
	}
}

func writeFrame(w io.Writer, kind byte, content []byte) error {
	head := binary.AppendUvarint([]byte{kind}, uint64(len(content)))
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

func readFrame(r *bufio.Reader) (kind byte, content []byte, err error) {
	if kind, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, nil, err
	}
	content = make([]byte, n)
	_, err = io.ReadFull(r, content)
	return kind, content, err
}
