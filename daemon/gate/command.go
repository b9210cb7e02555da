package gate

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Launch identifies what is started under a server id. It returns the hex SHA-256 over the
// resolved command and its arguments, each preceded by its length.
func Launch(command []string) string {
	sum := sha256.New()
	for _, part := range command {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// IsAddress reports whether what stands in the place of a server's command is its address. A program can't
// be one: it is known by an absolute path.
func IsAddress(command []string) bool {
	return len(command) == 1 && !strings.HasPrefix(command[0], "/") && strings.Contains(command[0], "://")
}

// ShellWord quotes s as one word of a shell command line.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return 'a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./:@%+,", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
