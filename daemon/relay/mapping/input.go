package mapping

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

// Input is what was read from one side and not yet taken up. All that was ever
// read from the side is numbered: offsets count its bytes from the first. Its
// methods are called by one goroutine at a time.
//
// Behind what was read all is zero. So a daemon that was killed after the system
// had filled the memory and before it had noted how far loses nothing: messages hold
// no NUL, and what is not zero was read.
type Input struct {
	m     *Mapping
	words *inputWords
	space []byte
	base  uint64 // offset of space[0]
	end   int    // of what was read, in space
}

// inputWords say where in the region is what: twice, since two numbers that belong
// together can't be stored at once. current says which of the two counts.
type inputWords struct {
	current uint64
	place   [2]inputPlace
}

type inputPlace struct {
	base  uint64
	end   uint64
	dirty uint64 // what stands between end and this is to be made zero; 0 for nothing
}

// MaxAhead is how much may be read of a side beside one line of any length, in bytes,
// before that is taken up.
const MaxAhead = 1 << 20

// Input returns the input of a side. taken is the offset up to which it was taken
// up, as the journal says; it is 0 for a new mapping.
func (m *Mapping) Input(side Side, taken uint64) (*Input, error) {
	in := &Input{m: m, words: &m.header().inputs[side], space: m.input(side)}
	current := atomic.LoadUint64(&in.words.current)
	if current > 1 {
		return nil, fmt.Errorf("%w: an input says that place %d counts", ErrDamaged, current)
	}
	p := &in.words.place[current]
	base, end, dirty := atomic.LoadUint64(&p.base), atomic.LoadUint64(&p.end), atomic.LoadUint64(&p.dirty)
	space := uint64(len(in.space))
	if end > space || dirty > space || taken < base || taken-base > end || end-(taken-base) > uint64(m.longest+MaxAhead+readSize) {
		return nil, fmt.Errorf("%w: an input holds %d bytes from %d on, up to %d was taken up", ErrDamaged, end, base, taken)
	}
	in.base, in.end = base, int(end)
	if dirty > 0 {
		in.clean(int(dirty))
	} else {
		in.recover()
	}
	return in, nil
}

// recover takes up what was read last and not noted, and makes all behind it zero.
func (in *Input) recover() {
	behind := in.space[in.end:min(in.end+readSize, len(in.space))]
	n := bytes.IndexByte(behind, 0)
	if n < 0 {
		n = len(behind)
	}
	in.note(n)
	in.m.zero(in.space[in.end:])
}

// Room returns memory to read into: all of it is zero, and there is at least one
// byte. What was taken up, which is what stands before taken, may be gone.
func (in *Input) Room(taken uint64) []byte {
	if in.end == len(in.space) || taken == in.base+uint64(in.end) && in.end > 0 {
		in.move(taken)
	}
	return in.Behind()
}

// Behind is Room without anything being moved: it may be empty.
func (in *Input) Behind() []byte { return in.space[in.end:min(in.end+readSize, len(in.space))] }

// move moves what was not taken up to the front.
func (in *Input) move(taken uint64) {
	start := int(taken - in.base)
	rest := in.space[start:in.end]
	in.m.zero(in.space[:start])
	next := 1 - atomic.LoadUint64(&in.words.current)
	p := &in.words.place[next]
	atomic.StoreUint64(&p.base, taken)
	atomic.StoreUint64(&p.end, uint64(copy(in.space, rest)))
	atomic.StoreUint64(&p.dirty, uint64(in.end))
	old := in.end
	atomic.StoreUint64(&in.words.current, next)
	in.base, in.end = taken, len(rest)
	in.clean(old)
}

// clean makes zero what stands between what was read and dirty.
func (in *Input) clean(dirty int) {
	if dirty > in.end {
		in.m.zero(in.space[in.end:dirty])
	}
	atomic.StoreUint64(&in.place().dirty, 0)
}

func (in *Input) place() *inputPlace {
	return &in.words.place[atomic.LoadUint64(&in.words.current)]
}

// Read notes that n bytes were read into what Room returned.
func (in *Input) Read(n int) { in.note(n) }

func (in *Input) note(n int) {
	in.end += n
	atomic.StoreUint64(&in.place().end, uint64(in.end))
}

// Unread returns what was read from offset taken on. It is valid until Room is called.
func (in *Input) Unread(taken uint64) []byte { return in.space[taken-in.base : in.end : in.end] }

// Bytes returns the n bytes at an offset, and whether they are still there.
func (in *Input) Bytes(offset, n uint64) ([]byte, bool) {
	if offset < in.base || n > uint64(in.end) || offset-in.base > uint64(in.end)-n {
		return nil, false
	}
	start := int(offset - in.base)
	return in.space[start : start+int(n) : start+int(n)], true
}

// cheap is how much is made zero by writing, in bytes: more is given back to the
// system instead.
const cheap = 256 << 10

// zero makes a part of the memory zero.
func (m *Mapping) zero(part []byte) {
	if len(part) <= cheap {
		clear(part)
		return
	}
	// Only whole pages can be given back; a region begins with one.
	first := -int(m.offset(part)) & (page - 1)
	last := len(part) - (int(m.offset(part))+len(part))&(page-1)
	clear(part[:first])
	m.release(part[first:last])
	clear(part[last:])
}
