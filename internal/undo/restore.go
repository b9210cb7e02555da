package undo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

// Result says what a restore did. Names are below the root.
type Result struct {
	Written int
	Same    int
	Kept    []Kept // what was there instead, and where it is now
	Failed  []Left // what could not be restored
}

// Kept is something that changed since the snapshot and was renamed.
type Kept struct{ Name, Now string }

const (
	tempPrefix = ".thoughtgate-undo-"
	keptInfix  = ".before-undo-"
	// batch is how many files are written to the disk together.
	batch = 64
	// attempts bounds how often something that appears at a name is renamed.
	attempts = 16
)

// Restore brings back what a snapshot has. digest is that of the plan that a person saw: if the
// files changed since, Restore does nothing and returns ErrChanged. An empty digest is not
// compared. Restore never overwrites: what differs is renamed. It may be called again after it
// was interrupted.
func (s *Store) Restore(ctx context.Context, id, digest string) (*Result, error) {
	r, err := s.begin(ctx, id)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if digest != "" {
		plan, err := r.plan()
		if err != nil {
			return nil, err
		}
		if plan.Digest != digest {
			return nil, ErrChanged
		}
	}
	if err := r.openRoot(); err != nil {
		return nil, err
	}
	return &r.result, r.run()
}

// run restores all items: for each folder, first what is in it, files in batches.
func (r *restorer) run() error {
	items := r.manifest.Items
	var parent *openFolder
	defer func() { parent.close() }()
	for n := 0; n < len(items); {
		if err := context.Cause(r.ctx); err != nil {
			return err
		}
		end := n + 1
		dir := path.Dir(string(items[n].Name))
		for end < len(items) && end-n < batch && path.Dir(string(items[end].Name)) == dir {
			end++
		}
		parent = r.openParent(parent, string(items[n].Name))
		if parent.err != nil {
			for k := n; k < end; k++ {
				r.fail(&items[k], parent.err)
			}
		} else if err := r.group(parent, items[n:end], n); err != nil {
			return err
		}
		n = end
	}
	return r.syncFolders()
}

func (r *restorer) fail(i *item, err error) {
	r.result.Failed = append(r.result.Failed, Left{i.Name, beneath.Explain(err).Error()})
}

// A staged item has been written under a temporary name.
type staged struct {
	item *item
	temp string
	file *os.File // nil for a link
}

// group restores items of one folder: all are written, then synced, then renamed. first is the
// number of the first one.
func (r *restorer) group(parent *openFolder, items []item, first int) error {
	var ready []staged
	for n := range items {
		i := &items[n]
		temp := tempPrefix + r.manifest.ID + "-" + strconv.Itoa(first+n)
		switch is, about := r.look(parent, i); {
		case is == isSame:
			r.result.Same++
			_ = parent.dir.Unlink(temp) // of an interrupted restore
			continue
		case is == isUnread:
			r.fail(i, errors.New(about))
			continue
		case i.Kind == kindFolder:
			if err := r.folder(parent.dir, i); err != nil {
				r.fail(i, err)
			}
			continue
		}
		w, err := r.stage(parent.dir, i, temp)
		if err != nil {
			if errors.Is(err, errAltered) || context.Cause(r.ctx) != nil {
				return errors.Join(err, closeAll(parent.dir, ready))
			}
			r.fail(i, err)
			continue
		}
		ready = append(ready, w)
		r.store.step("written")
	}
	if err := syncAll(ready); err != nil {
		return errors.Join(err, closeAll(parent.dir, ready))
	}
	for _, w := range ready {
		if err := r.place(parent.dir, w); err != nil {
			r.fail(w.item, errors.Join(err, parent.dir.Unlink(w.temp)))
		}
		w.close()
	}
	if n := len(r.touched); n == 0 || r.touched[n-1] != parent.name {
		r.touched = append(r.touched, parent.name)
	}
	return nil
}

// syncAll writes all files to the disk at the same time, since most of it is waiting.
func syncAll(ready []staged) error {
	return together(ready, func(w staged) error {
		if w.file == nil {
			return nil
		}
		return w.file.Sync()
	})
}

