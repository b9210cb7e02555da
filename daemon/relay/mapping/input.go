package mapping

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

// Input holds what was read from one side and has not been handled yet. Offsets count all
// bytes that were ever read from the side. Only one goroutine at a time may use it.
//
// All memory behind the read data is zero. So nothing is lost if a daemon is killed after the
// system has filled the memory, and before the new length is stored: messages contain no NUL,
// so what is not zero was read. This needs memory that is present: if the system must first
// provide a page while the process is being killed, it stops, and what it has copied by then
// stays in the pipe or socket, to be read a second time.
type Input struct {
	m     *Mapping
	words *inputWords
	space []byte
	base  uint64 // offset of space[0]
	end   int    // end of the read data in space
	long  bool   // the last read was not short
}

// inputWords describe the data in the region. They exist twice, since two numbers that belong
// together can't be stored atomically. current says which of the two is valid.
type inputWords struct {
	current uint64
	place   [2]inputPlace
}

type inputPlace struct {
	base  uint64
	end   uint64
	dirty uint64 // the memory between end and this must be zeroed; 0 for nothing
}

// MaxAhead is how many bytes may be read ahead of the line that is being handled, in addition
// to one line of any length.
const MaxAhead = 1 << 20

// Input returns the input of a side. taken is the offset up to which the journal says it was
// handled; it is 0 for a new mapping.
func (m *Mapping) Input(side Side, taken uint64) (*Input, error) {
	in := &Input{m: m, words: &m.header().inputs[side], space: m.input(side)}
	current := atomic.LoadUint64(&in.words.current)
	if current > 1 {
		return nil, fmt.Errorf("%w: an input has the invalid slot %d", ErrCorrupt, current)
	}
	p := &in.words.place[current]
	base, end, dirty := atomic.LoadUint64(&p.base), atomic.LoadUint64(&p.end), atomic.LoadUint64(&p.dirty)
	space := uint64(len(in.space))
	if end > space || dirty > space || taken < base || taken-base > end || end-(taken-base) > uint64(m.longest+MaxAhead+readSize) {
		return nil, fmt.Errorf("%w: an input holds %d bytes from offset %d and was consumed up to %d", ErrCorrupt, end, base, taken)
	}
	in.base, in.end = base, int(end)
	if dirty > 0 {
		in.clean(int(dirty))
	} else {
		in.recover()
	}
	return in, nil
}

// recover adds data that was read and not recorded, and zeroes all memory behind it.
func (in *Input) recover() {
	behind := in.space[in.end:min(in.end+readSize, len(in.space))]
	n := bytes.IndexByte(behind, 0)
	if n < 0 {
		n = len(behind)
	}
	in.extendEnd(n)
	in.m.zero(in.space[in.end:])
}

// Room returns memory to read into, which is all zero and has at least one byte. Room may
// discard the data before taken.
func (in *Input) Room(taken uint64) []byte {
	if in.end == len(in.space) || taken == in.base+uint64(in.end) && in.end > 0 {
		in.move(taken)
	}
	return in.Behind()
}

// Behind is Room without moving any data: the result may be empty.
func (in *Input) Behind() []byte {
	n := shortRead
	if in.long {
		n = readSize
	}
	room := in.space[in.end:min(in.end+n, len(in.space))]
	Touch(room)
	return room
}

// Touch has the system provide all pages of b, which is all zero, before it reads into them. Where
// it must first provide a page, a read of a process that is being killed stops in the middle, and
// what remains to be read may be read twice or taken for something else.
func Touch(b []byte) {
	for at := 0; at < len(b); at += page {
		b[at] = 0
	}
	if len(b) > 0 {
		b[len(b)-1] = 0 // on one page more, unless b starts with a page
	}
}

// move moves the data from taken on to the front.
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

// clean zeroes the memory between the read data and dirty.
func (in *Input) clean(dirty int) {
	if dirty > in.end {
		in.m.zero(in.space[in.end:dirty])
	}
	atomic.StoreUint64(&in.place().dirty, 0)
}

func (in *Input) place() *inputPlace {
	return &in.words.place[atomic.LoadUint64(&in.words.current)]
}

// Read records that n bytes were read into what Room or Behind returned last.
func (in *Input) Read(n int) {
	in.long = n >= shortRead
	in.extendEnd(n)
}

func (in *Input) extendEnd(n int) {
	in.end += n
	atomic.StoreUint64(&in.place().end, uint64(in.end))
}

// Unread returns the data from offset taken on. It is valid until Room is called.
func (in *Input) Unread(taken uint64) []byte { return in.space[taken-in.base : in.end : in.end] }

// Bytes returns the n bytes at an offset, and whether they are still available.
func (in *Input) Bytes(offset, n uint64) ([]byte, bool) {
	if offset < in.base || n > uint64(in.end) || offset-in.base > uint64(in.end)-n {
		return nil, false
	}
	start := int(offset - in.base)
	return in.space[start : start+int(n) : start+int(n)], true
}

// cheap is how many bytes are zeroed by writing. Larger parts are returned to the system
// instead.
const cheap = 256 << 10

// zero zeroes a part of the memory.
func (m *Mapping) zero(part []byte) {
	if len(part) <= cheap {
		clear(part)
		return
	}
	// Only whole pages can be returned; a region starts with one.
	first := -int(m.offset(part)) & (page - 1)
	last := len(part) - (int(m.offset(part))+len(part))&(page-1)
	clear(part[:first])
	m.release(part[first:last])
	clear(part[last:])
}
