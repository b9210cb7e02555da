package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// secretMost is how many bytes are read of a secret; what is typed past them is
// not taken.
const secretMost = 1024

// errInterrupted is what a prompt comes to that was left with Ctrl-C.
var errInterrupted = &exitError{code: 130, err: errors.New("interrupted; nothing was changed")}

// secretTerminal is the terminal that a person sits at, whatever standard input is. A
// secret is typed there and nowhere else: a pipe, a flag and a variable are what
// others can see. Close gives it back.
type secretTerminal struct {
	tty  *os.File
	next []byte // read and not used yet
}

// openTerminal opens the terminal of this process.
func openTerminal() (*secretTerminal, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, &hintError{err: errors.New("there is no terminal to type a secret at"), hint: "Do it at a terminal: a secret is read from nowhere else."}
	}
	return &secretTerminal{tty: tty}, nil
}

func (t *secretTerminal) close() {
	clear(t.next)
	t.tty.Close()
}

// control runs f on the descriptor; Fd would make reads of it deaf to deadlines.
func (t *secretTerminal) control(f func(fd int) error) error {
	raw, err := t.tty.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = f(int(fd)) })
	return errors.Join(err, inner)
}

// ask prints a question and reads a line that is not shown. The caller wipes it.
// The terminal is as it was when ask returns, however it does: with Ctrl-C, which
// is errInterrupted, when ctx ends, and when the terminal goes away.
func (t *secretTerminal) ask(ctx context.Context, question string) (line []byte, err error) {
	var before *term.State
	err = t.control(func(fd int) (err error) {
		before, err = term.MakeRaw(fd) // Ctrl-C comes as a byte then, and nothing is shown
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("hide what is typed: %w", err)
	}
	defer func() {
		_, end := io.WriteString(t.tty, "\r\n")
		err = errors.Join(err, end, t.control(func(fd int) error { return term.Restore(fd, before) }))
		if err != nil {
			clear(line)
			line = nil
		}
	}()
	if _, err := io.WriteString(t.tty, question+" "); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = t.tty.SetReadDeadline(time.Unix(1, 0)) // where there are none, Ctrl-C is still a byte
	})
	defer stop()
	line, err = t.line()
	if ctx.Err() != nil && err != nil {
		err = errInterrupted
	}
	return line, err
}

// line reads up to the end of a line, as a person types it.
func (t *secretTerminal) line() ([]byte, error) {
	line := make([]byte, 0, secretMost) // it never grows, so that nothing of it is left elsewhere
	for {
		if len(t.next) == 0 {
			buf := make([]byte, 256)
			n, err := t.tty.Read(buf)
			if err != nil {
				clear(line)
				return nil, fmt.Errorf("read from the terminal: %w", err)
			}
			t.next = buf[:n]
		}
		b := t.next[0]
		t.next[0] = 0
		t.next = t.next[1:]
		switch b {
		case '\r', '\n':
			if len(line) == 0 {
				return nil, errors.New("nothing was typed, and nothing was changed")
			}
			return line, nil
		case 3, 4: // Ctrl-C, Ctrl-D
			clear(line)
			return nil, errInterrupted
		case 8, 127: // backspace
			_, n := utf8.DecodeLastRune(line)
			clear(line[len(line)-n:])
			line = line[:len(line)-n]
		case 21: // Ctrl-U
			clear(line)
			line = line[:0]
		default:
			if b >= ' ' && len(line) < secretMost {
				line = append(line, b)
			}
		}
	}
}
