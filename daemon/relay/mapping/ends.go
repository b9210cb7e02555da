package mapping

import (
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// MaxEnds is the maximum number of descriptors of a session besides its mapping.
const MaxEnds = 12

// End identifies what a descriptor refers to. The next daemon uses it to recognize the
// descriptor, whatever name it returns under. The zero End stands for no descriptor.
type End struct {
	Device  uint64
	Inode   uint64
	Special uint64 // terminal or other device number
	Kind    uint32 // of file, as in S_IFMT
	Access  uint32 // O_RDONLY, O_WRONLY or O_RDWR: it tells the ends of a pipe apart
}

// String describes e for logs and records.
func (e End) String() string {
	kind := "file of another kind"
	switch e.Kind {
	case unix.S_IFIFO:
		kind = "pipe"
	case unix.S_IFSOCK:
		kind = "socket"
	case unix.S_IFCHR:
		kind = "device"
	case unix.S_IFREG:
		kind = "file"
	}
	return fmt.Sprintf("%s %d on device %d", kind, e.Inode, e.Device)
}

// EndOf returns what a file refers to. It does not modify the file.
func EndOf(f *os.File) (End, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return End{}, err
	}
	var e End
	var failed error
	err = raw.Control(func(fd uintptr) {
		var stat unix.Stat_t
		if failed = unix.Fstat(int(fd), &stat); failed != nil {
			return
		}
		var flags int
		if flags, failed = unix.FcntlInt(fd, unix.F_GETFL, 0); failed != nil {
			return
		}
		e = End{
			Device: uint64(stat.Dev), Inode: stat.Ino, Special: uint64(stat.Rdev),
			Kind: uint32(stat.Mode) & unix.S_IFMT, Access: uint32(flags & unix.O_ACCMODE),
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return End{}, fmt.Errorf("read what %s points to: %w", f.Name(), err)
	}
	return e, nil
}

// endsWords are the ends in a mapping.
type endsWords struct {
	count uint64
	all   [MaxEnds]endWords
}

type endWords struct{ device, inode, special, kind uint64 }

// SetEnds stores what the session's descriptors refer to. It must be called once, before the
// mapping is shared.
func (m *Mapping) SetEnds(ends ...End) error {
	if len(ends) > MaxEnds {
		return fmt.Errorf("a session has %d descriptors; the maximum is %d", len(ends), MaxEnds)
	}
	to := &m.header().ends
	for i, e := range ends {
		w := &to.all[i]
		atomic.StoreUint64(&w.device, e.Device)
		atomic.StoreUint64(&w.inode, e.Inode)
		atomic.StoreUint64(&w.special, e.Special)
		atomic.StoreUint64(&w.kind, uint64(e.Kind)<<32|uint64(e.Access))
	}
	atomic.StoreUint64(&to.count, uint64(len(ends)))
	return nil
}

// Ends returns what SetEnds stored.
func (m *Mapping) Ends() ([]End, error) {
	from := &m.header().ends
	n := atomic.LoadUint64(&from.count)
	if n == 0 || n > MaxEnds {
		return nil, fmt.Errorf("%w: it lists %d descriptors", ErrCorrupt, n)
	}
	ends := make([]End, n)
	for i := range ends {
		w := &from.all[i]
		kind := atomic.LoadUint64(&w.kind)
		ends[i] = End{
			Device: atomic.LoadUint64(&w.device), Inode: atomic.LoadUint64(&w.inode), Special: atomic.LoadUint64(&w.special),
			Kind: uint32(kind >> 32), Access: uint32(kind),
		}
	}
	return ends, nil
}
