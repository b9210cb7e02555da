package serve

import (
	"io"
	"os"
)

// random fills b with random bytes of the system.
func random(b []byte) error {
	system, err := os.Open("/dev/urandom")
	if err != nil {
		return err
	}
	defer system.Close()
	_, err = io.ReadFull(system, b)
	return err
}
