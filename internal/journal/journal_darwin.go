package journal

import (
	"errors"
	"os"
)

// Leads returns false: macOS has no journal.
func Leads(*os.File, string) bool { return false }

func dial(string) (func([]byte) error, func() error, error) {
	return nil, nil, errors.New("there is none on this system")
}
