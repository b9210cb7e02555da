package worktree

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
)

const (
	maxIndexBytes = 64 << 20
	maxNameBytes  = 4096
	maxNamesBytes = 128 << 20 // of all names together, which version 4 compresses
)

// objectID is the name of an object. One of SHA-1 ends in zeros.
type objectID [32]byte

// An entry is one file of the index.
type entry struct {
	name         string
	id           objectID
	mode         uint32
	ctime, mtime [2]uint32 // seconds, nanoseconds
	ino          uint32
	uid, gid     uint32
	size         uint32
	stage        uint8 // other than 0 while a conflict is unresolved
	skipped      bool  // the file is left out of the work tree
	intended     bool  // `git add -N`: it has no content yet
}

const (
	modeKind    = 0o170000
	modeTree    = 0o040000
	modeLink    = 0o120000
	modeGitlink = 0o160000 // a submodule
)

// index is git's list of the files that the next commit will have.
type index struct {
	entries []entry             // by name and stage
	trees   map[string]objectID // the trees of those folders that are as a commit has them
	mtime   [2]uint32           // of the index file
}

var errIndex = errors.New("the index is corrupt")

// parseIndex reads an index of versions 2 to 4, whose object names have hash bytes.
func parseIndex(data []byte, hash int) (*index, error) {
	if len(data) < 12+hash || string(data[:4]) != "DIRC" {
		return nil, errIndex
	}
	if err := checkSum(data, hash); err != nil {
		return nil, err
	}
	version, count := binary.BigEndian.Uint32(data[4:]), binary.BigEndian.Uint32(data[8:])
	if version < 2 || version > 4 {
		return nil, fmt.Errorf("the index has version %d, which is not read", version)
	}
	p := indexParser{data: data[12 : len(data)-hash], hash: hash, version: version}
	if uint64(count)*uint64(40+hash+2+2) > uint64(len(p.data)) {
		return nil, errIndex
	}
	x := &index{entries: make([]entry, 0, count)}
	for range count {
		e, err := p.next()
		if err != nil {
			return nil, err
		}
		if n := len(x.entries); n > 0 {
			last := &x.entries[n-1]
			if c := strings.Compare(last.name, e.name); c > 0 || c == 0 && last.stage >= e.stage {
				return nil, errIndex
			}
		}
		x.entries = append(x.entries, e)
	}
	return x, x.parseExtensions(p.data, hash)
}

// checkSum compares the checksum at the end of an index, which git may be told to leave out.
func checkSum(data []byte, size int) error {
	body, sum := data[:len(data)-size], data[len(data)-size:]
	if isZero(sum) {
		return nil
	}
	h := newHash(size)
	h.Write(body)
	if !bytes.Equal(h.Sum(nil), sum) {
		return errIndex
	}
	return nil
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

func newHash(size int) hash.Hash {
	if size == sha256.Size {
		return sha256.New()
	}
	return sha1.New()
}

type indexParser struct {
	data    []byte
	hash    int
	version uint32
	last    string // name, which version 4 continues
	names   int    // bytes of all names
}

func (p *indexParser) next() (e entry, err error) {
	fixed := 40 + p.hash + 2
	if len(p.data) < fixed+2 {
		return e, errIndex
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(p.data[at:]) }
	e.ctime, e.mtime = [2]uint32{u32(0), u32(4)}, [2]uint32{u32(8), u32(12)}
	e.ino, e.mode, e.uid, e.gid, e.size = u32(20), u32(24), u32(28), u32(32), u32(36)
	copy(e.id[:], p.data[40:40+p.hash])
	flags := binary.BigEndian.Uint16(p.data[40+p.hash:])
	e.stage = uint8(flags >> 12 & 3)
	if flags&0x4000 != 0 {
		if p.version < 3 {
			return e, errIndex
		}
		more := binary.BigEndian.Uint16(p.data[fixed:])
		e.skipped, e.intended = more&0x4000 != 0, more&0x2000 != 0
		fixed += 2
	}
	rest := p.data[fixed:]
	prefix := ""
	if p.version == 4 {
		strip, n := varint(rest)
		if n == 0 || strip > uint64(len(p.last)) {
			return e, errIndex
		}
		prefix, rest, fixed = p.last[:len(p.last)-int(strip)], rest[n:], fixed+n
	}
	end := bytes.IndexByte(rest[:min(len(rest), maxNameBytes+1)], 0)
	if end < 0 {
		return e, errIndex
	}
	e.name = prefix + string(rest[:end])
	used := fixed + end + 1
	if p.version < 4 { // filled up with zeros to a multiple of 8
		used = (fixed + end + 8) &^ 7
	}
	p.names += len(e.name)
	if !isEntryName(e.name, e.mode) || used > len(p.data) || p.names > maxNamesBytes {
		return e, errIndex
	}
	p.last, p.data = e.name, p.data[used:]
	return e, nil
}

// isEntryName reports whether git would have such a name in an index. One of a folder, which a
// sparse index has, ends in a slash.
func isEntryName(name string, mode uint32) bool {
	if mode&modeKind == modeTree {
		name = strings.TrimSuffix(name, "/")
	}
	if name == "" || len(name) > maxNameBytes {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "", part == ".", part == "..", strings.EqualFold(part, dotGit):
			return false
		}
	}
	return true
}

