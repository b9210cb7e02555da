// Package mapping keeps the part of a session that must survive when the daemon is killed.
//
// A [Mapping] is an unnamed file that is mapped into memory. It exists as long as somebody
// holds its descriptor. systemd or the keeper holds it too, so that it outlives the daemon, and
// the next daemon continues where the last one was killed. For one session it holds:
//
//   - what was read from each side and has not been handled yet ([Input]),
//   - a journal of everything that happened to the session ([Journal]), and
//   - how much of each side's output was written ([Cursor]).
//
// Every change takes effect by one atomic store, so that a kill at any moment leaves the state
// before or after it. Processes of the same user can write to a mapping that systemd holds. So
// [Open], and everything that reads what a previous daemon has left, validates it like any
// external input.
package mapping

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Side is one of the two sides of a session.
type Side int

const (
	Agent Side = iota
	Server
	sides
)

// A mapping consists of a header of one page, an input region for each side and the two halves
// of the journal. Regions have the maximum size: pages that were never written to cost
// nothing, and the size of the file never changes.
const (
	page         = 4 << 10
	magic        = 0x7467_6d61_7070_6e67
	version      = 1
	maxLineBytes = 1 << 30  // bytes; no configuration allows a longer line
	readSize     = 64 << 10 // most bytes of one read
	shortRead    = 8 << 10  // most bytes of a read after a shorter one: most messages are short
	halfSpace    = 1 << 30
)

// header is the first page. All its fields are accessed atomically.
type header struct {
	magic   uint64
	version uint64
	longest uint64
	live    uint64 // of the journal: size and half
	inputs  [sides]inputWords
	cursors [sides]cursorWords

	attempts [sides]uint64 // offset<<2 | number of attempts
	ends     endsWords
}

// Mapping is the memory of one session. Only one daemon at a time uses it. Its parts document
// what may be done concurrently.
type Mapping struct {
	file    *os.File
	memory  []byte
	longest int
}

// ErrCorrupt reports that a mapping is in a state that no daemon leaves it in.
var ErrCorrupt = errors.New("the memory of the session is corrupt or was altered")

// Create returns a new mapping for lines of at most longest bytes.
func Create(longest int) (*Mapping, error) {
	if longest <= 0 || longest > maxLineBytes {
		return nil, fmt.Errorf("make a mapping for lines of %d bytes: the size must be 1 to %d", longest, maxLineBytes)
	}
	size := sizeOf(longest)
	f, err := create(size)
	if err != nil {
		return nil, createError(size, err)
	}
	m, err := mapFile(f, size, longest)
	if err != nil {
		return nil, errors.Join(createError(size, err), f.Close())
	}
	h := m.header()
	atomic.StoreUint64(&h.version, version)
	atomic.StoreUint64(&h.longest, uint64(longest))
	atomic.StoreUint64(&h.magic, magic)
	return m, nil
}

// createError adds what to do if a limit prevents a mapping, which is large, although little
// of it is ever written.
func createError(size int64, err error) error {
	remedy := ""
	switch {
	case errors.Is(err, syscall.EFBIG):
		remedy = "raise the daemon's limit on the size of files (ulimit -f where it is started, LimitFSIZE= in its unit), and restart it: "
	case errors.Is(err, syscall.ENOMEM):
		remedy = "raise the daemon's limit on memory addresses (ulimit -v where it is started, LimitAS= in its unit), and restart it: "
	}
	return fmt.Errorf("create the memory of a session, a sparse file of %d MiB: %s%w", size>>20, remedy, err)
}

// Open opens the mapping that another daemon has created. It takes ownership of the file, even
// on failure. Errors wrap [ErrCorrupt] if the file is not a valid mapping.
func Open(f *os.File) (*Mapping, error) {
	m, err := open(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return m, nil
}

func open(f *os.File) (*Mapping, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open a mapping: %w", err)
	}
	if err := check(f, info); err != nil {
		return nil, fmt.Errorf("open a mapping: %w: %w", ErrCorrupt, err)
	}
	var first [unsafe.Sizeof(header{})]byte
	if _, err := f.ReadAt(first[:], 0); err != nil {
		return nil, fmt.Errorf("open a mapping: %w: %w", ErrCorrupt, err)
	}
	h := (*header)(unsafe.Pointer(&first))
	if h.magic != magic || h.version != version || h.longest == 0 || h.longest > maxLineBytes || info.Size() != sizeOf(int(h.longest)) {
		return nil, fmt.Errorf("open a mapping: %w: its header is from another release", ErrCorrupt)
	}
	return mapFile(f, info.Size(), int(h.longest))
}

func mapFile(f *os.File, size int64, longest int) (*Mapping, error) {
	memory, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the memory of a session: %w", err)
	}
	return &Mapping{file: f, memory: memory, longest: longest}, nil
}

// File returns the file that backs the mapping, which still owns it.
func (m *Mapping) File() *os.File { return m.file }

// Longest returns the maximum length of a line, in bytes.
func (m *Mapping) Longest() int { return m.longest }

// Close unmaps the mapping and closes its file. No part of it may be used any more. The memory
// is freed when nobody else holds the file.
func (m *Mapping) Close() error {
	return errors.Join(syscall.Munmap(m.memory), m.file.Close())
}

func (m *Mapping) header() *header { return (*header)(unsafe.Pointer(&m.memory[0])) }

// inputSpace returns the length of an input region: room for a line that is being read while
// the previous one is being written, and for one more read.
func inputSpace(longest int) int { return (2*(longest+readSize) + page - 1) / page * page }

func sizeOf(longest int) int64 {
	return int64(page) + int64(sides)*int64(inputSpace(longest)) + 2*halfSpace
}

func (m *Mapping) input(side Side) []byte {
	n := inputSpace(m.longest)
	start := page + int(side)*n
	return m.memory[start : start+n : start+n]
}

func (m *Mapping) half(i uint64) []byte {
	start := page + int(sides)*inputSpace(m.longest) + int(i)*halfSpace
	return m.memory[start : start+halfSpace : start+halfSpace]
}

// release returns the pages of a part of the memory to the system, which zeroes them.
func (m *Mapping) release(part []byte) {
	if err := punch(m.file, m.offset(part), int64(len(part))); err != nil {
		clear(part)
	}
}

// offset returns the offset of a part of the memory in the file.
func (m *Mapping) offset(part []byte) int64 {
	return int64(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(&m.memory[0])))
}
