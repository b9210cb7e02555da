// Package ui is the input and output of tgctl: what a command reads and prints, in which form, and
// with which exit code it ends. It knows nothing of what the commands do.
package ui

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/term"
)

// Release is the version of this program. The program sets it before anything else.
var Release = "dev"

// Version names this program with its version, and with what it was built by and for.
func Version() string {
	return fmt.Sprintf("tgctl %s (%s, %s/%s)", Release, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// App holds the streams of a command and what it prints by.
type App struct {
	In  io.Reader
	Out io.Writer // data
	Err io.Writer // messages to a person

	InTerminal, OutTerminal, ErrTerminal bool

	Columns    int // width of Out if it is a terminal; 0 if unknown
	ErrColumns int // width of Err if it is a terminal; 0 if unknown

	Getenv func(string) string
	Now    func() time.Time

	AsJSON bool // --json

	interrupts chan os.Signal // nil before UntilInterrupted
}

// Holder is an App, or a type that embeds one.
type Holder interface{ app() *App }

func (a *App) app() *App { return a }

// New returns the App of this process.
func New() *App {
	a := &App{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Getenv:      os.Getenv,
		Now:         time.Now,
	}
	if a.OutTerminal {
		a.Columns, _, _ = term.GetSize(int(os.Stdout.Fd()))
	}
	if a.ErrTerminal {
		a.ErrColumns, _, _ = term.GetSize(int(os.Stderr.Fd()))
	}
	return a
}

// Width returns how many columns a table may take: COLUMNS, or the width of the terminal.
// 0 means no limit: output to a file or a pipe is not cut.
func (a *App) Width() int {
	if n, err := strconv.Atoi(a.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	switch {
	case !a.OutTerminal:
		return 0
	case a.Columns > 0:
		return a.Columns
	}
	return 80
}

// Surface returns the surface that answers given through this program are recorded with.
func (a *App) Surface() string {
	if a.InTerminal && a.ErrTerminal {
		return "terminal"
	}
	return "script"
}
