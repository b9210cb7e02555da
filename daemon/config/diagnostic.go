package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// Severity says whether a Diagnostic keeps a configuration from being used.
type Severity uint8

const (
	Error   Severity = iota + 1 // the configuration is refused
	Warning                     // it is used; somebody should look
)

func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Diagnostic is one thing that is wrong with a configuration file or a policy
// file, and where.
type Diagnostic struct {
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`   // from 1; 0 when it has no place
	Column   int      `json:"column,omitempty"` // from 1, in characters; 0 when it has no place
	Severity Severity `json:"severity"`
	ID       string   `json:"id,omitempty"` // as V-006; empty for what is wrong in form
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"` // what to write instead; may be empty
}

// String is the diagnostic as compilers print them, on one line:
//
//	thoughtgate.yaml:12:7: error: there is no workflow "opps" (V-006); did you mean "ops"?
func (d Diagnostic) String() string {
	var b strings.Builder
	if d.File != "" {
		b.WriteString(d.File)
		b.WriteByte(':')
	}
	if d.Line > 0 {
		fmt.Fprintf(&b, "%d:", d.Line)
		if d.Column > 0 {
			fmt.Fprintf(&b, "%d:", d.Column)
		}
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	fmt.Fprintf(&b, "%s: %s", d.Severity, d.Message)
	if d.ID != "" {
		fmt.Fprintf(&b, " (%s)", d.ID)
	}
	if d.Hint != "" {
		b.WriteString("; ")
		b.WriteString(d.Hint)
	}
	return b.String()
}

// HasErrors reports whether any of ds is an error.
func HasErrors(ds []Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// Sort puts ds in the order of their places.
func Sort(ds []Diagnostic) {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// Place is where something was written. The zero Place is nowhere: it was not
// written, and a default holds.
type Place struct {
	File   string
	Line   int // from 1
	Column int // from 1, in characters
}

// String is the place in short, as thoughtgate.yaml:12.
func (p Place) String() string {
	if p.Line == 0 {
		return filepath.Base(p.File)
	}
	return fmt.Sprintf("%s:%d", filepath.Base(p.File), p.Line)
}

// Diagnostic is something that is wrong at p.
func (p Place) Diagnostic(s Severity, id, hint, format string, args ...any) Diagnostic {
	return Diagnostic{
		File: p.File, Line: p.Line, Column: p.Column,
		Severity: s, ID: id, Hint: hint, Message: fmt.Sprintf(format, args...),
	}
}

// meant is the hint for a word that is not one of known: the nearest of them,
// else all of them.
func meant(word string, known []string) string {
	if near := Nearest(word, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) == 0 {
		return ""
	}
	return "known here: " + strings.Join(known, ", ")
}

// Nearest returns the word of known that somebody who wrote word is likely to
// have meant, or nothing when none is near.
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

// distance is how many characters must be put in, taken out, replaced or
// swapped with their neighbour to get from a to b.
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

// list joins words as a person would.
func list(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
	return strings.Join(words, "")
}

// keysOf returns the keys of m in order.
func keysOf[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
