// Package launchd_test checks the property list, which no Mac reads during the tests.
package launchd_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const plist = "io.github.thoughtgate.thoughtgated.plist"

// launchd ignores a key that it does not know without a word.
var known = map[string]bool{
	"Label": true, "ProgramArguments": true, "RunAtLoad": true,
	"KeepAlive": true, "SuccessfulExit": true, "ProcessType": true, "Umask": true,
	"HardResourceLimits": true, "Core": true, "StandardErrorPath": true,
}

func TestPlist(t *testing.T) {
	text, err := os.ReadFile(plist)
	if err != nil {
		t.Fatal(err)
	}
	filled := strings.NewReplacer("@PREFIX@", "/Users/ann/.local", "@HOME@", "/Users/ann").Replace(string(text))
	settings := readPlist(t, filled)

	if got, want := settings["Label"], strings.TrimSuffix(plist, filepath.Ext(plist)); got != want {
		t.Errorf("Label = %q, want the name of the file, %q", got, want)
	}
	if got, want := settings["ProgramArguments"], "/Users/ann/.local/bin/thoughtgated"; got != want {
		t.Errorf("ProgramArguments = %q, want %q", got, want)
	}
	if got := settings["StandardErrorPath"]; !filepath.IsAbs(got) {
		t.Errorf("StandardErrorPath = %q, want an absolute path: launchd expands nothing", got)
	}
	if got, want := settings["Umask"], "63"; got != want {
		t.Errorf("Umask = %q, want %q, which is 0077", got, want)
	}
}

// readPlist returns the text that follows each key, through arrays and dictionaries.
func readPlist(t *testing.T, text string) map[string]string {
	t.Helper()
	settings := map[string]string{}
	key := ""
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return settings
		}
		if err != nil {
			t.Fatalf("%s: %v", plist, err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		var content string
		switch start.Name.Local {
		case "key":
			if err := decoder.DecodeElement(&content, &start); err != nil {
				t.Fatal(err)
			}
			if key = content; !known[key] {
				t.Errorf("unknown key %q", key)
			}
		case "string", "integer":
			if err := decoder.DecodeElement(&content, &start); err != nil {
				t.Fatal(err)
			}
			settings[key] = content
		}
	}
}
