// Package archtest holds the house rules that a compiler does not: who imports
// whom, how long a file may be, what is documented, and which edge cases of the
// specification no test names yet. docs/development.md gives the reasons.
package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/thoughtgate/thoughtgated/"

// A source is one Go file that ships: no test, not generated.
type source struct {
	path  string // from the top of the repository, with slashes
	dir   string
	lines int
	set   *token.FileSet
	file  *ast.File
}

// top is the top of the repository, seen from this package.
const top = "../../.."

// sources reads every Go file of the product, those for other platforms too.
func sources(t *testing.T) []source {
	t.Helper()
	var found []source
	for _, root := range []string{"client", "cmd", "daemon", "extensions", "internal"} {
		walk(t, root, func(path string, text []byte) {
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if ast.IsGenerated(file) {
				return
			}
			found = append(found, source{path, filepath.ToSlash(filepath.Dir(path)), bytes.Count(text, []byte("\n")), set, file})
		})
	}
	if len(found) == 0 {
		t.Fatal("no Go file found: the rules would hold for nothing")
	}
	return found
}

// walk calls see with the name and content of each file below root, a folder
// or file at the top of the repository.
func walk(t *testing.T, root string, see func(path string, text []byte)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(top, root), func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "node_modules":
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		path, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		see(filepath.ToSlash(path), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
