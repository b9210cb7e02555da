package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Severity specifies whether a Diagnostic prevents the use of a configuration.
type Severity uint8

const (
	Error   Severity = iota + 1 // the configuration is refused
	Warning                     // the configuration is used, but needs attention
)

func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Diagnostic is one problem of a configuration or policy file, with its place.
type Diagnostic struct {
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`   // from 1; 0 if the problem has no place
	Column   int      `json:"column,omitempty"` // from 1, in characters; 0 if the problem has no place
	Severity Severity `json:"severity"`
	ID       string   `json:"id,omitempty"` // such as V-006; empty for errors of form
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"` // what to write instead; may be empty
}

// String returns the diagnostic on one line, in the format of compilers:
//
//	thoughtgate.yaml:12:7: error: there is no workflow "opps" (V-006); did you mean "ops"?
func (d Diagnostic) String() string { return d.text(d.Severity.String() + ": ") }

// Remark returns the diagnostic as String does, without its severity.
func (d Diagnostic) Remark() string { return d.text("") }

func (d Diagnostic) text(severity string) string {
	text := severity + d.Message
	if d.ID != "" {
		text += fmt.Sprintf(" (%s)", d.ID)
	}
	if d.Hint != "" {
		text += "; " + d.Hint
	}
	place := ""
	if d.File != "" {
		place = d.File + ":"
	}
	if d.Line > 0 {
		place += fmt.Sprintf("%d:", d.Line)
		if d.Column > 0 {
			place += fmt.Sprintf("%d:", d.Column)
		}
	}
	if place == "" {
		return text
	}
	return place + " " + text
}

// HasErrors reports whether any of ds is an error.
func HasErrors(ds []Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// Sort sorts ds by place.
func Sort(ds []Diagnostic) {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// Place is the place of a value in a file. The zero Place means that the value was not written
// and a default applies.
type Place struct {
	File   string
	Line   int // from 1
	Column int // from 1, in characters
}

// String returns the place in short form, such as thoughtgate.yaml:12.
func (p Place) String() string {
	if p.Line == 0 {
		return filepath.Base(p.File)
	}
	return fmt.Sprintf("%s:%d", filepath.Base(p.File), p.Line)
}

// Diagnostic returns a Diagnostic for a problem at p.
func (p Place) Diagnostic(s Severity, id, hint, format string, args ...any) Diagnostic {
	return Diagnostic{
		File: p.File, Line: p.Line, Column: p.Column,
		Severity: s, ID: id, Hint: hint, Message: fmt.Sprintf(format, args...),
	}
}

// suggestion returns the hint for a word that is not in known: the nearest known word, or all of them.
func suggestion(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) == 0 {
		return ""
	}
	return "known are " + strings.Join(known, ", ")
}

// Nearest returns the word in known that the writer of word probably meant, or "" if none is
// near.
func Nearest(word string, known []string) string {
	if len(word) > 64 {
		return ""
	}
	best, at := "", 1+len([]rune(word))/3
	for _, k := range known {
		if strings.EqualFold(k, word) {
			return k
		}
		if d := distance([]rune(strings.ToLower(word)), []rune(k)); d < at || d == at && best == "" {
			best, at = k, d
		}
	}
	return best
}

// distance returns how many characters must be inserted, deleted, replaced or swapped with their
// neighbour to turn a into b.
func distance(a, b []rune) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// list joins words with commas and "or".
func list(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return strings.Join(words, "")
}

// keysOf returns the sorted keys of m.
func keysOf[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
