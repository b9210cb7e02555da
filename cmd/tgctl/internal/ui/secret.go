package ui

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
var errInterrupted = &ExitError{Code: 130, Err: errors.New("interrupted; nothing was changed")}

// SecretTerminal is the controlling terminal, independent of standard input. Secrets are read
// only from it, since others could see a pipe, a flag or a variable.
type SecretTerminal struct {
	Tty  *os.File
	next []byte // read but not used yet
}

// OpenTerminal opens the controlling terminal of this process.
func OpenTerminal() (*SecretTerminal, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, &HintError{Err: errors.New("no terminal to read the secret from"), Hint: "Run this at a terminal: a secret is read from nowhere else."}
	}
	return &SecretTerminal{Tty: tty}, nil
}

// Close forgets what was typed ahead and closes the terminal.
func (t *SecretTerminal) Close() {
	clear(t.next)
	t.Tty.Close()
}

// control runs f on the descriptor. File.Fd would switch off deadlines for reads.
func (t *SecretTerminal) control(f func(fd int) error) error {
	raw, err := t.Tty.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = f(int(fd)) })
	return errors.Join(err, inner)
}

// Ask prints a question and reads a line without showing it. The caller must wipe the line. Ask
// always restores the terminal. It returns errInterrupted after Ctrl-C or when ctx ends.
func (t *SecretTerminal) Ask(ctx context.Context, question string) (line []byte, err error) {
	var before *term.State
	err = t.control(func(fd int) (err error) {
		before, err = term.MakeRaw(fd) // no echo, and Ctrl-C is read as a byte
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("switch off the terminal's echo: %w", err)
	}
	defer func() {
		_, end := io.WriteString(t.Tty, "\r\n")
		err = errors.Join(err, end, t.control(func(fd int) error { return term.Restore(fd, before) }))
		if err != nil {
			clear(line)
			line = nil
		}
	}()
	if _, err := io.WriteString(t.Tty, question+" "); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = t.Tty.SetReadDeadline(time.Unix(1, 0)) // if deadlines are unsupported, Ctrl-C still works
	})
	defer stop()
	line, err = t.line()
	if ctx.Err() != nil && err != nil {
		err = errInterrupted
	}
	return line, err
}

// line reads a line and handles its editing keys.
func (t *SecretTerminal) line() ([]byte, error) {
	line := make([]byte, 0, secretMost) // never grows, so no copy of it remains elsewhere
	for {
		if len(t.next) == 0 {
			buf := make([]byte, 256)
			n, err := t.Tty.Read(buf)
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
