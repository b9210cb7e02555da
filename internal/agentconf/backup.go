package agentconf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	backupSuffix = Infix + "backup"
	maxCopies    = 1000 // maximum number of copies of one kind beside a file
)

// backUp keeps a copy of f beside it. path is the agent's path of f.
func (p *Plan) backUp(f *file, path string) (string, error) {
	notes := p.notes()
	copied, err := f.copyFor(f.path, backupSuffix, notes)
	if err == nil && !notes.made(&file{path: copied, data: f.data}, f.path) {
		notes.put(&note{
			Kind: noteBackup, Target: f.path, Path: path, Name: filepath.Base(copied), After: digest(f.data), Lasts: p.env.Renew != "",
		})
	}
	return copied, err
}

// copyFor keeps the data of f in a file beside the configuration at path, whose name it
// extends, with the mode and owner of f, and verifies it. The copy is created completely or not
// at all. If a file of that name has the same content, it is used; if it has another content,
// it stays, and the copy gets a number.
func (f *file) copyFor(path, suffix string, notes notebook) (string, error) {
	folder := filepath.Dir(path)
	dir, err := openFolder(folder)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	temp := tempName(filepath.Base(path))
	n := &note{Kind: noteTemp, Target: path, Name: temp, After: digest(f.data)}
	notes.put(n)
	defer n.remove(notes)
	if _, err := f.create(dir, temp, f.data); err != nil {
		return "", err
	}
	for i := range maxCopies {
		copied := numbered(path+suffix, i)
		name := filepath.Base(copied)
		err := unix.Linkat(dir, temp, dir, name, 0) // never replaces a file
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", &fs.PathError{Op: "create", Path: copied, Err: err}
		}
		there, failed := readAt(dir, name, copied)
		if failed == nil && bytes.Equal(there.data, f.data) {
			return copied, syncOpen(dir, folder)
		}
		if err == nil {
			return "", fmt.Errorf("%s differs from what was written to it", copied)
		}
	}
	return "", fmt.Errorf("there are already %d copies %s*; remove those that you don't need", maxCopies, path+suffix)
}

// orSwap returns err, unless err reports that the file could not be written. In that case it
// swaps in the backup itself, which works on a full disk too.
func (f *file) orSwap(backup *file, err error, step func(string)) error {
	if err == nil || errors.Is(err, errChanged) || filepath.Dir(backup.path) != filepath.Dir(f.path) ||
		backup.mode != f.mode || backup.uid != f.uid || backup.gid != f.gid {
		return err
	}
	if failed := f.bringIn(filepath.Base(backup.path), backup.data); failed != nil {
		return errors.Join(failed, err)
	}
	step("backup swapped in")
	return nil
}

// freeName returns path, or path with a number, so that there is no such file.
func freeName(path string) string {
	for i := range maxCopies {
		if _, err := os.Lstat(numbered(path, i)); errors.Is(err, fs.ErrNotExist) {
			return numbered(path, i)
		}
	}
	return path
}

func numbered(path string, i int) string {
	if i == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, i)
}

// backupsOf returns the backups beside a file, latest first.
func backupsOf(path string) []*file {
	var found []*file
	for i := range maxCopies {
		f, err := readFile(numbered(path+backupSuffix, i))
		if errors.Is(err, fs.ErrNotExist) && i > 0 {
			break
		}
		if err == nil {
			found = append([]*file{f}, found...)
		}
	}
	return found
}
