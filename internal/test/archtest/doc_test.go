package archtest

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// TestPackageComments wants each package to say what it is before it begins.
func TestPackageComments(t *testing.T) {
	documented := map[string]bool{}
	for _, source := range sources(t) {
		documented[source.dir] = documented[source.dir] || source.file.Doc != nil
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// TestExportedIsDocumented wants a comment on what other packages may use. One
// comment above a group of constants or variables serves the group.
func TestExportedIsDocumented(t *testing.T) {
	for _, source := range sources(t) {
		if source.file.Name.Name == "main" {
			continue
		}
		for _, decl := range source.file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Name.IsExported() && decl.Doc == nil && exportedReceiver(decl) && !selfEvident(decl) {
					t.Errorf("%s: %s has no comment", source.set.Position(decl.Pos()), decl.Name.Name)
				}
			case *ast.GenDecl:
				checkGroup(t, source, decl)
			}
		}
	}
}

func checkGroup(t *testing.T, source source, decl *ast.GenDecl) {
	t.Helper()
	if decl.Tok == token.IMPORT || decl.Doc != nil {
		return
	}
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() && spec.Doc == nil {
				t.Errorf("%s: %s has no comment", source.set.Position(spec.Pos()), spec.Name.Name)
			}
		case *ast.ValueSpec:
			// Constants of a type are explained by the type.
			if spec.Names[0].IsExported() && spec.Doc == nil && spec.Comment == nil && !typed(decl) {
				t.Errorf("%s: %s has no comment", source.set.Position(spec.Pos()), spec.Names[0].Name)
			}
		}
	}
}

// typed reports whether a group of constants belongs to a type of its own.
func typed(decl *ast.GenDecl) bool {
	first, ok := decl.Specs[0].(*ast.ValueSpec)
	return ok && decl.Tok == token.CONST && first.Type != nil
}

// exportedReceiver reports whether a function can be called from outside: it
// has no receiver, or one of an exported type.
func exportedReceiver(decl *ast.FuncDecl) bool {
	if decl.Recv == nil {
		return true
	}
	receiver := decl.Recv.List[0].Type
	for {
		switch r := receiver.(type) {
		case *ast.StarExpr:
			receiver = r.X
			continue
		case *ast.IndexExpr:
			receiver = r.X
			continue
		case *ast.Ident:
			return r.IsExported()
		}
		return false
	}
}

// selfEvident are methods whose meaning the standard library fixed.
func selfEvident(decl *ast.FuncDecl) bool {
	return decl.Recv != nil && strings.Contains(" Error String Unwrap Is Len Less Swap ", " "+decl.Name.Name+" ")
}
