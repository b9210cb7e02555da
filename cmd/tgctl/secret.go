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

// secretMost is the maximum length of a secret in bytes. Further input is ignored.
const secretMost = 1024

// errInterrupted is the error of a prompt that was left with Ctrl-C.
var errInterrupted = &exitError{code: 130, err: errors.New("interrupted; nothing was changed")}

// secretTerminal is the controlling terminal, independent of standard input. Secrets are read
// only from it, since others could see a pipe, a flag or a variable.
type secretTerminal struct {
	tty  *os.File
	next []byte // read but not used yet
}

// openTerminal opens the controlling terminal of this process.
func openTerminal() (*secretTerminal, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, &hintError{err: errors.New("no terminal to read the secret from"), hint: "Run this at a terminal: a secret is read from nowhere else."}
	}
	return &secretTerminal{tty: tty}, nil
}

func (t *secretTerminal) close() {
	clear(t.next)
	t.tty.Close()
}

// control runs f on the descriptor. File.Fd would switch off deadlines for reads.
func (t *secretTerminal) control(f func(fd int) error) error {
	raw, err := t.tty.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = f(int(fd)) })
	return errors.Join(err, inner)
}

// ask prints a question and reads a line without showing it. The caller must wipe the line. ask
// always restores the terminal. It returns errInterrupted after Ctrl-C or when ctx ends.
func (t *secretTerminal) ask(ctx context.Context, question string) (line []byte, err error) {
	var before *term.State
	err = t.control(func(fd int) (err error) {
		before, err = term.MakeRaw(fd) // no echo, and Ctrl-C is read as a byte
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("switch off the terminal's echo: %w", err)
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
		_ = t.tty.SetReadDeadline(time.Unix(1, 0)) // if deadlines are unsupported, Ctrl-C still works
	})
	defer stop()
	line, err = t.line()
	if ctx.Err() != nil && err != nil {
		err = errInterrupted
	}
	return line, err
}

// line reads a line and handles its editing keys.
func (t *secretTerminal) line() ([]byte, error) {
	line := make([]byte, 0, secretMost) // never grows, so no copy of it remains elsewhere
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
				return nil, errors.New("nothing was typed; nothing was changed")
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
