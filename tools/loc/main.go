// Loc counts the lines of product code in each package.
//
//	go -C tools run ./loc ..                  one tree
//	go -C tools run ./loc .. ../../before     two trees, side by side: the second is the older
//
// A line counts if it contains a token: blank lines and comments don't count, and each line of
// a multi-line string does. Generated code, tests, test fixtures, benchmarks, tools and other
// languages don't count.
package main

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// notProduct are folders whose code no user runs, also where they were before.
var notProduct = []string{
	"tools", "internal/archtest", "internal/bench", "internal/e2e", "internal/edit/edittest", "internal/fake",
	"internal/hostile", "internal/kills", "internal/rig", "internal/soak", "internal/storm", "internal/tempdir",
	"internal/test", "extensions/exttest", "cmd/tgctl/slack/fakeslack", "cmd/tgctl/internal/slack/fakeslack", "cmd/tgctl/internal/consoletest", "daemon/traces/collect", "daemon/observe/traces/collect",
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: loc TREE [EARLIER-TREE]")
		os.Exit(2)
	}
	var counts []map[string]int
	for _, tree := range os.Args[1:] {
		c, err := count(tree)
		if err != nil {
			fmt.Fprintln(os.Stderr, "loc:", err)
			os.Exit(1)
		}
		counts = append(counts, c)
	}
	print(counts)
}

// count returns the number of lines of code in each folder of a tree.
func count(tree string) (map[string]int, error) {
	lines := map[string]int{}
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if slices.Contains(notProduct, filepath.ToSlash(rel)) || name == "testdata" || name == "node_modules" ||
				rel != "." && strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !generated.Match(source) {
			lines[filepath.ToSlash(filepath.Dir(rel))] += linesOf(source)
		}
		return nil
	})
	return lines, err
}

// linesOf returns the number of lines of source that contain a token.
func linesOf(source []byte) int {
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	n, last := 0, 0
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return n
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue
		}
		first := file.Line(pos)
		end := first
		if tok == token.STRING {
			end += bytes.Count([]byte(text), []byte("\n"))
		}
		n += max(0, end-max(last, first-1))
		last = max(last, end)
	}
}

func print(counts []map[string]int) {
	names := map[string]bool{}
	for _, c := range counts {
		for name := range c {
			names[name] = true
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer w.Flush()
	row := func(name string, now, before int) {
		if len(counts) == 1 {
			fmt.Fprintf(w, "%d\t  %s\n", now, name)
			return
		}
		fmt.Fprintf(w, "%d\t%d\t%+d\t  %s\n", before, now, now-before, name)
	}
	var now, before int
	for _, name := range slices.Sorted(maps.Keys(names)) {
		n, b := counts[0][name], 0
		if len(counts) == 2 {
			b = counts[1][name]
		}
		now, before = now+n, before+b
		row(name, n, b)
	}
	row("all", now, before)
}
