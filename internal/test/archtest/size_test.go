package archtest

import (
	"go/ast"
	"testing"
)

const longestFunction = 60 // lines

// longFunctions are those past longestFunction, as "path name", likewise.
var longFunctions = map[string]string{}

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
