package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// ReadTyped reads a line that a person types. A read from a terminal cannot be interrupted, so
// when ctx ends, the reading goroutine is left to end with the program.
func (a *App) ReadTyped(ctx context.Context) (string, error) {
	type reply struct {
		line string
		err  error
	}
	replies := make(chan reply, 1)
	go func() {
		line, err := bufio.NewReader(a.In).ReadString('\n')
		replies <- reply{line, err}
	}()
	select {
	case r := <-replies:
		if errors.Is(r.err, io.EOF) {
			return "", errors.New("standard input ended before an answer was typed")
		}
		return r.line, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Confirmed returns nil if the typed answer is yes. Otherwise it prints that nothing was changed
// and returns an error.
func (a *App) Confirmed(answer string) error {
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	a.PrintMessage("Nothing was changed.")
	return &ExitError{Code: ExitFailed}
}

// NoTerminal returns an error for a command that must ask and has no terminal to ask at.
func NoTerminal(verb, hint string) error {
	return &HintError{Err: fmt.Errorf("%s needs your agreement, and there is no terminal to ask at", verb), Hint: hint}
}

// AskYes asks a question at the terminal. If the answer is not yes, it prints that nothing was
// changed and returns an error.
func (a *App) AskYes(ctx context.Context, question string) error {
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	answer, err := a.ReadTyped(ctx)
	if err != nil {
		fmt.Fprintln(a.Err)
		return err
	}
	return a.Confirmed(answer)
}

// IsTyped reports whether text, typed by a person, is name or its displayed form.
func IsTyped(name, text string) bool { return name == text || string(display.Name(name)) == text }
