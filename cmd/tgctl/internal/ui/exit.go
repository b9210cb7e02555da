package ui

import (
	"errors"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/client"
)

// Exit codes. wrap exits with the agent's own code; its codes 125, 126 and 127 mean the
// same as those of env(1).
const (
	ExitOK         = 0
	ExitFailed     = 1
	ExitUsage      = 2
	ExitNotRunning = 3 // no daemon runs
	ExitCheck      = 4 // a check found errors

	ExitOurs = 125 // of a command that exits with an agent's code: it failed itself, as in env(1)
)

// ExitError ends the program with its exit code. If err is nil, nothing is printed: the
// error was printed before.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// OwnError gives an error of a command that exits with an agent's code the code ExitOurs, unless it
// has one.
func OwnError(err error) error {
	var exit *ExitError
	var usage *UsageError
	if err == nil || errors.As(err, &exit) || errors.As(err, &usage) {
		return err
	}
	return &ExitError{Code: ExitOurs, Err: err}
}

// UsageError reports that the command line can't be understood.
type UsageError struct {
	Err  error
	Path string // of the command whose help is useful; empty means the one that runs
}

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// Misuse returns a usageError about the command that runs.
func Misuse(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

// HintError is an error with a hint what to do about it.
type HintError struct {
	Err  error
	Hint string
}

func (e *HintError) Error() string { return e.Err.Error() }
func (e *HintError) Unwrap() error { return e.Err }

// Hint is a text that says what to do about an error.
type Hint struct {
	Err  error
	Text string
}

// WithHint adds the first hint that matches err.
func WithHint(err error, hints ...Hint) error {
	for _, h := range hints {
		if errors.Is(err, h.Err) {
			return &HintError{Err: err, Hint: h.Text}
		}
	}
	return err
}

// Ambiguous returns an error for a typed name that matches several things, with the names
// that tell them apart.
func Ambiguous(typed, ofWhat string, names []string) error {
	return &HintError{fmt.Errorf("%s is ambiguous: it matches %d%s", typed, len(names), ofWhat), "Name one of:\n  " + strings.Join(names, "\n  ")}
}

// ExitCode returns the exit code for err. No other place maps errors to exit codes.
func ExitCode(err error) int {
	var exit *ExitError
	var usage *UsageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &usage):
		return ExitUsage
	case errors.Is(err, client.ErrNotRunning):
		return ExitNotRunning
	}
	return ExitFailed
}
