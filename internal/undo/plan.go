package undo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

// A Plan says what a restore would do now. All names are below Info.Root and as the file system
// has them, so they must be made safe before they are shown.
type Plan struct {
	Info
	Write   []string // what is not there
	Replace []string // what is there and differs: it is renamed, and stays beside
	Same    int      // what is there as it was
	Failed  []Left   // what can't be looked at, and will not be restored
	// The folder was removed, and maybe made again, since the snapshot.
	RootGone, RootReplaced bool
	// Digest differs if what the plan says does. Restore compares it.
	Digest string
}

// A state says what a restore does with an item.
type state int

const (
	isSame state = iota
	isMissing
	isOther  // something else is there
	isUnread // it can't be looked at
)

// Plan says what a restore of a snapshot would do.
func (s *Store) Plan(ctx context.Context, id string) (*Plan, error) {
	r, err := s.begin(ctx, id)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return r.plan()
}

// restorer restores one snapshot.
type restorer struct {
	ctx      context.Context
	store    *Store
	dir      *beneath.Dir // of the snapshot
	manifest *manifest
	root     *beneath.Dir // nil if it is gone
	result   Result
	touched  []string // folders in which something was made
}

// begin opens a snapshot and its root.
func (s *Store) begin(ctx context.Context, id string) (*restorer, error) {
	dir, err := s.open(id, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	r := &restorer{ctx: ctx, store: s, dir: dir}
	r.manifest, err = readManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNoSnapshot
	}
	if err == nil {
		r.root, err = openRoot(string(r.manifest.Root))
		if errors.Is(err, fs.ErrNotExist) {
			r.root, err = nil, nil
		}
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *restorer) close() {
	r.root.Close()
	r.dir.Close()
}

// plan compares every item with what is there.
func (r *restorer) plan() (*Plan, error) {
	p := &Plan{Info: r.manifest.info(), RootGone: r.root == nil}
	if r.root != nil {
		info, err := r.root.Stat()
		if err != nil {
			return nil, err
		}
		p.RootReplaced = info.Dev != r.manifest.Device || info.Ino != r.manifest.Inode
	}
	// Folders that will be made, so that nothing is in them.
	made := map[string]bool{".": r.root == nil}
	digest := sha256.New()
	fmt.Fprintf(digest, "%s %v %v\n", p.Info.Digest, p.RootGone, p.RootReplaced)
	var parent *openFolder
	defer func() { parent.close() }()
	for n := range r.manifest.Items {
		if err := context.Cause(r.ctx); err != nil {
			return nil, err
		}
		i := &r.manifest.Items[n]
		name := string(i.Name)
		is, about := isMissing, ""
		if !made[path.Dir(name)] {
			parent = r.openParent(parent, name)
			is, about = r.look(parent, i)
		}
		made[name] = i.Kind == kindFolder && is != isSame
		fmt.Fprintf(digest, "%d %s %s\x00", is, about, name)
		switch is {
		case isSame:
			p.Same++
		case isMissing:
			p.Write = append(p.Write, name)
		case isOther:
			p.Replace = append(p.Replace, name)
		default:
			p.Failed = append(p.Failed, Left{i.Name, about})
		}
	}
	p.Digest = hex.EncodeToString(digest.Sum(nil))
	return p, nil
}

// openFolder is the folder that was used last: most items are in the same as the one before.
type openFolder struct {
	name string
	dir  *beneath.Dir
	err  error
}

func (f *openFolder) close() {
	if f != nil {
		f.dir.Close()
	}
}

// openParent opens the folder of a name, or returns last if it is that.
func (r *restorer) openParent(last *openFolder, name string) *openFolder {
	dir := path.Dir(name)
	if last != nil && last.name == dir {
		return last
	}
	last.close()
	f := &openFolder{name: dir}
	f.dir, f.err = r.root.Dir(dir)
	return f
}

// look compares an item with what is there. about says what was seen, so that another change can
// be told from it.
func (r *restorer) look(parent *openFolder, i *item) (is state, about string) {
	if parent.err != nil {
		return isUnread, beneath.Explain(parent.err).Error()
	}
	base := path.Base(string(i.Name))
	info, err := parent.dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return isMissing, ""
	case err != nil:
		return isUnread, err.Error()
	case info.IsDir():
		if i.Kind == kindFolder {
			return isSame, ""
		}
		return isOther, "folder"
	case info.IsLink():
		target, err := parent.dir.Readlink(base)
		if err == nil && i.Kind == kindLink && target == string(i.Target) {
			return isSame, ""
		}
		return isOther, target
	case !info.IsRegular() || i.Kind != kindFile:
		return isOther, info.Kind()
	}
	about = fmt.Sprint(info.Size, info.Mtime, info.Ctime, info.Ino)
	if info.Size != i.Size || info.Perm() != i.Mode {
		return isOther, about
	}
	f, _, err := parent.dir.Open(base)
	if err != nil {
		return isOther, about
	}
	defer f.Close()
	sum := sha256.New()
	if err := copyUpTo(r.ctx, sum, f, i.Size); err == nil && hex.EncodeToString(sum.Sum(nil)) == i.SHA256 {
		return isSame, ""
	}
	return isOther, about
}

// openRoot makes the root if it is gone.
func (r *restorer) openRoot() error {
	if r.root != nil {
		return nil
	}
	path := string(r.manifest.Root)
	above, err := beneath.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("the folder of the files is gone, and so is the one around it; make %s first: %w", filepath.Dir(path), beneath.Explain(err))
	}
	defer above.Close()
	if err := above.Mkdir(filepath.Base(path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	r.store.step("root made")
	r.root, err = above.Dir(filepath.Base(path))
	return errors.Join(err, above.Sync())
}
