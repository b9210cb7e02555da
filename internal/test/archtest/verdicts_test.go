package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// writesVerdict are the functions whose argument, counted from 0, becomes the verdict of a record.
var writesVerdict = map[string]int{
	"recordSession": 2, "recordMembership": 1, "recordLogin": 1, "recordAttach": 2, "recordShim": 4, "recordOrFail": 1, "recordExtensionChange": 2, "recordAnyway": 1,
	"enrol": 3, "forget": 2, "endGrant": 2, "grantRecord": 1, "RecordOutcome": 2, "outcome": 1, "End": 1, "end": 1, "note": 2, "warn": 0,
}

// Every verdict that the daemon writes into a record is one of record.Verdicts, which filters are checked
// against: a string that becomes a verdict is one of them.
func TestVerdictsAreKnown(t *testing.T) {
	known, kinds := record.Verdicts(""), record.Kinds()
	found := map[string]bool{record.Forward: true, record.Deny: true, record.Hold: true, record.Park: true}
	root := filepath.Join("..", "..", "..", "daemon")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		check := func(e ast.Expr) {
			lit, ok := e.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return
			}
			word, _ := strconv.Unquote(lit.Value)
			if found[word] = true; word != "" && !slices.Contains(known, word) {
				t.Errorf("%s: %q is no verdict that package record knows", path, word)
			}
		}
		records := map[string]bool{} // variables of the file that are records
		ast.Inspect(content, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if sel, ok := n.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Record" {
					for _, e := range n.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok && kv.Key.(*ast.Ident).Name == "Verdict" {
							check(kv.Value)
						}
					}
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					if len(n.Rhs) != len(n.Lhs) {
						break
					}
					switch to := to.(type) {
					case *ast.SelectorExpr:
						if of, ok := to.X.(*ast.Ident); ok && to.Sel.Name == "Verdict" && (of.Name == "r" || of.Name == "rec" || records[of.Name]) {
							check(n.Rhs[i])
						}
					case *ast.Ident:
						if to.Name == "verdict" && strings.Contains(path, "session") {
							check(n.Rhs[i])
						}
					}
				}
			case *ast.CallExpr:
				name := ""
				switch f := n.Fun.(type) {
				case *ast.SelectorExpr:
					name = f.Sel.Name
				case *ast.Ident:
					name = f.Name
				}
				if strings.HasSuffix(path, "/daemon.go") { // its functions take whole records
					return true
				}
				if at, ok := writesVerdict[name]; ok && at < len(n.Args) {
					check(n.Args[at])
				}
				if name == "record" { // there are several, which differ in where the verdict stands
					for _, arg := range n.Args[:min(len(n.Args), 3)] {
						if lit, ok := arg.(*ast.BasicLit); ok && !strings.Contains(lit.Value, " ") {
							check(arg)
						}
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A word that nothing writes would be accepted as a filter and select nothing.
	var unseen []string
	for _, word := range known {
		if !found[word] && !slices.Contains(viaVariables, word) {
			unseen = append(unseen, word)
		}
	}
	if len(unseen) > 0 {
		t.Errorf("no code of the daemon writes the verdicts %s", strings.Join(unseen, ", "))
	}
	if len(kinds) < 20 {
		t.Errorf("only the kinds %v", kinds)
	}
}

// viaVariables are verdicts that the daemon writes through a constant or a variable.
var viaVariables = []string{
	"ok", "tool_error", "protocol_error", "not_written", "unknown", "approved", "rejected", "expired", "withdrawn", "lost",
}
