package worktree

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

const (
	maxPacks = 256
	maxChain = 4096 // deltas on deltas; git makes no longer ones
)

var errPack = errors.New("a pack is corrupt")

// A pack is one file of many objects, with its index. The files stay open, and are read at
// offsets, since a mapped file that is cut short would end the program.
type pack struct {
	dir   *beneath.Dir
	name  string // without .idx
	hash  int
	index io.ReaderAt
	size  int64 // of index
	count uint32
	data  io.ReaderAt // nil until it is needed
	end   int64       // of the objects in data
	files []*os.File
}

// listPacks opens the indexes of all packs.
func (o *objects) listPacks() error {
	if o.listed {
		return nil
	}
	o.listed = true
	folder, err := o.dir.Dir("pack")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return beneath.Explain(err)
	}
	defer folder.Close()
	names, all, err := folder.Names(16 * maxPacks)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		base, ok := strings.CutSuffix(name, ".idx")
		if !ok {
			continue
		}
		if len(o.packs) == maxPacks || !all {
			return errors.New("the repository has more packs than are read")
		}
		f, info, err := o.dir.Open("pack/" + name)
		if err != nil {
			return beneath.Explain(err)
		}
		p := &pack{dir: o.dir, name: "pack/" + base, hash: o.hash, index: f, size: info.Size, files: []*os.File{f}}
		o.packs = append(o.packs, p)
		if err := p.check(); err != nil {
			return err
		}
	}
	return nil
}

func (p *pack) close() {
	for _, f := range p.files {
		f.Close()
	}
}

const (
	idxHeader = 8
	idxNames  = idxHeader + 256*4
)

// check reads the header of the index.
func (p *pack) check() error {
	var head [idxNames]byte
	if _, err := p.index.ReadAt(head[:], 0); err != nil {
		return errPack
	}
	if string(head[:4]) != "\xfftOc" || binary.BigEndian.Uint32(head[4:]) != 2 {
		return errors.New("a pack has an index of a version that is not read")
	}
	p.count = binary.BigEndian.Uint32(head[idxNames-4:])
	if idxNames+int64(p.count)*int64(p.hash+8)+2*int64(p.hash) > p.size {
		return errPack
	}
	return nil
}

func (p *pack) uint32At(at int64) (uint32, error) {
	var b [4]byte
	if _, err := p.index.ReadAt(b[:], at); err != nil {
		return 0, errPack
	}
	return binary.BigEndian.Uint32(b[:]), nil
}

// find returns where an object is in the pack, or 0.
func (p *pack) find(id objectID) (int64, error) {
	low, high := uint32(0), uint32(0)
	var err error
	if id[0] > 0 {
		if low, err = p.uint32At(idxHeader + 4*int64(id[0]-1)); err != nil {
			return 0, err
		}
	}
	if high, err = p.uint32At(idxHeader + 4*int64(id[0])); err != nil || low > high || high > p.count {
		return 0, errPack
	}
	name := make([]byte, p.hash)
	for low < high {
		mid := low + (high-low)/2
		if _, err := p.index.ReadAt(name, idxNames+int64(mid)*int64(p.hash)); err != nil {
			return 0, errPack
		}
		switch strings.Compare(string(name), string(id[:p.hash])) {
		case 0:
			return p.offset(int64(mid))
		case -1:
			low = mid + 1
		default:
			high = mid
		}
	}
	return 0, nil
}

// offset returns where the nth object of the index is.
func (p *pack) offset(n int64) (int64, error) {
	short := idxNames + int64(p.count)*int64(p.hash+4)
	at, err := p.uint32At(short + 4*n)
	if err != nil {
		return 0, err
	}
	if at&(1<<31) == 0 {
		return p.checkOffset(int64(at))
	}
	var b [8]byte
	if _, err := p.index.ReadAt(b[:], short+4*int64(p.count)+8*int64(at&^(1<<31))); err != nil {
		return 0, errPack
	}
	return p.checkOffset(int64(binary.BigEndian.Uint64(b[:])))
}

const packHeader = 12

func (p *pack) checkOffset(at int64) (int64, error) {
	if at < packHeader {
		return 0, errPack
	}
	return at, nil
}

// open opens the pack itself.
func (p *pack) open() error {
	if p.data != nil {
		return nil
	}
	f, info, err := p.dir.Open(p.name + ".pack")
	if err != nil {
		return beneath.Explain(err)
	}
	p.files = append(p.files, f)
	return p.openData(f, info.Size)
}

func (p *pack) openData(data io.ReaderAt, size int64) error {
	var head [packHeader]byte
	if _, err := data.ReadAt(head[:], 0); err != nil || string(head[:4]) != "PACK" {
		return errPack
	}
	if v := binary.BigEndian.Uint32(head[4:]); v != 2 && v != 3 {
		return errPack
	}
	p.data, p.end = data, size-int64(p.hash)
	return nil
}

// A packed is the header of an object in a pack.
type packed struct {
	kind  int
	size  uint64
	data  int64    // where its content begins
	base  int64    // of a delta: where the other object is
	other objectID // or which it is
}

