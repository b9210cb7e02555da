package worktree

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// packOf returns the pack of a repository with deltas, and its index.
func packOf(t testing.TB) (idx, data []byte) {
	t.Helper()
	r := newRepo(t)
	for n := range 8 {
		for file := range 40 {
			r.write(fmt.Sprintf("d/file-with-a-long-name-%d", file), fmt.Sprint(n, file%7))
		}
		r.commit("commit " + fmt.Sprint(n))
	}
	r.git("gc", "-q", "--aggressive")
	names, err := filepath.Glob(r.dir + "/.git/objects/pack/*.idx")
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	idx, err = os.ReadFile(names[0])
	if err == nil {
		data, err = os.ReadFile(strings.TrimSuffix(names[0], ".idx") + ".pack")
	}
	if err != nil {
		t.Fatal(err)
	}
	return idx, data
}

func openPack(idx, data []byte) (*pack, error) {
	p := &pack{hash: 20, index: bytes.NewReader(idx), size: int64(len(idx))}
	if err := p.check(); err != nil {
		return nil, err
	}
	return p, p.openData(bytes.NewReader(data), int64(len(data)))
}

func FuzzPack(f *testing.F) {
	idx, data := packOf(f)
	f.Add(idx, data, uint16(12))
	f.Add(idx, data, uint16(len(data)/2))
	for name, hostile := range hostilePacks() {
		_ = name
		f.Add(idx, hostile, uint16(12))
	}
	f.Fuzz(func(t *testing.T, idx, data []byte, at uint16) {
		p, err := openPack(idx, data)
		if err != nil {
			return
		}
		o := &objects{hash: 20, budget: 1 << 20}
		read := func(at int64) {
			obj, err := o.readPacked(context.Background(), p, at)
			if err != nil {
				return
			}
			_, _ = parseTree(obj.data, 20)
			_, _ = parseCommit(obj.data, 20)
		}
		read(int64(at))
		for n := range min(int64(p.count), 16) {
			var id objectID
			if _, err := p.index.ReadAt(id[:20], idxNames+n*20); err != nil {
				return
			}
			if at, err := p.find(id); err == nil {
				read(at)
			}
		}
		if o.budget > 1<<20 {
			t.Error("the budget has grown")
		}
	})
}

func FuzzIndex(f *testing.F) {
	for _, version := range []string{"2", "3", "4"} {
		r := newRepo(f)
		r.git("config", "index.version", version)
		for _, name := range []string{"a", "d/b", "d/c", "d/e/f"} {
			r.write(name, name)
		}
		r.commit("1")
		r.write("new", "1")
		r.git("add", "-N", "new")
		r.git("update-index", "--skip-worktree", "a")
		data, err := os.ReadFile(r.dir + "/.git/index")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(append([]byte("DIRC\x00\x00\x00\x02\xff\xff\xff\xff"), make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 20 {
			clear(data[len(data)-20:]) // as if git had been told to leave out the checksum
		}
		x, err := parseIndex(data, 20)
		if err != nil {
			return
		}
		for n := range x.entries {
			e, _ := x.lookup(x.entries[n].name)
			if e == nil || e.name != x.entries[n].name {
				t.Fatalf("entry %d, %q, is not found", n, x.entries[n].name)
			}
			if dir, _, ok := strings.Cut(e.name, "/"); ok && !x.hasBelow(dir) {
				t.Fatalf("nothing is below %q", dir)
			}
		}
	})
}

func FuzzPackedRefs(f *testing.F) {
	id := strings.Repeat("ab", 20)
	f.Add([]byte("# pack-refs with: peeled fully-peeled sorted \n" + id + " refs/heads/main\n" + id + " refs/tags/v1\n^" + id + "\n"))
	f.Add([]byte(id + " refs/../../x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		packed, err := parsePackedRefs(text, 20)
		if err != nil {
			return
		}
		for name := range packed {
			if !filepath.IsLocal(name) || !strings.HasPrefix(name, "refs/") {
				t.Errorf("a reference is named %q", name)
			}
		}
	})
}

func FuzzPatterns(f *testing.F) {
	for _, pattern := range randomPatterns {
		f.Add(pattern, "a/b/c")
	}
	f.Add(strings.Repeat("*a", 50), strings.Repeat("a", 200))
	f.Add(strings.Repeat("**/a/", 50), strings.Repeat("a/", 200))
	f.Add("[[:alpha:]-", "x")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		for _, r := range append(parseIgnore([]byte(pattern)), parseAttributes([]byte(pattern+" filter=x"))...) {
			r.matches(name, true)
			r.matches(name, false)
		}
		if text, is := literal(pattern); is && !strings.Contains(text, "/") && text != "" && !matchPart(pattern, text) {
			t.Errorf("%q does not match %q", pattern, text)
		}
	})
}

