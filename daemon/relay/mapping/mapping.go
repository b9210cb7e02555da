// Package mapping keeps what a session must not lose when the daemon is killed.
//
// A [Mapping] is a file without a name that is mapped into memory. Whoever holds
// its descriptor keeps it, so that it outlives the daemon in the hands of the
// service manager, and the next daemon goes on where the last one was torn away.
// It holds, for one session:
//
//   - what was read from each side and not yet taken up ([Input]),
//   - a journal of all that happened to the session ([Journal]), and
//   - how much of what is owed to each side was written to it ([Cursor]).
//
// Every change takes effect by one atomic store, so that a kill at any moment
// leaves the state before or after it. The processes of the same user can write
// into a mapping that the service manager keeps: [Open] and all that reads what an
// earlier daemon has left check it like anything that comes from outside.
package mapping

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Side is one of the two that a session stands between.
type Side int

const (
	Agent Side = iota
	Server
	sides
)

// A mapping is a header of one page, an input region for each side and the two
// halves of the journal. Regions are as long as they may ever have to be: what was
// never written to costs nothing, and the size of the file never changes.
const (
	page      = 4 << 10
	magic     = 0x7467_6d61_7070_6e67
	version   = 1
	mostLine  = 1 << 30 // bytes; a longer line is in no configuration
	readSize  = 64 << 10
	halfSpace = 1 << 30
)

// header is the first page. All its fields are read and written atomically.
type header struct {
	magic   uint64
	version uint64
	longest uint64
	live    uint64 // of the journal: see Journal
	inputs  [sides]inputWords
	cursors [sides]cursorWords

	attempts [sides]uint64 // offset<<2 | how often it was begun with
	ends     endsWords
}

// Mapping is the memory of one session. It is used by one daemon at a time; its
// parts say what may be done concurrently.
type Mapping struct {
	file    *os.File
	memory  []byte
	longest int
}

// ErrDamaged is wrapped by the errors about a mapping that no daemon has left so.
var ErrDamaged = errors.New("the memory of the session was damaged or altered")

// Create returns a new mapping for lines of at most longest bytes.
func Create(longest int) (*Mapping, error) {
	if longest <= 0 || longest > mostLine {
		return nil, fmt.Errorf("make a mapping: lines of %d bytes; 1 to %d can be held", longest, mostLine)
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

// createError says what to do where a limit keeps a process from having a mapping, which
// is large, though little of it is ever written to.
func createError(size int64, err error) error {
	remedy := ""
	switch {
	case errors.Is(err, syscall.EFBIG):
		remedy = "raise the daemon's limit on the size of files (ulimit -f where it is started, LimitFSIZE= in its unit), and restart it: "
	case errors.Is(err, syscall.ENOMEM):
		remedy = "raise the daemon's limit on memory addresses (ulimit -v where it is started, LimitAS= in its unit), and restart it: "
	}
	return fmt.Errorf("make the memory of a session, a file of %d MiB of which little is used: %s%w", size>>20, remedy, err)
}

// Open takes over the mapping that another daemon has made. The file is the
// mapping's from here on, also when Open fails. Errors wrap [ErrDamaged] for a
// file that is no mapping.
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
		return nil, fmt.Errorf("open a mapping: %w: %w", ErrDamaged, err)
	}
	var first [unsafe.Sizeof(header{})]byte
	if _, err := f.ReadAt(first[:], 0); err != nil {
		return nil, fmt.Errorf("open a mapping: %w: %w", ErrDamaged, err)
	}
	h := (*header)(unsafe.Pointer(&first))
	if h.magic != magic || h.version != version || h.longest == 0 || h.longest > mostLine || info.Size() != sizeOf(int(h.longest)) {
		return nil, fmt.Errorf("open a mapping: %w: its header is not one of this release", ErrDamaged)
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

// File is what the mapping lives in. It is the mapping's.
func (m *Mapping) File() *os.File { return m.file }

// Longest is how long a line may be, in bytes.
func (m *Mapping) Longest() int { return m.longest }

// Close lets go of the mapping. It is gone when nobody else holds its file.
// Nothing of it may be used any more.
func (m *Mapping) Close() error {
	return errors.Join(syscall.Munmap(m.memory), m.file.Close())
}

func (m *Mapping) header() *header { return (*header)(unsafe.Pointer(&m.memory[0])) }

// inputSpace is the length of an input region: room for a line that is being read
// while the one before it is being written on, and for one more read.
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

// release gives the pages of a part of the memory back to the system. They are
// zero then.
func (m *Mapping) release(part []byte) {
	if err := punch(m.file, m.offset(part), int64(len(part))); err != nil {
		clear(part)
	}
}

// offset is where a part of the memory begins.
func (m *Mapping) offset(part []byte) int64 {
	return int64(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(&m.memory[0])))
}
