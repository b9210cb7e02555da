package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// Limits of policy files. Cedar's parser has none of its own.
const (
	maxFile    = 64 << 10
	maxAnyFile = 1 << 20 // the configuration, or a schema
	maxNesting = 100     // levels of brackets and of "if"
	maxFiles   = 4096
)

// loadPolicies reads all Cedar files and adds their policies.
func (l *loader) loadPolicies() {
	if l.cfg.Path != "" {
		l.files = append(l.files, File{Path: l.cfg.Path, Digest: l.cfg.FileDigest, Text: l.cfg.Text()})
	}
	first := map[string]*policy{}
	paths := l.policyPaths()
	if len(paths) > maxFiles {
		l.report(config.Place{File: l.cfg.Path}, config.Error, "", "", "%d Cedar files; the maximum is %d", len(paths), maxFiles)
		return
	}
	for _, path := range paths {
		for _, p := range l.policyFile(path) {
			if before := first[p.id]; before != nil {
				l.report(p.place, config.Error, "", fmt.Sprintf("the other one is in %v", before.place), "duplicate policy id %q", p.id)
				continue
			}
			first[p.id] = p
			p.order = len(l.policies)
			l.policies = append(l.policies, p)
		}
	}
}

// policyPaths returns the Cedar files that the configuration names, sorted, without duplicates.
func (l *loader) policyPaths() []string {
	if l.cfg.Path == "" {
		return nil // the built-in default has no folder
	}
	var paths []string
	for i := range l.cfg.Cedar.Policies {
		place := l.cfg.Place(&l.cfg.Cedar.Policies[i])
		pattern := l.cfg.Cedar.Policies[i]
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(l.cfg.Path), pattern)
		}
		paths = append(paths, l.matching(pattern, place)...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// matching returns the files that match pattern. It does not use filepath.Glob, which skips a
// folder that cannot be read, and with it every forbid in that folder.
func (l *loader) matching(pattern string, place config.Place) []string {
	folder, base := filepath.Split(pattern)
	if !strings.ContainsAny(base, "*?[") {
		return []string{pattern}
	}
	glob, err := config.NewGlob(base)
	if err != nil {
		l.report(place, config.Error, "V-009", "", "%q: %v", base, err)
		return nil
	}
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist) && place.Line == 0:
		return nil // the pattern is the default
	case err != nil:
		hint := ""
		if strings.ContainsAny(folder, "*?[") {
			hint = "wildcards are allowed only in the last part of a path"
		}
		l.report(place, config.Error, "V-013", hint, "read the policies' folder: %v", err)
		return nil
	}
	var paths []string
	for _, e := range entries {
		hidden := strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(base, ".") // usually files of an editor
		if !hidden && !e.IsDir() && glob.Match(e.Name()) {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	if len(paths) == 0 && place.Line > 0 {
		l.report(place, config.Warning, "", "", "no file matches %s", pattern)
	}
	return paths
}

// policyFile reads the policies of one file.
func (l *loader) policyFile(path string) []*policy {
	here := config.Place{File: path}
	text, err := config.ReadFile(path, maxFile)
	if err != nil {
		l.report(here, config.Error, "V-013", "", "the policies can't be read: %v", err)
		return nil
	}
	l.files = append(l.files, File{Path: path, Digest: digestOf(text), Text: l.keep(text)})
	return l.parsePolicies(path, text)
}

// maxKept is the maximum number of bytes of policy files to keep. They serve to show how a file
// differs from the version in force.
const maxKept = 4 << 20

// keep returns text, or nil if keeping it would exceed maxKept.
func (l *loader) keep(text []byte) []byte {
	kept := len(text)
	for _, f := range l.files {
		kept += len(f.Text)
	}
	if kept > maxKept {
		return nil
	}
	return text
}

// parsePolicies parses the text of one file.
func (l *loader) parsePolicies(path string, text []byte) []*policy {
	if d := config.CheckText(path, text); d != nil {
		l.found = append(l.found, *d)
		return nil
	}
	if at := tooDeep(text); at >= 0 {
		l.report(placeAt(path, text, at), config.Error, "", "", "nested deeper than %d levels", maxNesting)
		return nil
	}
	list, err := cedar.NewPolicyListFromBytes(path, text)
	if err != nil {
		l.parseError(config.Place{File: path}, err)
		return nil
	}
	var policies []*policy
	for _, c := range list {
		if p := l.policy(path, text, c); p != nil {
			policies = append(policies, p)
		}
	}
	return policies
}

var (
	parsePlace    = regexp.MustCompile(`<input>:(\d+):(\d+):? ?`)
	parseExpected = regexp.MustCompile(`"(?:[^"\\]|\\.)*": exact got (.+) want (.+)`)
)

// parseError reports an error of the parser at its place.
func (l *loader) parseError(here config.Place, err error) {
	message := err.Error()
	if m := parsePlace.FindStringSubmatch(message); m != nil {
		// The pattern matches digits only, and a file has fewer lines than an int counts.
		here.Line, _ = strconv.Atoi(m[1])
		here.Column, _ = strconv.Atoi(m[2])
	}
	message = parsePlace.ReplaceAllString(message, "")
	for _, prefix := range []string{"parser error: ", "parse error at "} {
		message = strings.TrimPrefix(message, prefix)
	}
	message = parseExpected.ReplaceAllString(message, `found "$1", expected "$2"`)
	l.report(here, config.Error, "", "", "not valid Cedar: %s", strings.ToValidUTF8(message, "\uFFFD"))
}

// tooDeep returns the offset at which brackets and ifs within one policy nest deeper than
// maxNesting, or -1. It runs before the parser, which recurses once per level.
func tooDeep(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '"':
			i = stringEnd(text, i)
		case b == '/' && bytes.HasPrefix(text[i:], []byte("//")):
			n := bytes.IndexByte(text[i:], '\n')
			if n < 0 {
				return -1
			}
			i += n
		case b == '(' || b == '[' || b == '{':
			depth++
		case b == ')' || b == ']' || b == '}':
			depth--
		case b == ';':
			depth = 0
		case wordByte(b):
			start := i
			for i+1 < len(text) && wordByte(text[i+1]) {
				i++
			}
			if string(text[start:i+1]) == "if" {
				depth++
			}
		}
		if depth > maxNesting {
			return i
		}
	}
	return -1
}

// stringEnd returns the offset of the closing quote of the string that begins at start, or
// len(text).
func stringEnd(text []byte, start int) int {
	for i := start + 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

func wordByte(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z'
}

// placeAt returns the place of the byte at offset.
func placeAt(path string, text []byte, offset int) config.Place {
	before := text[:offset]
	start := bytes.LastIndexByte(before, '\n') + 1
	return config.Place{
		File: path, Line: 1 + bytes.Count(before, []byte("\n")), Column: 1 + utf8.RuneCount(before[start:]),
	}
}
