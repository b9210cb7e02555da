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

// serverRole is the first argument of the test binary in the role of the server behind tg-shim;
// the second is the socket on which the test listens.
const serverRole = "rig-server"

// copierRole is the role of a program that starts another and copies the data of both sides: an
// agent that does nothing else, or a gate that forwards everything.
const copierRole = "rig-copier"

// Copier returns the start of the command line of a program that starts the rest of the command
// line and copies its input and output. It ends when that program does.
func Copier(tb testing.TB) []string { return copier(tb, os.DevNull) }

// copier is Copier that also writes to the file passed how many bytes of its input it has
// forwarded.
func copier(tb testing.TB, passed string) []string {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return []string{self, copierRole, passed}
}

// copyAll is the main function of the copier. It returns the exit code.
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
			_, _ = count.WriteAt(binary.LittleEndian.AppendUint64(nil, sum), 0) // on an error the count is only too low
		}
	}()
	_, _ = io.Copy(os.Stdout, out)
	_ = cmd.Wait() // the status is in ProcessState
	return cmd.ProcessState.ExitCode()
}

// Messages between the test and the server: a byte for the kind, the length, the content.
const (
	tellPID    = 'p' // server: its process id, in decimal
	tellInput  = 'i' // server: received on standard input
	tellEnd    = 'z' // server: standard input has ended
	tellOutput = 'o' // test: write this to standard output
	tellError  = 'e' // test: write this to standard error
	tellClose  = 'c' // test: close standard output
	tellExit   = 'x' // test: exit with this code
)

// exitAlone is the server's exit code if the test has ended.
const exitAlone = 3

// relay is the main function of the server. It returns the exit code.
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
			_, _ = os.Stdout.Write(content) // the test notices if tg-shim has ended
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
