package facts

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// foldPath returns a form that is equal for two paths to one file: the usual file systems of
// macOS ignore case and Unicode normalization.
func foldPath(path string) string { return strings.ToLower(norm.NFC.String(path)) }
