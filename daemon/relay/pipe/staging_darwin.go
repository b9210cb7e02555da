package pipe

import (
	"errors"
	"os"
)

// Staging is not available: macOS has no splice.
type Staging struct{ most int }

// NewStaging returns an error that wraps [errors.ErrUnsupported].
func NewStaging() (*Staging, error) { return nil, errors.ErrUnsupported }

// TakeStaging closes f and returns an error that wraps [errors.ErrUnsupported].
func TakeStaging(f *os.File) (*Staging, error) {
	return nil, errors.Join(errors.ErrUnsupported, f.Close())
}

// File returns nil.
func (s *Staging) File() *os.File { return nil }

// Close does nothing.
func (s *Staging) Close() error { return nil }

func (s *Staging) left() (int, error)       { return 0, errors.ErrUnsupported }
func (s *Staging) take(int) ([]byte, error) { return nil, errors.ErrUnsupported }
func (s *Staging) fill([][]byte) error      { return errors.ErrUnsupported }
func (s *Staging) moveTo(int, *Waker) error { return errors.ErrUnsupported }
