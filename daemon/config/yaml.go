package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// document parses text and returns the root node of its single document. It returns diagnostics
// for anything that would make the text ambiguous.
func document(file string, text []byte) (*yaml.Node, []Diagnostic) {
	if d := CheckText(file, text); d != nil {
		return nil, []Diagnostic{*d}
	}
	var docs []yaml.Node
	if err := yaml.Load(text, &docs, yaml.WithAllDocuments()); err != nil {
		return nil, syntax(file, text, err)
	}
	switch {
	case len(docs) == 0:
		return nil, []Diagnostic{Place{file, 1, 1}.Diagnostic(Error, "", "write at least: schema: 1", "the file is empty")}
	case len(docs) > 1:
		second := Place{file, docs[1].Line, docs[1].Column}
		return nil, []Diagnostic{second.Diagnostic(Error, "", "remove everything from the second ---", "a second document begins here; a configuration has one")}
	}
	root := &docs[0]
	if root.Kind == yaml.DocumentNode && len(root.Content) == 1 {
		root = root.Content[0]
	}
	return root, nil
}

// CheckText returns the first thing in text that is ambiguous or would not be visible, or nil: an
// encoding other than UTF-8, characters that only some programs take as line ends, and characters
// that change how a line looks.
func CheckText(file string, text []byte) *Diagnostic {
	if bytes.HasPrefix(text, []byte{0xff, 0xfe}) || bytes.HasPrefix(text, []byte{0xfe, 0xff}) || bytes.IndexByte(text[:min(4, len(text))], 0) >= 0 {
		return &Diagnostic{File: file, Line: 1, Column: 1, Severity: Error,
			Message: "the file is not UTF-8 but looks like UTF-16 or UTF-32", Hint: "save it as UTF-8"}
	}
	line, column := 1, 1
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		message := ""
		switch {
		case r == utf8.RuneError && n == 1:
			message = fmt.Sprintf("the byte 0x%02x is not valid UTF-8", text[i])
		case r == '\r' && (i+1 == len(text) || text[i+1] != '\n'):
			message = "a carriage return without a line feed"
		case r == 0x85 || r == 0x2028 || r == 0x2029:
			message = fmt.Sprintf("the line separator %U", r)
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			message = fmt.Sprintf("the character %U, which reorders text", r)
		case r < 0x20 && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r <= 0x9f || r == 0xfeff && i > 0 || r == 0xfffe || r == 0xffff:
			message = fmt.Sprintf("the control character %U", r)
		}
		if message != "" {
			return &Diagnostic{File: file, Line: line, Column: column, Severity: Error,
				Message: message, Hint: "remove it, or write it as an escape in double quotes"}
		}
		i += n
		if column++; r == '\n' {
			line, column = line+1, 1
		} else if r == 0xfeff {
			column--
		}
	}
	return nil
}

// syntax converts errors of the YAML parser to diagnostics.
func syntax(file string, text []byte, err error) []Diagnostic {
	var many *yaml.LoadErrors
	var one *yaml.LoadError
	found := []*yaml.LoadError{}
	switch {
	case errors.As(err, &many):
		found = many.Errors
	case errors.As(err, &one):
		found = append(found, one)
	}
	var ds []Diagnostic
	for _, e := range found {
		if strings.Contains(e.ContextMsg, "quoted scalar") { // the error is at the end of the file, and the quote is not
			ds = append(ds, Diagnostic{File: file, Line: e.ContextMark.Line, Column: e.ContextMark.Column, Severity: Error,
				Message: "invalid YAML: the quote that begins here has no end", Hint: "close it on the same line"})
			continue
		}
		message := strings.TrimPrefix(e.Message, "yaml: ")
		if e.ContextMsg != "" {
			message = e.ContextMsg + ": " + message
		}
		ds = append(ds, Diagnostic{File: file, Line: e.Mark.Line, Column: e.Mark.Column, Severity: Error,
			Message: "invalid YAML: " + message, Hint: syntaxHint(text, e.Mark)})
	}
	if ds == nil {
		ds = []Diagnostic{{File: file, Severity: Error, Message: "invalid YAML: " + err.Error()}}
	}
	return ds
}

// openQuote returns the number of the first line with an odd number of double quotes; 0 if there is none.
func openQuote(lines [][]byte) int {
	for i, line := range lines {
		line = bytes.ReplaceAll(line, []byte(`\\`), nil)
		line = bytes.ReplaceAll(line, []byte(`\"`), nil)
		if bytes.Count(line, []byte(`"`))%2 == 1 && !bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("#")) {
			return i + 1
		}
	}
	return 0
}

// syntaxHint returns the most likely cause of a syntax error at the given place.
func syntaxHint(text []byte, at yaml.Mark) string {
	lines := bytes.Split(text, []byte("\n"))
	if at.Line < 1 || at.Line > len(lines) {
		return ""
	}
	line := lines[at.Line-1]
	switch n := openQuote(lines[:at.Line]); {
	case n > 0:
		return fmt.Sprintf("line %d has a double quote without a second one: close it there", n)
	case bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("\t")):
		return "indent with spaces, not with tabs"
	case bytes.Contains(line, []byte("${")):
		return `inside { } and [ ] quote a variable, as "${NAME}"`
	case bytes.ContainsAny(line, "*"):
		return `quote a pattern that begins with *, as "*"`
	case bytes.ContainsAny(line, "[]{}@`%&!|>"):
		return "quote text with special characters"
	}
	return ""
}
