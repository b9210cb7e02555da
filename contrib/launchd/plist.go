// Package launchd holds the property list that starts ThoughtGate's daemon on
// macOS, and fills in where things are.
package launchd

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
)

// Label is what launchd calls the daemon.
const Label = "io.github.thoughtgate.thoughtgated"

//go:embed io.github.thoughtgate.thoughtgated.plist
var template string

// Paths are absolute; launchd expands nothing.
type Paths struct {
	Daemon  string // the program
	Control string // the socket of that name; its folder must be there
	Shim    string // likewise
	Log     string // what the daemon says goes here; its folder must be there
}

// Plist returns the property list for the paths. A relative path is an error.
func (p Paths) Plist() (string, error) {
	var fill []string
	for word, path := range map[string]string{"@DAEMON@": p.Daemon, "@CONTROL@": p.Control, "@SHIM@": p.Shim, "@LOG@": p.Log} {
		if !filepath.IsAbs(path) {
			return "", fmt.Errorf("launchd wants absolute paths, and this is none: %q", path)
		}
		var text strings.Builder
		if err := xml.EscapeText(&text, []byte(path)); err != nil {
			return "", err
		}
		fill = append(fill, word, text.String())
	}
	return strings.NewReplacer(fill...).Replace(template), nil
}
