package worktree

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

const (
	maxObjectBytes = 32 << 20 // of a commit or tree; blobs are never read
	maxCacheBytes  = 32 << 20
)

var (
	errObject = errors.New("an object is corrupt")
	// errNoObject reports that an object is not in this repository, or not in a place that is
	// read: it may be in an alternate, or was never fetched.
	errNoObject = errors.New("an object is not in this repository")
	errBudget   = errors.New("there is more to unpack than the limit allows")
)

// The kinds of objects, as packs number them.
const (
	kindCommit   = 1
	kindTree     = 2
	kindBlob     = 3
	kindTag      = 4
	kindOfsDelta = 6
	kindRefDelta = 7
)

var kindNames = map[string]int{"commit": kindCommit, "tree": kindTree, "blob": kindBlob, "tag": kindTag}

// An object is an unpacked object.
type object struct {
	kind int
	data []byte
}

// objects reads the objects of a repository, loose and packed. It must be closed.
type objects struct {
	dir    *beneath.Dir
	hash   int
	budget int64 // bytes that may still be unpacked
	packs  []*pack
	listed bool

	cached     map[place]object // bases of deltas
	cachedSize int
	inflater   inflater
}

// place is where an object is in a pack.
type place struct {
	pack *pack
	at   int64
}

func (t *Tree) openObjects() (*objects, error) {
	if t.unreadable != nil {
		return nil, t.unreadable
	}
	dir, err := t.common.Dir("objects")
	if err != nil {
		return nil, beneath.Explain(err)
	}
	return &objects{dir: dir, hash: t.hash, budget: t.limits.Objects}, nil
}

func (o *objects) close() {
	for _, p := range o.packs {
		p.close()
	}
	o.dir.Close()
}

func (o *objects) format(id objectID) string { return hex.EncodeToString(id[:o.hash]) }

// parseID reads the name of an object in hexadecimal digits.
func parseID(text string, hash int) (id objectID, ok bool) {
	if len(text) != 2*hash {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(text))
	return id, err == nil
}

// read returns an object.
func (o *objects) read(ctx context.Context, id objectID) (object, error) {
	if err := ctx.Err(); err != nil {
		return object{}, err
	}
	name := o.format(id)
	obj, err := o.readLoose(name[:2] + "/" + name[2:])
	if !errors.Is(err, fs.ErrNotExist) {
		return obj, err
	}
	if err := o.listPacks(); err != nil {
		return object{}, err
	}
	for n, p := range o.packs {
		at, err := p.find(id)
		switch {
		case err != nil:
			return object{}, err
		case at == 0:
			continue
		}
		o.packs[0], o.packs[n] = p, o.packs[0] // the next one is likely to be in the same
		return o.readPacked(ctx, p, at)
	}
	if _, err := o.dir.Lstat("info/alternates"); err == nil {
		return object{}, fmt.Errorf("%w: it borrows objects from another one", errNoObject)
	}
	return object{}, errNoObject
}

// readKind returns an object that has to be of a kind.
func (o *objects) readKind(ctx context.Context, id objectID, kind int) ([]byte, error) {
	obj, err := o.read(ctx, id)
	if err == nil && obj.kind != kind {
		err = errObject
	}
	return obj.data, err
}

func (o *objects) readLoose(name string) (object, error) {
	f, _, err := o.dir.Open(name)
	if err != nil {
		return object{}, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 4<<10)
	z, err := zlib.NewReader(in)
	if err != nil {
		return object{}, errObject
	}
	out := bufio.NewReaderSize(z, 64)
	head, err := out.ReadSlice(0)
	if err != nil || len(head) > 32 {
		return object{}, errObject
	}
	kind, digits, _ := strings.Cut(string(head[:len(head)-1]), " ")
	size, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || kindNames[kind] == 0 {
		return object{}, errObject
	}
	data, err := o.readExactly(out, size)
	return object{kindNames[kind], data}, err
}

// readExactly reads what has to be size bytes long.
func (o *objects) readExactly(r io.Reader, size uint64) ([]byte, error) {
	if size > maxObjectBytes {
		return nil, fmt.Errorf("an object is larger than %d MiB", maxObjectBytes>>20)
	}
	if o.budget -= int64(size); o.budget < 0 {
		return nil, errBudget
	}
	// The memory grows with what comes, not with what a header says.
	var data bytes.Buffer
	data.Grow(int(min(size, 64<<10)) + bytes.MinRead)
	if n, err := io.Copy(&data, io.LimitReader(r, int64(size)+1)); err != nil || n != int64(size) {
		return nil, errObject
	}
	return data.Bytes(), nil
}

// inflater is a decompressor that is used again and again.
type inflater struct {
	in *bufio.Reader
	z  io.ReadCloser
}

func (i *inflater) reset(r io.Reader) (io.Reader, error) {
	if i.in == nil {
		i.in = bufio.NewReaderSize(r, 4<<10)
	} else {
		i.in.Reset(r)
	}
	var err error
	if i.z == nil {
		i.z, err = zlib.NewReader(i.in)
	} else {
		err = i.z.(zlib.Resetter).Reset(i.in, nil)
	}
	if err != nil {
		return nil, errObject
	}
	return i.z, nil
}

// A treeEntry is one name in a tree.
type treeEntry struct {
	mode uint32
	id   objectID
}

// parseTree reads a tree.
func parseTree(data []byte, hash int) (map[string]treeEntry, error) {
	tree := map[string]treeEntry{}
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, ok2 := strings.Cut(string(head), " ")
		bits, err := strconv.ParseUint(mode, 8, 32)
		if !ok || !ok2 || err != nil || len(rest) < hash {
			return nil, errObject
		}
		e := treeEntry{mode: uint32(bits)}
		copy(e.id[:], rest[:hash])
		tree[name], data = e, rest[hash:]
	}
	return tree, nil
}

// A commit is what is needed of a commit.
type commit struct {
	tree    objectID
	parents []objectID
	when    int64
	author  string
	subject string
}

// parseCommit reads a commit.
func parseCommit(data []byte, hash int) (c commit, err error) {
	head, body, _ := bytes.Cut(data, []byte("\n\n"))
	for n, line := range strings.Split(string(head), "\n") {
		key, value, _ := strings.Cut(line, " ")
		if n == 0 && key != "tree" {
			return c, errObject
		}
		switch key {
		case "tree", "parent":
			id, ok := parseID(value, hash)
			if !ok || key == "tree" && n != 0 {
				return c, errObject
			}
			if key == "tree" {
				c.tree = id
			} else {
				c.parents = append(c.parents, id)
			}
		case "author":
			c.author, _, _ = strings.Cut(value, " <")
		case "committer":
			c.when = commitTime(value)
		}
	}
	subject, _, _ := bytes.Cut(bytes.TrimLeft(body, "\n"), []byte("\n"))
	c.subject = string(subject[:min(len(subject), 200)])
	c.author = c.author[:min(len(c.author), 100)]
	return c, nil
}

// commitTime returns the seconds of "Name <address> seconds zone".
func commitTime(value string) int64 {
	fields := strings.Fields(value[strings.LastIndexByte(value, '>')+1:])
	if len(fields) == 0 {
		return 0
	}
	when, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0
	}
	return max(0, min(when, math.MaxInt64/2))
}
