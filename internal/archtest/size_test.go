package archtest

import (
	"go/ast"
	"testing"
)

const (
	longestFile     = 300 // lines
	longestFunction = 60
)

// longFiles are those past longestFile, each with the reason why it is not cut.
var longFiles = map[string]string{
	"daemon/policy/check.go":    "what is checked of all policies when they are loaded",
	"daemon/policy/context.go":  "the context of a request, all of its members",
	"daemon/policy/explain.go":  "an explanation with all its parts",
	"daemon/policy/rule.go":     "the gate rule, with the names and reasons that it gives",
	"daemon/policy/validate.go": "what is checked of one policy, with its messages",
	"daemon/policy/value.go":    "values of arguments, and how they fit a schema",
}

// longFunctions are those past longestFunction, as "path name", likewise.
var longFunctions = map[string]string{}

func TestFileLength(t *testing.T) {
	excused := map[string]bool{}
	for _, source := range sources(t) {
		if source.lines <= longestFile {
			continue
		}
		excused[source.path] = true
		if longFiles[source.path] == "" {
			t.Errorf("%s has %d lines; cut it, or give the reason in longFiles", source.path, source.lines)
		}
	}
	for path := range longFiles {
		if !excused[path] {
			t.Errorf("longFiles excuses %s, which is not past %d lines", path, longestFile)
		}
	}
}

func TestFunctionLength(t *testing.T) {
	excused := map[string]bool{}
	for _, source := range sources(t) {
		for _, decl := range source.file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			first, last := source.set.Position(function.Pos()).Line, source.set.Position(function.End()).Line
			lines := last - first + 1
			if lines <= longestFunction {
				continue
			}
			name := source.path + " " + function.Name.Name
			excused[name] = true
			if longFunctions[name] == "" {
				t.Errorf("%s:%d: %s has %d lines; cut it, or give the reason in longFunctions",
					source.path, first, function.Name.Name, lines)
			}
		}
	}
	for name := range longFunctions {
		if !excused[name] {
			t.Errorf("longFunctions excuses %s, which is not past %d lines", name, longestFunction)
		}
	}
}
