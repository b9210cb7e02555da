package ui

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// ToFile calls write with a new file that only its owner can read, or with standard
// output if path is empty. It removes the file on error.
func (a *App) ToFile(path string, write func(io.Writer) error) (err error) {
	if path == "" {
		out := bufio.NewWriter(a.Out)
		return errors.Join(write(out), out.Flush())
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already: name another file, or remove it first", display.Text(path))
	}
	if err != nil {
		return FileError("write the file", err)
	}
	out := bufio.NewWriter(f)
	if err = errors.Join(write(out), out.Flush(), f.Sync(), f.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// FileError returns the error of a file that a person has named: with what was being done, and what to do.
func FileError(doing string, err error) error {
	hint := "Name another file or folder."
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = "Check the path: it, or a folder in it, does not exist."
	case errors.Is(err, fs.ErrPermission):
		hint = "Name another place, or give yourself access to this one."
	}
	return &HintError{Err: fmt.Errorf("%s: %w", doing, err), Hint: hint}
}
