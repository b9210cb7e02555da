// Package folder copies the folders of extensions and detects changes in them.
//
// A folder is described by its regular files: their paths, their content, and which of them are
// executable. The description is a text with one line for each file, sorted by path; the
// SHA-256 of the text is the folder's digest. Links and anything else that is neither file nor
// folder are errors: what they refer to could change without the folder.
package folder

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Limits of a folder.
const (
	MaxFiles = 10_000    // files and folders
	MaxFile  = 128 << 20 // bytes of one file
	MaxBytes = 256 << 20 // bytes of all files
	MaxDepth = 32        // nested folders
)

// bounds are the limits of a folder.
type bounds struct {
	files, depth int
	file, bytes  int64
}

var usual = bounds{MaxFiles, MaxDepth, MaxFile, MaxBytes}

// Listing describes the content of a folder.
type Listing struct {
	Text  []byte // a line for each file: SHA-256, x or -, path
	Files int
	Bytes int64
}

// Digest returns the SHA-256 of the text.
func (l *Listing) Digest() [32]byte { return sha256.Sum256(l.Text) }

// List reads the folder at dir, which must not be a link.
func List(dir string) (*Listing, error) {
	l, err := walk(dir, nil, usual)
	if err != nil {
		return nil, fmt.Errorf("read the folder %s: %w", dir, err)
	}
	return l, nil
}

// Copy copies the folder at dir to the new folder at to and lists the copy. The copied files
// are read-only, and only this user has access. If Copy fails, it removes the new folder.
func Copy(dir, to string) (*Listing, error) {
	if err := os.Mkdir(to, 0o700); err != nil {
		return nil, fmt.Errorf("copy the folder %s: %w", dir, err)
	}
	target, err := os.OpenRoot(to)
	var l *Listing
	if err == nil {
		l, err = walk(dir, target, usual)
		err = errors.Join(err, target.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copy the folder %s: %w", dir, err), os.RemoveAll(to))
	}
	return l, nil
}

// walker walks a folder.
type walker struct {
	root   *os.Root
	target *os.Root // where files are copied to; nil for nowhere
	Listing
	most  bounds
	lines []line
	seen  int // number of files and folders
}

type line struct{ path, text string }

func walk(dir string, target *os.Root, most bounds) (*Listing, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%w: it is %s", gate.ErrInvalid, what(info.Mode()))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	w := &walker{root: root, target: target, most: most}
	if err := w.folder(".", 0); err != nil {
		return nil, err
	}
	slices.SortFunc(w.lines, func(a, b line) int { return cmp.Compare(a.path, b.path) })
	for _, l := range w.lines {
		w.Text = append(w.Text, l.text...)
	}
	return &w.Listing, nil
}

// folder walks the folder at name.
func (w *walker) folder(name string, depth int) error {
	if depth > w.most.depth {
		return fmt.Errorf("%s: %w: folders are nested deeper than %d", name, gate.ErrTooLarge, w.most.depth)
	}
	f, err := w.root.Open(name)
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(w.most.files + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if w.seen += len(entries); w.seen > w.most.files {
		return fmt.Errorf("%w: more than %d files and folders", gate.ErrTooLarge, w.most.files)
	}
	for _, e := range entries {
		if err := w.entry(path.Join(name, e.Name()), depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(name string, depth int) error {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return fmt.Errorf("%q: %w: its name is not printable", name, gate.ErrInvalid)
	}
	info, err := w.root.Lstat(name)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		if w.target != nil {
			if err := w.target.Mkdir(name, 0o700); err != nil {
				return err
			}
		}
		return w.folder(name, depth+1)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w: it is %s; only files and folders are allowed", name, gate.ErrInvalid, what(info.Mode()))
	}
	w.Files++
	w.Bytes += info.Size()
	switch {
	case info.Size() > w.most.file:
		return fmt.Errorf("%s: %w: more than %d bytes", name, gate.ErrTooLarge, w.most.file)
	case w.Bytes > w.most.bytes:
		return fmt.Errorf("%w: more than %d bytes", gate.ErrTooLarge, w.most.bytes)
	}
	return w.file(name, info)
}

// file reads one file. info is the result of an earlier stat.
func (w *walker) file(name string, info fs.FileInfo) error {
	// Must not block: the file may be a pipe by now.
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(now, info) || !now.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("%s: %w: it changed while it was read", name, gate.ErrInvalid), err)
	}
	h := sha256.New()
	mark, mode := "-", fs.FileMode(0o400)
	if info.Mode()&0o100 != 0 {
		mark, mode = "x", 0o500
	}
	var to io.Writer = h
	if w.target != nil {
		copied, err := w.target.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return err
		}
		defer copied.Close()
		to = io.MultiWriter(h, copied)
	}
	n, err := io.Copy(to, io.LimitReader(f, info.Size()+1))
	if err == nil && n != info.Size() {
		err = fmt.Errorf("%w: it changed while it was read", gate.ErrInvalid)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w.lines = append(w.lines, line{name, fmt.Sprintf("%s %s %s\n", hex.EncodeToString(h.Sum(nil)), mark, name)})
	return nil
}

// what returns the kind of a file with this mode.
func what(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a link"
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a folder"
	}
	return "a device, a pipe or a socket"
}

// Difference describes the first difference between two texts of listings to a person: a file
// that is new, missing or altered. It is empty if they are equal.
func Difference(before, now []byte) string {
	old, cur := parse(before), parse(now)
	all := maps.Clone(old)
	maps.Copy(all, cur)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, is := old[name], cur[name]
		switch {
		case was == is:
		case was == "":
			return name + " is new"
		case is == "":
			return name + " is missing"
		default:
			return name + " was altered"
		}
	}
	return ""
}

// parse returns what a text says of each path.
func parse(text []byte) map[string]string {
	files := map[string]string{}
	for one := range bytes.Lines(text) {
		said, name, _ := strings.Cut(string(bytes.TrimSuffix(one, []byte("\n"))), " ")
		mark, name, _ := strings.Cut(name, " ")
		files[name] = said + mark
	}
	return files
}

// Runs reports whether the folder has an executable file at path name.
func (l *Listing) Runs(name string) bool {
	said := parse(l.Text)[path.Clean(name)]
	return strings.HasSuffix(said, "x")
}