// packWith makes a pack of objects, each of which is a header and what is to be compressed.
func packWith(objects ...[]byte) []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects)))
	for _, o := range objects {
		out = append(out, o...)
	}
	return append(out, make([]byte, 20)...)
}

func compress(b []byte) []byte {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// packObject makes an object of a kind, which says that it has size bytes.
func packObject(kind int, size uint64, base, content []byte) []byte {
	head := []byte{byte(kind<<4) | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(size&0x7f))
	}
	return append(append(head, base...), compress(content)...)
}

// hostilePacks returns packs whose last object can't be read, and makes a reader work.
func hostilePacks() map[string][]byte {
	zeros := make([]byte, 1<<20)
	base := packObject(kindBlob, uint64(len(zeros)), nil, zeros)
	size := func(n uint64) (b []byte) { return binary.AppendUvarint(nil, n) }
	// 10,000 times the whole base
	bomb := append(size(1<<20), size(10_000<<20)...)
	grow := append(size(1<<20), size(31<<20)...)
	for n := range 10_000 {
		if copyAll := []byte{0x80 | 0x70, 0xff, 0xff, 0x0f}; n < 31 {
			grow = append(grow, copyAll...)
		} else {
			bomb = append(bomb, copyAll...)
		}
	}
	back := func(n int) []byte { // of fewer than 2 + 127 * 128 bytes
		if n < 128 {
			return []byte{byte(n)}
		}
		return []byte{0x80 | byte(n>>7-1), byte(n & 127)}
	}
	delta := func(content []byte) []byte {
		return packWith(base, packObject(kindOfsDelta, uint64(len(content)), back(len(base)), content))
	}
	return map[string][]byte{
		"says that it is huge":        packWith(packObject(kindTree, 1<<50, nil, nil)),
		"is larger than it says":      packWith(packObject(kindTree, 5, nil, zeros)),
		"is smaller than it says":     packWith(packObject(kindTree, 500, nil, []byte("x"))),
		"delta to gigabytes":          delta(bomb),
		"delta that ends early":       delta(grow),
		"delta past its base":         delta(append(append(size(1<<20), size(100)...), 0x80|0x0f|0x70, 0xff, 0xff, 0xff, 0xff, 1, 0, 0)),
		"delta without an operation":  delta(append(append(size(1<<20), size(100)...), 0)),
		"delta with another base":     delta(append(size(5), size(5)...)),
		"delta to before the pack":    packWith(packObject(kindOfsDelta, 1, []byte{0xff, 0xff, 0x7f}, []byte("x"))),
		"delta of itself":             packWith(packObject(kindOfsDelta, 1, []byte{0}, []byte("x"))),
		"delta of a missing object":   packWith(packObject(kindRefDelta, 1, make([]byte, 20), []byte("x"))),
		"size without an end":         packWith(bytes.Repeat([]byte{0xff}, 40)),
		"kind that is none":           packWith(packObject(5, 1, nil, []byte("x"))),
		"no compressed data":          packWith([]byte{0x21, 1, 2, 3, 4}),
		"compressed data cut off":     packWith(packObject(kindTree, 1000, nil, bytes.Repeat([]byte("ab1"), 333))[:20]),
		"nothing but the header":      packWith(),
		"offset that has no end":      packWith(packObject(kindOfsDelta, 1, bytes.Repeat([]byte{0xff}, 20), []byte("x"))),
		"delta of the missing object": packWith(packObject(kindRefDelta, 1, bytes.Repeat([]byte{7}, 20), []byte("x"))),
	}
}

