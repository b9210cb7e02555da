package mapping

import (
	"errors"
	"io/fs"
	"os"
)

// create returns an unlinked file. macOS has no sealed memory: a holder of the descriptor
// could truncate the file, but only the keeper holds it.
func create(size int64) (*os.File, error) {
	f, err := os.CreateTemp("", "thoughtgate-session-")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Remove(f.Name()), f.Truncate(size)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func check(_ *os.File, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errors.New("it is not a regular file")
	}
	return nil
}

func punch(*os.File, int64, int64) error { return errors.ErrUnsupported }
