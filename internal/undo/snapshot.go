package undo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

// smallBytes is up to which size files are kept together in one file, since a file for each of
// ten thousand takes far longer. Larger ones may share their content with the original on the
// disk.
const smallBytes = 1 << 20

// copyBytes is how much is copied until the context is asked again.
const copyBytes = 8 << 20

var ownFormat = regexp.MustCompile(`^own-\d{1,9}$`)

func isOwnName(name string) bool { return ownFormat.MatchString(name) }

// Snapshot copies what some names below a folder are and have. root must be an absolute path in
// which nothing is a link. If a file can't be copied, Info.Left has it; if they are too large
// together, there is no snapshot. label is kept with the snapshot, and means nothing here.
func (s *Store) Snapshot(ctx context.Context, label, root string, names ...string) (Info, error) {
	contents, err := s.Check(ctx, root, names...)
	if err != nil {
		return Info{}, err
	}
	if err := s.makeRoom(1, contents.Bytes); err != nil {
		return Info{}, err
	}
	id := s.newID()
	if err := s.dir.Mkdir(id, 0o700); err != nil {
		return Info{}, err
	}
	s.step("folder created")
	info, err := s.fill(ctx, id, label, root, names)
	if err != nil {
		return Info{}, errors.Join(err, s.Remove(id))
	}
	return info, nil
}

// fill makes the snapshot in its folder.
func (s *Store) fill(ctx context.Context, id, label, root string, names []string) (Info, error) {
	dir, err := s.open(id, unix.LOCK_EX)
	if err != nil {
		return Info{}, err
	}
	defer dir.Close()
	if _, err := s.dir.Lstat(id); err != nil {
		return Info{}, err // taken for one that a dead process left, before it was locked
	}
	top, err := openRoot(root)
	if err != nil {
		return Info{}, err
	}
	defer top.Close()
	place, err := top.Stat()
	if err != nil {
		return Info{}, err
	}
	data, err := dir.Create(dataName, 0o600)
	if err != nil {
		return Info{}, err
	}
	defer data.Close()
	w := writer{
		store: s, ctx: ctx, dir: dir, data: data, known: map[string]int64{}, left: s.limits.Bytes,
		manifest: &manifest{Version: manifestVersion, ID: id, Label: label, Root: fileName(root), Device: place.Dev, Inode: place.Ino, Made: s.now().UTC()},
	}
	for _, name := range names {
		w.manifest.Names = append(w.manifest.Names, fileName(name))
	}
	c := collector{ctx: ctx, store: s, root: top, add: w.add}
	if err := c.collect(names); err != nil {
		return Info{}, err
	}
	w.manifest.Contents = c.contents
	s.step("contents written")
	if err := data.Sync(); err != nil {
		return Info{}, err
	}
	if err := w.manifest.write(dir, s.step); err != nil {
		return Info{}, err
	}
	return w.manifest.info(), s.dir.Sync()
}

// writer writes one snapshot.
type writer struct {
	store    *Store
	ctx      context.Context
	dir      *beneath.Dir
	data     *os.File
	end      int64            // of data
	known    map[string]int64 // where a small content is in data, by its digest
	own      int              // files of their own
	left     int64            // bytes that may still be copied
	manifest *manifest
}

// add adds one file, folder or link.
func (w *writer) add(dir *beneath.Dir, base, name string, info beneath.Info) (err error) {
	i := item{Name: fileName(name), Mode: info.Perm()}
	switch {
	case info.IsDir():
		i.Kind = kindFolder
	case info.IsLink():
		i.Kind = kindLink
		var target string
		if target, err = dir.Readlink(base); err == nil {
			i.Target = fileName(target)
		}
	default:
		i.Kind = kindFile
		err = w.addFile(dir, base, &i)
	}
	if err == nil {
		w.manifest.Items = append(w.manifest.Items, i)
	}
	return err
}

// addFile copies a file.
func (w *writer) addFile(dir *beneath.Dir, base string, i *item) error {
	f, info, err := dir.Open(base)
	if err != nil {
		return err
	}
	defer f.Close()
	i.Mode, i.Mtime = info.Perm(), time.Unix(info.Mtime.Unix()).UTC()
	if info.Size > w.left {
		return errGrew
	}
	if info.Size <= smallBytes {
		err = w.addSmall(f, i)
	} else {
		err = w.addLarge(f, i)
	}
	w.left -= i.Size
	return err
}

// addSmall copies a file to the end of data, unless the same content is there already.
func (w *writer) addSmall(f *os.File, i *item) error {
	var content bytes.Buffer
	if _, err := io.Copy(&content, io.LimitReader(f, smallBytes+1)); err != nil {
		return err
	}
	if content.Len() > smallBytes {
		return errGrew
	}
	i.Size, i.SHA256 = int64(content.Len()), digestOf(content.Bytes())
	at, known := w.known[i.SHA256]
	if !known {
		if _, err := w.data.WriteAt(content.Bytes(), w.end); err != nil {
			return storeError{err}
		}
		at = w.end
		w.known[i.SHA256], w.end = at, w.end+i.Size
	}
	i.At = at
	return nil
}

// addLarge copies a file to one of its own.
func (w *writer) addLarge(f *os.File, i *item) error {
	i.Own = "own-" + strconv.Itoa(w.own)
	w.own++
	copied, err := w.dir.Clone(f, i.Own)
	if err != nil {
		if copied, err = w.dir.Create(i.Own, 0o600); err == nil {
			err = copyUpTo(w.ctx, copied, f, w.left)
		}
	}
	defer copied.Close()
	w.store.step("file copied")
	if err == nil {
		i.Size, i.SHA256, err = w.digest(i.Own)
	}
	if err == nil {
		err = copied.Sync()
	}
	if err != nil {
		return storeError{err}
	}
	return nil
}

// digest reads a copy, which is what a restore will be compared with.
func (w *writer) digest(own string) (int64, string, error) {
	f, info, err := w.dir.Open(own)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	if info.Size > w.left {
		return 0, "", errGrew
	}
	sum := sha256.New()
	err = copyUpTo(w.ctx, sum, f, info.Size)
	return info.Size, hex.EncodeToString(sum.Sum(nil)), err
}

// storeError is an error of the store, not of the files that are copied: there is no snapshot.
type storeError struct{ error }

// Unwrap returns the cause.
func (e storeError) Unwrap() error { return e.error }

var errGrew = fmt.Errorf("%w: a file grew meanwhile", ErrTooLarge)

// copyUpTo copies up to the end of r, which must not be longer than max. If the kernel can, it
// copies without reading.
func copyUpTo(ctx context.Context, w io.Writer, r io.Reader, max int64) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := io.CopyN(w, r, min(copyBytes, max+1))
		max -= n
		switch {
		case max < 0:
			return errGrew
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}
