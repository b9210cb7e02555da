package main

import (
	"fmt"
	"strings"
)

// loosening is one change that makes the product looser.
type loosening struct {
	place    string // in the data file: its name and the line
	file     string // the product file, relative to the root
	looser   string // what gets looser
	tests    []test // which must notice
	old, new string
}

// test is the tests of one package.
type test struct {
	pkg string // relative to the root
	run string // for go test's -run; empty for all
}

// String returns the file and what gets looser, as they are printed and chosen.
func (l *loosening) String() string { return l.file + ": " + l.looser }

// parse reads the data file: blocks of lines, separated by empty lines. Lines that begin with #
// are comments.
func parse(name, data string) ([]*loosening, error) {
	var all []*loosening
	var l *loosening
	end := func() error {
		if l == nil {
			return nil
		}
		if l.file == "" || l.looser == "" || len(l.tests) == 0 || l.old == "" || l.old == l.new {
			return fmt.Errorf("%s: a change needs a file, what gets looser, a test, and an old text that differs from the new one", l.place)
		}
		l.old, l.new = strings.TrimSuffix(l.old, "\n"), strings.TrimSuffix(l.new, "\n")
		all, l = append(all, l), nil
		return nil
	}
	for i, line := range strings.Split(data, "\n") {
		place := fmt.Sprintf("%s:%d", name, i+1)
		switch {
		case line == "":
			if err := end(); err != nil {
				return nil, err
			}
			continue
		case line[0] == '#':
			continue
		case l == nil:
			l = &loosening{place: place}
		}
		if err := l.read(line); err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
	}
	return all, end()
}

// read reads one line of a block.
func (l *loosening) read(line string) error {
	switch line[0] {
	case '-':
		l.old += line[1:] + "\n"
		return nil
	case '+':
		l.new += line[1:] + "\n"
		return nil
	}
	key, value, _ := strings.Cut(line, " ")
	switch key {
	case "file":
		l.file = value
	case "looser":
		l.looser = value
	case "test":
		pkg, run, _ := strings.Cut(value, " -run ")
		l.tests = append(l.tests, test{pkg, run})
	default:
		return fmt.Errorf("unknown key %q", key)
	}
	if value == "" {
		return fmt.Errorf("%s has no value", key)
	}
	return nil
}

// apply returns source with the old text replaced by the new one.
func (l *loosening) apply(source string) (string, error) {
	if n := strings.Count(source, l.old); n != 1 {
		return "", fmt.Errorf("the old text occurs %d times in the file, not once", n)
	}
	return strings.Replace(source, l.old, l.new, 1), nil
}
