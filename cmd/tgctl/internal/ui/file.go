package ui

import (
	"bufio"
	"errors"
	"io"
	"os"
)

// ToFile calls write with a new file that only its owner can read, or with standard
// output if path is empty. It removes the file on error.
func (a *App) ToFile(path string, write func(io.Writer) error) (err error) {
	if path == "" {
		out := bufio.NewWriter(a.Out)
		return errors.Join(write(out), out.Flush())
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	if err = errors.Join(write(out), out.Flush(), f.Sync(), f.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
