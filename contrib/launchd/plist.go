// Package launchd holds the property list that starts ThoughtGate's daemon on macOS, and fills
// in its paths.
package launchd

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"path/filepath"
	"strings"
)

// Label is the daemon's label in launchd.
const Label = "io.github.thoughtgate.thoughtgated"

//go:embed io.github.thoughtgate.thoughtgated.plist
var template string

// Paths are the paths in the property list. They must be absolute; launchd expands nothing.
type Paths struct {
	Daemon  string // the program
	Control string // the control socket; its folder must exist
	Shim    string // the shim socket; its folder must exist
	Log     string // file for the daemon's output; its folder must exist
}

// Plist returns the property list with the paths. A relative path is an error.
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
