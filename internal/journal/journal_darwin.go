package journal

import (
	"errors"
	"os"
)

// Leads reports false: there is no journal.
func Leads(*os.File, string) bool { return false }

func dial(string) (func([]byte) error, func() error, error) {
	return nil, nil, errors.New("there is none on this system")
}