// syncFolders writes the names in all folders to the disk.
func (r *restorer) syncFolders() error {
	for names := range slices.Chunk(r.touched, batch) {
		err := together(names, func(name string) error {
			dir, err := r.root.Dir(name)
			if err != nil {
				return nil // renamed meanwhile
			}
			defer dir.Close()
			return dir.Sync()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// together calls do with each of some values at the same time.
func together[T any](values []T, do func(T) error) error {
	failed := make([]error, len(values))
	var group sync.WaitGroup
	for n, value := range values {
		group.Go(func() { failed[n] = do(value) })
	}
	group.Wait()
	return errors.Join(failed...)
}

func (w staged) close() {
	if w.file != nil {
		w.file.Close()
	}
}

func closeAll(dir *beneath.Dir, ready []staged) (err error) {
	for _, w := range ready {
		w.close()
		err = errors.Join(err, dir.Unlink(w.temp))
	}
	return err
}

// folder makes a folder in place of what is there.
func (r *restorer) folder(dir *beneath.Dir, i *item) error {
	base := path.Base(string(i.Name))
	return r.replace(dir, i, func() error {
		mode := i.Mode | 0o700 // files are to be written in it
		if err := dir.Mkdir(base, mode); err != nil {
			return err
		}
		r.store.step("folder made")
		made, err := dir.Dir(base)
		if err != nil {
			return err
		}
		defer made.Close()
		return made.Chmod(mode) // what the umask has taken away
	})
}

// errAltered reports that a copy is not what was copied.
var errAltered = errors.New("the snapshot was altered: a copy has other content")

// stage writes an item under a temporary name, which an interrupted restore may have left.
func (r *restorer) stage(dir *beneath.Dir, i *item, temp string) (w staged, err error) {
	if err := dir.Unlink(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return w, err
	}
	if i.Kind == kindLink {
		return staged{i, temp, nil}, dir.Symlink(string(i.Target), temp)
	}
	f, err := dir.Create(temp, 0o600)
	if err != nil {
		return w, err
	}
	if err = r.copy(f, i); err == nil {
		err = f.Chmod(fs.FileMode(i.Mode & 0o777))
	}
	if err == nil && !i.Mtime.IsZero() {
		err = beneath.SetMtime(f, i.Mtime)
	}
	if err != nil {
		f.Close()
		return w, errors.Join(err, dir.Unlink(temp))
	}
	return staged{i, temp, f}, nil
}

// copy writes the content of an item, which must be what was copied.
func (r *restorer) copy(f *os.File, i *item) error {
	name, at := dataName, i.At
	if i.Own != "" {
		name, at = i.Own, 0
	}
	source, _, err := r.dir.Open(name)
	if err != nil {
		return errors.Join(errAltered, err)
	}
	defer source.Close()
	sum := sha256.New()
	err = copyUpTo(r.ctx, io.MultiWriter(f, sum), io.NewSectionReader(source, at, i.Size), i.Size)
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != i.SHA256 {
		err = errAltered
	}
	return err
}

// place renames what was written.
func (r *restorer) place(dir *beneath.Dir, w staged) error {
	base := path.Base(string(w.item.Name))
	return r.replace(dir, w.item, func() error {
		err := dir.RenameNew(w.temp, base)
		if err == nil {
			r.store.step("renamed")
		}
		return err
	})
}

// replace calls create, which creates an item if nothing is at its name. What is there is renamed
// before, under a name that nothing can have.
func (r *restorer) replace(dir *beneath.Dir, i *item, create func() error) error {
	base := path.Base(string(i.Name))
	for range attempts {
		err := create()
		if err == nil {
			r.result.Written++
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		kept := keptName(base)
		if err := dir.RenameNew(base, kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		} else if err == nil {
			r.result.Kept = append(r.result.Kept, Kept{string(i.Name), path.Join(path.Dir(string(i.Name)), kept)})
			r.store.step("kept")
		}
	}
	return fmt.Errorf("something appears at %q again and again", base)
}

func keptName(base string) string {
	const longest = 255
	suffix := keptInfix + random(8)
	for len(base)+len(suffix) > longest {
		_, size := utf8.DecodeLastRuneInString(base)
		base = base[:len(base)-size]
	}
	return base + suffix
}
