package gate

import (
	"crypto/sha256"
	"encoding/hex"
)

// came is a line as it was submitted, and its SHA-256.
type came struct {
	line   []byte
	digest [32]byte
}

// sum is SHA-256 over the line, which is not always the one that was submitted.
func (c *Call) sum() [32]byte {
	if n := len(c.Line); n > 0 && n == len(c.came.line) && &c.Line[0] == &c.came.line[0] {
		return c.came.digest
	}
	return sha256.Sum256(c.Line)
}

// hexOf is a digest as records have it.
func hexOf(digest [32]byte) string {
	var room [2 * len(digest)]byte
	return string(hex.AppendEncode(room[:0], digest[:]))
}
