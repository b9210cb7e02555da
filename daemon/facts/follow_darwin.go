package facts

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// lookupWithoutLinks uses a system call that only Linux has.
func lookupWithoutLinks(string) (found, *inode) { return isUnclear, nil }

// foldPath returns a form that is equal for two paths to one file: the usual file systems of
// macOS ignore case and Unicode normalization.
func foldPath(path string) string { return strings.ToLower(norm.NFC.String(path)) }