// varint reads a number in the way of offsets in a pack. n is 0 if it does not end.
func varint(b []byte) (value uint64, n int) {
	for n < len(b) && n < 8 {
		c := b[n]
		value |= uint64(c & 0x7f)
		n++
		if c&0x80 == 0 {
			return value, n
		}
		value = (value + 1) << 7
	}
	return 0, 0
}

// parseExtensions reads what follows the entries.
func (x *index) parseExtensions(data []byte, hash int) error {
	for len(data) > 0 {
		if len(data) < 8 {
			return errIndex
		}
		name, size := string(data[:4]), binary.BigEndian.Uint32(data[4:])
		if data = data[8:]; uint64(size) > uint64(len(data)) {
			return errIndex
		}
		body := data[:size]
		data = data[size:]
		switch {
		case name == "TREE":
			if err := x.parseTrees(body, hash); err != nil {
				return err
			}
		case name == "sdir": // some entries are folders, which lookup knows
		case name[0] < 'A' || name[0] > 'Z': // means more than its reader may skip
			return fmt.Errorf("the index has a part that is not read (%.10q)", name)
		}
	}
	return nil
}

// parseTrees reads the names of the trees of unchanged folders.
func (x *index) parseTrees(data []byte, hash int) error {
	x.trees = map[string]objectID{}
	type folder struct {
		name string
		left int // folders in it to come
	}
	var above []folder
	names := 0 // bytes of all of them
	for len(data) > 0 {
		name, rest, ok := bytes.Cut(data, []byte{0})
		counts, body, ok2 := bytes.Cut(rest, []byte{'\n'})
		entries, subtrees, ok3 := strings.Cut(string(counts[:min(len(counts), 40)]), " ")
		count, err := strconv.Atoi(entries)
		left, err2 := strconv.Atoi(subtrees)
		if !ok || !ok2 || !ok3 || err != nil || err2 != nil || left < 0 {
			return errIndex
		}
		full := string(name)
		if n := len(above); n > 0 {
			if above[n-1].left == 0 {
				return errIndex
			}
			above[n-1].left--
			full = joinName(above[n-1].name, full)
		} else if len(x.trees) > 0 || full != "" {
			return errIndex
		}
		if data = body; count >= 0 {
			if len(data) < hash {
				return errIndex
			}
			var id objectID
			copy(id[:], data[:hash])
			x.trees[full], data = id, data[hash:]
		}
		if names += len(full); len(full) > maxNameBytes || names > maxNamesBytes {
			return errIndex
		}
		above = append(above, folder{full, left})
		for len(above) > 0 && above[len(above)-1].left == 0 {
			above = above[:len(above)-1]
		}
	}
	return nil
}

func joinName(dir, name string) string {
	if dir == "" || dir == "." {
		return name
	}
	return dir + "/" + name
}

// find returns where the entries of name begin, or would.
func (x *index) find(name string) int {
	at, _ := slices.BinarySearchFunc(x.entries, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
	return at
}

// lookup returns the first entry of a file and its number, or nil.
func (x *index) lookup(name string) (*entry, int) {
	if at := x.find(name); at < len(x.entries) && x.entries[at].name == name {
		return &x.entries[at], at
	}
	return nil, -1
}

// hasBelow reports whether there is an entry below a folder.
func (x *index) hasBelow(dir string) bool {
	if dir == "." {
		return len(x.entries) > 0
	}
	at := x.find(dir + "/")
	return at < len(x.entries) && strings.HasPrefix(x.entries[at].name, dir+"/")
}

// isLeftOut reports whether a sparse index has an entry for a folder of name instead of one for
// each file.
func (x *index) isLeftOut(name string) bool {
	for at := strings.IndexByte(name, '/'); at >= 0; {
		if e, _ := x.lookup(name[:at+1]); e != nil {
			return true
		}
		next := strings.IndexByte(name[at+1:], '/')
		if next < 0 {
			return false
		}
		at += 1 + next
	}
	return false
}