func (p *pack) header(at int64) (h packed, err error) {
	if at < packHeader || at >= p.end {
		return h, errPack
	}
	buffer := make([]byte, min(64, p.end-at))
	if _, err := p.data.ReadAt(buffer, at); err != nil {
		return h, errPack
	}
	c := buffer[0]
	h.kind, h.size = int(c>>4&7), uint64(c&15)
	n := 1
	for shift := 4; c&0x80 != 0; shift += 7 {
		if n == len(buffer) || shift > 56 {
			return h, errPack
		}
		c = buffer[n]
		h.size |= uint64(c&0x7f) << shift
		n++
	}
	switch h.kind {
	case kindCommit, kindTree, kindBlob, kindTag:
	case kindOfsDelta:
		back, used := varint(buffer[n:])
		// Only backwards, so that no chain of these comes back to where it began.
		if used == 0 || back == 0 || back > uint64(at-packHeader) {
			return h, errPack
		}
		h.base, n = at-int64(back), n+used
	case kindRefDelta:
		if len(buffer) < n+p.hash {
			return h, errPack
		}
		copy(h.other[:], buffer[n:n+p.hash])
		n += p.hash
	default:
		return h, errPack
	}
	h.data = at + int64(n)
	return h, nil
}

// readPacked unpacks the object at an offset of a pack: a chain of deltas down to an object that
// is whole, then up again.
func (o *objects) readPacked(ctx context.Context, p *pack, at int64) (object, error) {
	if err := p.open(); err != nil {
		return object{}, err
	}
	type step struct {
		at    int64
		delta []byte
	}
	var chain []step
	var obj object
	for {
		if err := ctx.Err(); err != nil {
			return object{}, err
		}
		if cached, ok := o.cached[place{p, at}]; ok {
			obj = cached
			break
		}
		h, err := p.header(at)
		if err != nil {
			return object{}, err
		}
		z, err := o.inflater.reset(io.NewSectionReader(p.data, h.data, p.end-h.data))
		if err != nil {
			return object{}, err
		}
		data, err := o.readExactly(z, h.size)
		if err != nil {
			return object{}, err
		}
		if h.kind < kindOfsDelta {
			obj = object{h.kind, data}
			o.keep(place{p, at}, obj)
			break
		}
		chain = append(chain, step{at, data})
		if at = h.base; h.kind == kindRefDelta {
			if at, err = p.find(h.other); err == nil && at == 0 {
				err = errNoObject // such packs are only sent, never stored
			}
		}
		if err == nil && len(chain) > maxChain {
			err = errPack
		}
		if err != nil {
			return object{}, err
		}
	}
	for _, s := range slices.Backward(chain) {
		data, err := o.applyDelta(obj.data, s.delta)
		if err != nil {
			return object{}, err
		}
		obj.data = data
		o.keep(place{p, s.at}, obj)
	}
	return obj, nil
}

// keep keeps an object that may be the base of others.
func (o *objects) keep(at place, obj object) {
	if o.cachedSize += len(obj.data); o.cached == nil || o.cachedSize > maxCacheBytes {
		o.cached, o.cachedSize = map[place]object{}, len(obj.data)
	}
	o.cached[at] = obj
}

// applyDelta makes an object of another one and of what differs.
func (o *objects) applyDelta(base, delta []byte) ([]byte, error) {
	from, n := deltaSize(delta)
	to, m := deltaSize(delta[n:])
	if n == 0 || m == 0 || from != uint64(len(base)) || to > maxObjectBytes {
		return nil, errPack
	}
	if o.budget -= int64(to); o.budget < 0 {
		return nil, errBudget
	}
	delta = delta[n+m:]
	out := make([]byte, 0, min(to, 64<<10))
	for len(delta) > 0 {
		var part []byte
		op := delta[0]
		delta = delta[1:]
		if op&0x80 == 0 { // bytes that follow
			if op == 0 || int(op) > len(delta) {
				return nil, errPack
			}
			part, delta = delta[:op], delta[op:]
		} else { // bytes of base
			var args [7]uint64
			for i := range args {
				if op&(1<<i) != 0 {
					if len(delta) == 0 {
						return nil, errPack
					}
					args[i], delta = uint64(delta[0]), delta[1:]
				}
			}
			offset := args[0] | args[1]<<8 | args[2]<<16 | args[3]<<24
			size := args[4] | args[5]<<8 | args[6]<<16
			if size == 0 {
				size = 0x10000
			}
			if offset+size > uint64(len(base)) {
				return nil, errPack
			}
			part = base[offset : offset+size]
		}
		if uint64(len(out)+len(part)) > to {
			return nil, errPack
		}
		out = append(out, part...)
	}
	if uint64(len(out)) != to {
		return nil, errPack
	}
	return out, nil
}

// deltaSize reads a size at the beginning of a delta.
func deltaSize(b []byte) (size uint64, n int) {
	for shift := 0; n < len(b) && shift < 63; shift += 7 {
		c := b[n]
		size |= uint64(c&0x7f) << shift
		n++
		if c&0x80 == 0 {
			return size, n
		}
	}
	return 0, 0
}
