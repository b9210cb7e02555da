// Package pictures keeps what each screen of tgctl looks like in docs/pictures/screens: its text, and a PNG
// that Chromium draws of it. Tests compare the text, and of a PNG the digest of what it was drawn from, so
// that a stale one fails without a browser. With -update they are made again, and a PNG only if that has
// changed.
package pictures

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/browser"
	"github.com/thoughtgate/thoughtgated/internal/test/golden"
)

// Book is the pictures that one test makes.
type Book struct {
	t         *testing.T
	dir, name string
	made      map[string]string // digests of what the PNGs were drawn from, by file
	taken     map[string]string
	browser   *browser.Browser // nil until something is drawn
}

// Open returns the book of a name. When the test ends, the book must have no picture that was not made.
func Open(t *testing.T, name string) *Book {
	t.Helper()
	root := "."
	for range 10 {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		root = filepath.Join(root, "..")
	}
	dir, err := filepath.Abs(filepath.Join(root, "docs", "pictures", "screens")) // a test may go elsewhere
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := &Book{t: t, dir: dir, name: name, made: map[string]string{}, taken: map[string]string{}}
	list, err := os.ReadFile(b.list())
	if err != nil && !*golden.Update {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		b.made[file] = sum
	}
	t.Cleanup(b.close)
	return b
}

// list returns the path of the file that lists the book's PNGs.
func (b *Book) list() string { return filepath.Join(b.dir, b.name+".list") }

// close compares what was taken with the list, or writes the list.
func (b *Book) close() {
	if b.t.Failed() {
		return
	}
	var list strings.Builder
	for _, file := range slices.Sorted(maps.Keys(b.taken)) {
		fmt.Fprintf(&list, "%s  %s\n", b.taken[file], file)
	}
	golden.Compare(b.t, b.list(), list.String())
	for file := range b.made {
		if _, taken := b.taken[file]; !taken && *golden.Update {
			_ = os.Remove(filepath.Join(b.dir, file))
			_ = os.Remove(b.text(strings.TrimSuffix(file, ".png"))) // a light one has none
		}
	}
}

// Page keeps a PNG that draw makes, if source has changed since. Source is all that it depends on.
func (b *Book) Page(name, source string, draw func(*browser.Browser) []byte) {
	b.t.Helper()
	file := name + ".png"
	path, sum := filepath.Join(b.dir, file), fmt.Sprintf("%x", sha256.Sum256([]byte(source)))
	b.taken[file] = sum
	_, err := os.Stat(path)
	switch {
	case err == nil && b.made[file] == sum:
		return
	case !*golden.Update:
		b.t.Errorf("docs/pictures/screens/%s is not what tgctl shows now: make pictures", file)
		return
	case b.browser == nil:
		b.browser = browser.Open(b.t)
	}
	small, err := reduced(bytes.NewReader(draw(b.browser)))
	if err == nil {
		err = os.WriteFile(path, small, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// Shot is one look of a screen of a terminal.
type Shot struct {
	Look    string // ends the name, such as 80 or 120-light
	Light   bool
	Columns int
	Screen  string // with escape sequences for colours
}

// Screen keeps the shots of a screen. One that only repeats another is left out. The text of a dark one is
// kept as well.
func (b *Book) Screen(name string, shots ...Shot) {
	b.t.Helper()
	drawn := map[string]bool{}
	for _, s := range shots {
		s.Screen = overwritten.ReplaceAllString(s.Screen, "")
		if drawn[s.Screen] {
			continue
		}
		drawn[s.Screen] = true
		file := name + "-" + s.Look
		if !s.Light {
			golden.Compare(b.t, b.text(file), s.text())
		}
		page := s.page()
		b.Page(file, page, func(w *browser.Browser) []byte {
			w.Look(2000, 1000, "light")
			w.Show(page)
			return w.PNG("pre")
		})
	}
}

// Has reports whether a shot of a screen has the text that is kept. It may be asked until a screen has come.
func (b *Book) Has(name string, s Shot) bool {
	kept, err := os.ReadFile(b.text(name + "-" + s.Look))
	return err == nil && string(kept) == s.text()
}

// text returns the path of the text of a picture.
func (b *Book) text(file string) string { return filepath.Join(b.dir, file+".txt") }

// text returns the screen without colours.
func (s Shot) text() string {
	return strings.TrimRight(sgr.ReplaceAllString(s.Screen, ""), " \n") + "\n"
}