// TestHostilePacks reads the last object of each.
func TestHostilePacks(t *testing.T) {
	idx := make([]byte, idxNames+40)
	copy(idx, "\xfftOc\x00\x00\x00\x02")
	for name, data := range hostilePacks() {
		p, err := openPack(idx, data)
		if err != nil {
			t.Fatal(name, err)
		}
		last := int64(packHeader)
		if at := bytes.LastIndex(data, compress(make([]byte, 1<<20))); at > 0 {
			last = int64(at + len(compress(make([]byte, 1<<20))))
		}
		o := &objects{hash: 20, budget: 64 << 20}
		if obj, err := o.readPacked(context.Background(), p, last); err == nil {
			t.Errorf("%s: got %d bytes", name, len(obj.data))
		}
		if o.cachedSize > maxCacheBytes {
			t.Errorf("%s: %d bytes are kept", name, o.cachedSize)
		}
	}
}

// TestDeltaLoop has two objects that are deltas of each other.
func TestDeltaLoop(t *testing.T) {
	a, b := bytes.Repeat([]byte{1}, 20), bytes.Repeat([]byte{2}, 20)
	first := packObject(kindRefDelta, 1, b, []byte("x"))
	data := packWith(first, packObject(kindRefDelta, 1, a, []byte("x")))
	idx := []byte("\xfftOc\x00\x00\x00\x02")
	for n := range uint32(256) {
		idx = binary.BigEndian.AppendUint32(idx, min(n, 2))
	}
	idx = append(append(append(idx, a...), b...), make([]byte, 8)...)
	idx = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(idx, 12), uint32(12+len(first)))
	p, err := openPack(append(idx, make([]byte, 40)...), data)
	if err != nil {
		t.Fatal(err)
	}
	o := &objects{hash: 20, budget: 64 << 20}
	if _, err := o.readPacked(context.Background(), p, 12); !errors.Is(err, errPack) {
		t.Error(err)
	}
}

// TestHostileIndexes has indexes that say too much.
func TestHostileIndexes(t *testing.T) {
	entry := func(name string) []byte {
		e := append(make([]byte, 24), 0, 0, 0x81, 0xa4)
		e = append(e, make([]byte, 12+20)...)
		e = append(e, 0, byte(len(name)))
		e = append(e, name...)
		return append(e, make([]byte, 8-len(e)%8)...)
	}
	index := func(version byte, count uint32, parts ...[]byte) []byte {
		b := binary.BigEndian.AppendUint32([]byte{'D', 'I', 'R', 'C', 0, 0, 0, version}, count)
		return append(append(b, bytes.Join(parts, nil)...), make([]byte, 20)...)
	}
	if _, err := parseIndex(index(2, 2, entry("a"), entry("b/c")), 20); err != nil {
		t.Fatal(err)
	}
	tree := func(text string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte("TREE"), uint32(len(text))), text...)
	}
	id := strings.Repeat("i", 20)
	if _, err := parseIndex(index(2, 0, tree("\x002 1\n"+id+"a\x001 0\n"+id)), 20); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"count":             index(2, 1<<32-1, entry("a")),
		"order":             index(2, 2, entry("b"), entry("a")),
		"twice":             index(2, 2, entry("a"), entry("a")),
		"outside":           index(2, 1, entry("../a")),
		"absolute":          index(2, 1, entry("/a")),
		"git":               index(2, 1, entry("a/.GIT/config")),
		"no name":           index(2, 1, entry("")),
		"version":           index(9, 1, entry("a")),
		"cut off":           index(2, 1, entry("a")[:40]),
		"long name":         index(4, 1, entry(strings.Repeat("a", 5000))),
		"extension":         index(2, 0, []byte("XXXX\xff\xff\xff\xffab")),
		"required":          index(2, 0, []byte("link\x00\x00\x00\x00")),
		"tree of too many":  index(2, 0, tree("\x002 0\n"+id+"a\x001 0\n"+id)),
		"tree of too few":   index(2, 0, tree("\x002 -1\n"+id)),
		"tree without name": index(2, 0, tree("\x002 0\nshort")),
		"checksum":          append(index(2, 1, entry("a"))[:92], []byte("12345678901234567890")...),
	} {
		if x, err := parseIndex(data, 20); err == nil {
			t.Errorf("%s: got %d entries", name, len(x.entries))
		}
	}
	deep := strings.Builder{}
	deep.WriteString("\x00-1 1\n")
	for range 100_000 {
		deep.WriteString("a\x00-1 1\n")
	}
	if _, err := parseIndex(index(2, 0, tree(deep.String())), 20); !errors.Is(err, errIndex) {
		t.Error("deep trees:", err)
	}
}
