package facts

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// foldPath returns what two paths to one file have in common: macOS's usual
// file systems tell neither case nor the forms of Unicode apart.
func foldPath(path string) string { return strings.ToLower(norm.NFC.String(path)) }
