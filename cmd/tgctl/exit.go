package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// Exit codes. wrap exits with the agent's own code; its codes 125, 126 and 127 mean the
// same as those of env(1).
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitNotRunning = 3 // no daemon runs
	exitCheck      = 4 // a check found errors
)

// exitError ends the program with its exit code. If err is nil, nothing is printed: the
// error was printed before.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError reports that the command line can't be understood.
type usageError struct {
	err  error
	path string // of the command whose help is useful; empty means the one that runs
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// misuse returns a usageError about the command that runs.
func misuse(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// hintError is an error with a hint what to do about it.
type hintError struct {
	err  error
	hint string
}

func (e *hintError) Error() string { return e.err.Error() }
func (e *hintError) Unwrap() error { return e.err }

// hint is a text that says what to do about an error.
type hint struct {
	err  error
	text string
}

// withHint adds the first hint that matches err.
func withHint(err error, hints ...hint) error {
	for _, h := range hints {
		if errors.Is(err, h.err) {
			return &hintError{err: err, hint: h.text}
		}
	}
	return err
}

// ambiguous returns an error for a typed name that matches several things, with the names
// that tell them apart.
func ambiguous(typed, ofWhat string, names []string) error {
	return &hintError{fmt.Errorf("%s is ambiguous: it matches %d%s", typed, len(names), ofWhat), "Name one of:\n  " + strings.Join(names, "\n  ")}
}

// exitCode returns the exit code for err. No other place maps errors to exit codes.
func exitCode(err error) int {
	var exit *exitError
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, client.ErrNotRunning):
		return exitNotRunning
	}
	return exitFailed
}

// printError prints err for a person: what happened, then what to do.
func (a *app) printError(err error) {
	var exit *exitError
	if errors.As(err, &exit) && exit.err == nil {
		return
	}
	a.printMessage("tgctl: %s", display.Lines(err.Error()))
	var usage *usageError
	var hint *hintError
	switch {
	case errors.As(err, &usage):
		a.printMessage("See `%s --help`.", usage.path)
	case errors.As(err, &hint):
		a.talk(string(display.Lines(hint.hint)))
	case errors.Is(err, client.ErrNotRunning):
		a.reportDaemonElsewhere()
	default:
		if what := sock.FixForDiskError(err); what != "" {
			a.printMessage("What to do: %s.", display.Text(what))
		}
	}
}

// reportDaemonElsewhere points to a daemon that runs at another place than expected.
func (a *app) reportDaemonElsewhere() {
	if what, hint := a.daemonElsewhere(); what != "" {
		a.printMessage("%s.", display.Text(what))
		a.talk(string(display.Lines(hint)))
	}
}
