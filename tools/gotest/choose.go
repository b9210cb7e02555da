package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A pkg is a package that has tests.
type pkg struct {
	path  string
	raced map[string]bool // true for tests that run with the race detector
}

// choose returns the arguments of the runs of go test for args. An argument race:PATTERN stands
// for the tests that run with the race detector, plain:PATTERN for the others, of the packages
// that match. Without one, there is one run, of all tests.
func choose(dir string, args, env []string) (runs [][]string, err error) {
	at := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "race:") || strings.HasPrefix(a, "plain:") })
	if at < 0 {
		return [][]string{args}, nil
	}
	which, pattern, _ := strings.Cut(args[at], ":")
	all, err := packages(dir, env, pattern)
	if err != nil {
		return nil, err
	}
	most, few, err := divide(all, which == "race")
	for _, chosen := range [][]string{most, few} {
		if len(chosen) > 0 {
			runs = append(runs, slices.Concat(slices.Delete(slices.Clone(args), at, at+1), chosen))
		}
	}
	return runs, err
}

// divide returns the arguments for the tests whose raced is race: first for packages most of whose
// tests are, then for packages few of whose tests are.
func divide(all []pkg, race bool) (most, few []string, err error) {
	var skip, run []string
	for _, p := range all {
		these, others := p.tests(race), p.tests(!race)
		switch {
		case len(these) == 0:
		case len(others) < len(these):
			most, skip = append(most, p.path), append(skip, others...)
		default:
			few, run = append(few, p.path), append(run, these...)
		}
	}
	for _, p := range all {
		if slices.Contains(most, p.path) {
			err = errors.Join(err, p.clash(skip, race))
		} else if slices.Contains(few, p.path) {
			err = errors.Join(err, p.clash(run, !race))
		}
	}
	if len(skip) > 0 {
		most = append([]string{"-skip", pattern(skip)}, most...)
	}
	if len(run) > 0 {
		few = append([]string{"-run", pattern(run)}, few...)
	}
	return most, few, err
}

// clash returns an error for each of the names, which apply to all packages of a run, that a test
// of p has for which they are not meant.
func (p *pkg) clash(names []string, race bool) (err error) {
	for _, name := range names {
		if raced, here := p.raced[name]; here && raced == race {
			err = errors.Join(err, fmt.Errorf("%s.%s needs another name: of two tests with this name, one runs with the race detector and one without", p.path, name))
		}
	}
	return err
}

// pattern returns what matches tests with these names only.
func pattern(names []string) string {
	slices.Sort(names)
	return "^(" + strings.Join(slices.Compact(names), "|") + ")$"
}

// tests returns the names of the tests whose raced is race.
func (p *pkg) tests(race bool) (names []string) {
	for name, raced := range p.raced {
		if raced == race {
			names = append(names, name)
		}
	}
	return names
}

// packages returns the packages with tests that match a pattern of go list.
func packages(dir string, env []string, pattern string) (all []pkg, err error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles", pattern)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pattern, err)
	}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var of struct {
			ImportPath, Dir                              string
			GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
		}
		if err := in.Decode(&of); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		p, err := read(of.Dir, slices.Concat(of.GoFiles, of.CgoFiles), slices.Concat(of.TestGoFiles, of.XTestGoFiles))
		if err != nil {
			return nil, err
		}
		if p.path = of.ImportPath; len(p.raced) > 0 {
			all = append(all, p)
		}
	}
}

// marks matches a comment above a test, or above the package clause for all tests that have none.
// It says how they run, and why.
var marks = regexp.MustCompile(`^//gotest:(plain|race) \S`)

// read returns a package from its product code and its tests. Without a mark, tests run with the
// race detector if the package has product code, and it or the tests start goroutines or lock. Where
// there are only tests, they start programs, of which each test knows how it wants them.
func read(dir string, product, tests []string) (p pkg, err error) {
	set, meet, whole, own := token.NewFileSet(), false, "", map[string]string{}
	unread := 0
	for _, name := range slices.Concat(product, tests) {
		file, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return pkg{}, err
		}
		meet = meet || concurrent(file)
		if !slices.Contains(tests, name) {
			continue
		}
		for _, c := range file.Comments {
			for _, line := range c.List {
				if strings.HasPrefix(line.Text, "//gotest:") {
					unread++
				}
			}
		}
		if m := mark(file.Doc); m != "" {
			whole = m
			unread--
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && isTest.MatchString(f.Name.Name) && f.Name.Name != "TestMain" {
				if own[f.Name.Name] = mark(f.Doc); own[f.Name.Name] != "" {
					unread--
				}
			}
		}
	}
	if unread > 0 {
		return pkg{}, fmt.Errorf("%s: %d comments //gotest: are not above a test or a package clause, not of the form //gotest:plain REASON or //gotest:race REASON, or one too many", dir, unread)
	}
	p.raced = map[string]bool{}
	for name, m := range own {
		switch {
		case m == "" && whole == "":
			p.raced[name] = meet && len(product) > 0
		case m == "":
			p.raced[name] = whole == "race"
		default:
			p.raced[name] = m == "race"
		}
	}
	return p, nil
}

// isTest matches the names of functions that go test runs.
var isTest = regexp.MustCompile(`^(Test|Fuzz)([^a-z]|$)`)

// mark returns plain or race if a comment says so.
func mark(doc *ast.CommentGroup) string {
	for i := 0; doc != nil && i < len(doc.List); i++ {
		if m := marks.FindStringSubmatch(doc.List[i].Text); m != nil {
			return m[1]
		}
	}
	return ""
}

// concurrent reports whether a file starts goroutines, locks, or has tests run beside each other.
func concurrent(file *ast.File) (found bool) {
	for _, i := range file.Imports {
		switch strings.Trim(i.Path.Value, `"`) {
		case "sync", "sync/atomic", "testing/synctest", "golang.org/x/sync/errgroup":
			return true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == "Go" || n.Sel.Name == "Parallel"
		}
		return !found
	})
	return found
}
