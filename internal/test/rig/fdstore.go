package rig

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// FDStore keeps descriptors for successive daemons, as systemd does: an open file only once,
// where the system can tell, and not more than the limit. It passes them to the next daemon,
// newest first. An unexpected message from a daemon fails the test.
type FDStore struct {
	tb   testing.TB
	conn *net.UnixConn

	mu      sync.Mutex // guards the fields below
	max     int
	kept    []*os.File // newest first; Name is the name in the store
	skip    int        // messages to ignore
	left    int        // messages until cut, if that is not nil
	cut     func()
	ignored []int // descriptors of ignored messages
}

// maxKept is FileDescriptorStoreMax= of the unit.
const maxKept = 4096

// NewFDStore returns a store at address. It is closed when tb ends.
func NewFDStore(tb testing.TB, address string) *FDStore {
	tb.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		tb.Fatal(err)
	}
	s := &FDStore{tb: tb, conn: conn, max: maxKept}
	var serving sync.WaitGroup
	serving.Go(s.serve)
	tb.Cleanup(func() {
		conn.Close()
		serving.Wait()
		s.Drop()
	})
	return s
}

// Address returns the address for NOTIFY_SOCKET.
func (s *FDStore) Address() string { return s.conn.LocalAddr().String() }

// SetMax sets the maximum number of descriptors to n.
func (s *FDStore) SetMax(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = n
}

// Names returns the names of the kept descriptors, sorted.
func (s *FDStore) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, f := range s.kept {
		names = append(names, f.Name())
	}
	slices.Sort(names)
	return names
}

// Plant adds a copy of a file that no daemon has stored.
func (s *FDStore) Plant(name string, f *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append([]*os.File{os.NewFile(uintptr(s.duplicate(f)), name)}, s.kept...)
}

// CutAfter calls cut when n more messages have been handled. What comes then is ignored until the
// next daemon is started: as if this one had been killed before it sent that.
func (s *FDStore) CutAfter(n int, cut func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left, s.cut = n, cut
}

// ignores reports whether a message is to be ignored. s.mu must be held.
func (s *FDStore) ignores(fds []int) bool {
	switch {
	case s.skip > 0:
		s.skip--
	case s.cut == nil:
		return false
	case s.left > 0:
		if s.left--; s.left == 0 {
			s.cut()
		}
		return false
	}
	s.ignored = append(s.ignored, fds...) // closing them would answer a barrier
	return true
}

// HandOver calls take with a copy of each kept descriptor, which take owns.
func (s *FDStore) HandOver(take func(name string, fd int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.kept {
		take(f.Name(), s.duplicate(f))
	}
}

func (s *FDStore) duplicate(f *os.File) int {
	s.tb.Helper()
	to, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		s.tb.Fatal(err)
	}
	return to
}

// Drop closes all kept descriptors.
func (s *FDStore) Drop() {
	s.catchUp()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.kept {
		f.Close()
	}
	s.kept = nil
}

// catchUp returns when all earlier messages have been handled: the messages of a killed daemon
// are read after its end.
func (s *FDStore) catchUp() {
	conn, err := net.DialUnix("unixgram", nil, s.conn.LocalAddr().(*net.UnixAddr))
	if err != nil {
		return // it is closed
	}
	defer conn.Close()
	r, w, err := os.Pipe()
	if err != nil {
		s.tb.Error(err)
		return
	}
	defer r.Close()
	_, _, err = conn.WriteMsgUnix([]byte(caughtUp), unix.UnixRights(int(w.Fd())), nil)
	w.Close()
	if err == nil {
		_, _ = r.Read(make([]byte, 1)) // until the other end is closed
	}
}

// caughtUp is a message of the store to itself.
const caughtUp = "X_RIG_CAUGHT_UP=1"

func (s *FDStore) serve() {
	message, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*253))
	for {
		n, r, _, _, err := s.conn.ReadMsgUnix(message, rights)
		if err != nil {
			return
		}
		s.obey(strings.Split(string(message[:n]), "\n"), rights[:r])
	}
}

