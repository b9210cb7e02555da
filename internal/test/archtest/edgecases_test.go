package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	edgeCases     = 44 // EC-STDIO-001 to EC-STDIO-044 of the specification
	edgeCaseTests = "testdata/edge-cases.txt"
)

// TestEdgeCases holds each edge case of the specification to the tests that are listed
// for it: they are there, fail where it does not hold, and name it, or the file of
// cases that they play does.
func TestEdgeCases(t *testing.T) {
	text, err := os.ReadFile(edgeCaseTests)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for n, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) < 2 || len(fields) > 3 {
			t.Errorf("%s:%d: want an edge case, a test and perhaps a file: %q", edgeCaseTests, n+1, line)
			continue
		}
		listed[fields[0]] = true
		if err := assertedBy(fields[0], fields[1], strings.Join(fields[2:], "")); err != nil {
			t.Errorf("%s:%d: %v", edgeCaseTests, n+1, err)
		}
	}
	for i := range edgeCases {
		if id := fmt.Sprintf("EC-STDIO-%03d", i+1); !listed[id] {
			t.Errorf("%s names no test for %s", edgeCaseTests, id)
		}
		delete(listed, fmt.Sprintf("EC-STDIO-%03d", i+1))
	}
	for id := range listed {
		t.Errorf("%s: the specification has no %s", edgeCaseTests, id)
	}
}

// assertedBy reports why a test, as package.Name, does not assert an edge case. With a
// file, which it plays, that is where the case is named.
func assertedBy(id, test, file string) error {
	dir, name, _ := strings.Cut(test, ".")
	source, fn, err := findTest(dir, name)
	if err != nil {
		return err
	}
	if !fails(fn) {
		return fmt.Errorf("%s asserts nothing", test)
	}
	if file == "" {
		if !strings.Contains(source, id) {
			return fmt.Errorf("%s, which is to assert %s, does not name it", test, id)
		}
		return nil
	}
	text, err := os.ReadFile(filepath.Join(top, file))
	if err != nil {
		return fmt.Errorf("what %s is to play: %w", test, err)
	}
	if !strings.Contains(string(text), id) {
		return fmt.Errorf("%s, of which %s is to assert %s, does not name it", file, test, id)
	}
	return nil
}

// findTest returns the test of that name in a package, with its text and comment.
func findTest(dir, name string) (source string, fn *ast.FuncDecl, err error) {
	files, err := filepath.Glob(filepath.Join(top, dir, "*_test.go"))
	if err != nil {
		return "", nil, err
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", nil, err
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return "", nil, err
		}
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || fn.Name.Name != name || !strings.HasPrefix(name, "Test") {
				continue
			}
			from := fn.Pos()
			if fn.Doc != nil {
				from = fn.Doc.Pos()
			}
			return string(text[fset.Position(from).Offset:fset.Position(fn.End()).Offset]), fn, nil
		}
	}
	return "", nil, fmt.Errorf("there is no test %s in %s", name, dir)
}

// fails reports whether a test can fail: it says so itself, or hands its t on to what
// does.
func fails(fn *ast.FuncDecl) bool {
	can := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return !can
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
			switch sel.Sel.Name {
			case "Error", "Errorf", "Fatal", "Fatalf":
				can = true
			}
		}
		for _, arg := range call.Args {
			if id, ok := arg.(*ast.Ident); ok && id.Name == "t" {
				can = true
			}
		}
		return !can
	})
	return can
}

// What an edge case is listed for has to be there, to name it, and to assert something.
func TestEdgeCaseWithoutTest(t *testing.T) {
	for _, test := range []struct{ id, test, file, says string }{
		{"EC-STDIO-001", "cmd/tgctl.TestNoSuchThing", "", "there is no test"},
		{"EC-STDIO-001", "cmd/tgctl.programs", "", "there is no test"},
		{"EC-STDIO-099", "cmd/tgctl/internal/wrap.TestWrapRefuses", "", "does not name it"},
		{"EC-STDIO-099", "cmd/tgctl.TestScripts", "cmd/tgctl/testdata/script/development.txtar", "does not name it"},
		{"EC-STDIO-033", "cmd/tgctl.TestScripts", "cmd/tgctl/testdata/script/none.txtar", "no such file"},
	} {
		if err := assertedBy(test.id, test.test, test.file); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s by %s %s: %v, want %q", test.id, test.test, test.file, err, test.says)
		}
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), "", "package x\nfunc TestIdle(t *testing.T) { t.Log(1) }\n", 0)
	if err != nil {
		t.Fatal(err)
	}
	if fails(parsed.Decls[0].(*ast.FuncDecl)) {
		t.Error("a test that asserts nothing is taken for one that does")
	}
}

// What is departed from is told where a reader of the project finds it.
func TestDepartures(t *testing.T) {
	all := pages(t)
	page := all["docs/departures.md"]
	for _, row := range []string{
		"F-004", "F-008", "F-010", "F-011", "F-012", "F-013", "F-014", "F-016", "F-017", "F-018", "F-023", "5.4", "EC-STDIO-006", "EC-STDIO-021", "EC-STDIO-026",
		"EC-STDIO-031", "EC-STDIO-036", "EC-STDIO-037", "EC-STDIO-039", "EC-STDIO-040", "EC-STDIO-041", "EC-STDIO-042", "isError", "policy_id", "@approval", "10 minutes",
		"pong", "null", "64 bytes", "125", "pending_per_server", "hook.before", "on_error", "WOULD_REDACT", "`env`", "PluginInfo", "withheld", "THOUGHTGATE_SERVER_ID",
	} {
		if !strings.Contains(page, row) {
			t.Errorf("docs/departures.md has no row about %s", row)
		}
	}
	for _, from := range []string{"README.md", "docs/development.md"} {
		if !strings.Contains(all[from], "departures.md") {
			t.Errorf("%s does not lead to docs/departures.md", from)
		}
	}
	for path, text := range all {
		if strings.Contains(text, "../shared") || strings.Contains(text, "CHANGES.md") {
			t.Errorf("%s leads to what only we have", path)
		}
	}
}
