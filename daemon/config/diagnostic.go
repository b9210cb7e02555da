package config

import (
	"cmp"
	"fmt"
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