func (s *FDStore) obey(words []string, rights []byte) {
	var fds []int
	messages, _ := unix.ParseSocketControlMessage(rights) // empty if nothing came
	for i := range messages {
		more, _ := unix.ParseUnixRights(&messages[i])
		fds = append(fds, more...)
	}
	name := "stored"
	for _, word := range words {
		if value, ok := strings.CutPrefix(word, "FDNAME="); ok {
			name = value
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if counts := slices.ContainsFunc(words, func(w string) bool { return w == "BARRIER=1" || strings.HasPrefix(w, "FDSTORE") }); counts && s.ignores(fds) {
		return
	}
	switch {
	case slices.Contains(words, "BARRIER=1"):
		if len(words) != 1 || len(fds) != 1 {
			s.tb.Errorf("a barrier with %q and %d descriptors", words, len(fds))
		}
	case slices.Contains(words, "FDSTOREREMOVE=1"):
		s.kept = slices.DeleteFunc(s.kept, func(f *os.File) bool {
			if f.Name() == name {
				f.Close()
			}
			return f.Name() == name
		})
	case slices.Contains(words, "FDSTORE=1"):
		if !slices.Contains(words, "FDPOLL=0") {
			s.tb.Errorf("%q: a pipe whose other end is closed is given up", words)
		}
		for len(fds) > 0 && len(s.kept) < s.max {
			fd := fds[0]
			fds = fds[1:]
			if slices.ContainsFunc(s.kept, func(f *os.File) bool { return sameFile(int(f.Fd()), fd) }) {
				unix.Close(fd)
				continue
			}
			unix.CloseOnExec(fd)
			s.kept = append([]*os.File{os.NewFile(uintptr(fd), name)}, s.kept...)
		}
	}
	for _, fd := range fds { // of a barrier, or too many
		unix.Close(fd)
	}
}

// KeepAtMost sets the maximum number of descriptors that are kept for daemons started from now
// on.
func (h *Fixture) KeepAtMost(n int) { h.store.SetMax(n) }

// Kept returns the number of descriptors kept for the daemons.
func (h *Fixture) Kept() int {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	return len(h.store.kept)
}

// KillDaemonAfter kills the daemon when the store has handled n more of its messages, and has what it
// sends then ignored. Spare takes that back and reports whether the daemon was killed before.
func (h *Fixture) KillDaemonAfter(n int) (spare func() (killed bool)) {
	daemon, killed := h.Daemon, false // guarded by the store's lock
	h.store.CutAfter(n, func() {
		killed = true
		daemon.Signal(unix.SIGKILL)
	})
	return func() bool {
		h.store.mu.Lock()
		defer h.store.mu.Unlock()
		if !killed {
			h.store.cut = nil
		}
		return killed
	}
}

// IgnoreMessages has the store ignore the next n messages of a daemon, and not answer them.
func (h *Fixture) IgnoreMessages(n int) {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	h.store.skip = n
}

// AlterKept calls alter with each kept descriptor, named as in the store, and keeps the result
// in its place.
func (h *Fixture) AlterKept(alter func(*os.File) *os.File) {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	for i, f := range h.store.kept {
		if other := alter(f); other != f {
			f.Close()
			h.store.kept[i] = other
		}
	}
}

// Start calls start to start cmd, a daemon that inherits listening sockets, called control and
// shim if there are any, and the kept descriptors.
func (s *FDStore) Start(cmd *exec.Cmd, listening []*os.File, start func()) {
	s.catchUp()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fd := range s.ignored {
		unix.Close(fd)
	}
	s.cut, s.ignored = nil, nil
	files, names := slices.Clone(listening), slices.Clone(sockets[:len(listening)])
	for _, f := range s.kept {
		files, names = append(files, f), append(names, f.Name())
	}
	// Only the process itself knows its pid.
	cmd.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.Env = append(slices.Clone(cmd.Env),
		fmt.Sprintf("LISTEN_FDS=%d", len(files)), "LISTEN_FDNAMES="+strings.Join(names, ":"),
		fmt.Sprintf("FDSTORE=%d", s.max), "NOTIFY_SOCKET="+s.Address(),
	)
	cmd.ExtraFiles = files
	start()
}
