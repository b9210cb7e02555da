package rig

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// fdStore keeps descriptors for the daemons of a house, as systemd does: it hands them
// to the next one, newest first.
type fdStore struct {
	tb   testing.TB
	conn *net.UnixConn
	most int

	mu   sync.Mutex // guards what follows
	kept []*os.File // by their names
}

// mostKept is FileDescriptorStoreMax= of the unit.
const mostKept = 5128

func newFDStore(tb testing.TB, path string) *fdStore {
	tb.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		tb.Fatal(err)
	}
	s := &fdStore{tb: tb, conn: conn, most: mostKept}
	var serving sync.WaitGroup
	serving.Go(s.serve)
	tb.Cleanup(func() {
		conn.Close()
		serving.Wait()
		s.drop()
	})
	return s
}

// drop closes all that is kept.
func (s *fdStore) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.kept {
		f.Close()
	}
	s.kept = nil
}

func (s *fdStore) serve() {
	message, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*253))
	for {
		n, r, _, _, err := s.conn.ReadMsgUnix(message, rights)
		if err != nil {
			return
		}
		s.obey(strings.Split(string(message[:n]), "\n"), rights[:r])
	}
}

func (s *fdStore) obey(words []string, rights []byte) {
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

// handedOver is what the next daemon is told, and what it inherits. h.store.mu is held.
func (h *House) handedOver() (env []string, files []*os.File) {
	var names []string
	for i, f := range h.held {
		files, names = append(files, f), append(names, sockets[i])
	}
	for _, f := range h.store.kept {
		files, names = append(files, f), append(names, f.Name())
	}
	return []string{
		fmt.Sprintf("LISTEN_FDS=%d", len(files)), "LISTEN_FDNAMES=" + strings.Join(names, ":"),
		fmt.Sprintf("FDSTORE=%d", h.store.most), "NOTIFY_SOCKET=" + h.store.conn.LocalAddr().String(),
	}, files
}
