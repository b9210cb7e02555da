package archtest

import (
	"go/ast"
	"testing"
)

// TestRawJSONErrors wants whoever reads an object with rawjson.Read to look at its Err:
// what was read counts only when that is nil.
func TestRawJSONErrors(t *testing.T) {
	for _, source := range sources(t) {
		for _, decl := range source.file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			read, looked := false, false
			ast.Inspect(function.Body, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					of, _ := s.X.(*ast.Ident)
					read = read || of != nil && of.Name == "rawjson" && s.Sel.Name == "Read"
					looked = looked || s.Sel.Name == "Err"
				}
				return true
			})
			if read && !looked {
				t.Errorf("%s: %s calls rawjson.Read and never Err", source.set.Position(function.Pos()), function.Name.Name)
			}
		}
	}
}
