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

// FDStore keeps descriptors for daemons that are started one after the other, as systemd
// does: it hands them to the next one, newest first.
type FDStore struct {
	tb   testing.TB
	conn *net.UnixConn
	most int

	mu   sync.Mutex // guards what follows
	kept []*os.File // by their names
}

// mostKept is FileDescriptorStoreMax= of the unit.
const mostKept = 5128

// NewFDStore returns a store that daemons reach at path, until tb ends.
func NewFDStore(tb testing.TB, path string) *FDStore {
	tb.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		tb.Fatal(err)
	}
	s := &FDStore{tb: tb, conn: conn, most: mostKept}
	var serving sync.WaitGroup
	serving.Go(s.serve)
	tb.Cleanup(func() {
		conn.Close()
		serving.Wait()
		s.Drop()
	})
	return s
}

// Drop closes all that is kept.
func (s *FDStore) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.kept {
		f.Close()
	}
	s.kept = nil
}

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
	messages, _ := unix.ParseSocketControlMessage(rights) // empty where nothing came
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
	switch {
	case slices.Contains(words, "FDSTOREREMOVE=1"):
		s.kept = slices.DeleteFunc(s.kept, func(f *os.File) bool {
			if f.Name() == name {
				f.Close()
			}
			return f.Name() == name
		})
	case slices.Contains(words, "FDSTORE=1"):
		for len(fds) > 0 && len(s.kept) < s.most {
			unix.CloseOnExec(fds[0])
			s.kept = append([]*os.File{os.NewFile(uintptr(fds[0]), name)}, s.kept...)
			fds = fds[1:]
		}
	}
	for _, fd := range fds { // of a barrier, or too many
		unix.Close(fd)
	}
}

// Kept is how many descriptors are kept for the daemons of the house.
func (h *House) Kept() int {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	return len(h.store.kept)
}

// AlterKept has alter see each descriptor that is kept for the daemons of the house, under
// its name there, and keeps what that returns in its place.
func (h *House) AlterKept(alter func(*os.File) *os.File) {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	for i, f := range h.store.kept {
		if other := alter(f); other != f {
			f.Close()
			h.store.kept[i] = other
		}
	}
}

// Start has start start cmd, a daemon that inherits listening sockets, called control and
// shim if there are any, and what is kept.
func (s *FDStore) Start(cmd *exec.Cmd, listening []*os.File, start func()) {
	s.mu.Lock() // an earlier daemon may still be heard
	defer s.mu.Unlock()
	files, names := slices.Clone(listening), slices.Clone(sockets[:len(listening)])
	for _, f := range s.kept {
		files, names = append(files, f), append(names, f.Name())
	}
	// Only the process itself can say under which number it runs.
	cmd.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.Env = append(slices.Clone(cmd.Env),
		fmt.Sprintf("LISTEN_FDS=%d", len(files)), "LISTEN_FDNAMES="+strings.Join(names, ":"),
		fmt.Sprintf("FDSTORE=%d", s.most), "NOTIFY_SOCKET="+s.conn.LocalAddr().String(),
	)
	cmd.ExtraFiles = files
	start()
}
