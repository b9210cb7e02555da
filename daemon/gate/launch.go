package gate

import (
	"crypto/sha256"
	"fmt"
)

// Launch identifies what is started under a server id: the hex SHA-256 over the
// resolved command and its arguments, each behind its length.
func Launch(command []string) string {
	sum := sha256.New()
	for _, part := range command {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}
