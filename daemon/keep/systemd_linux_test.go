package keep

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
)

// fakeSystemd keeps descriptors as systemd does: the same open file once, no more than
// it may, and it hands them back newest first.
type fakeSystemd struct {
	t       *testing.T
	conn    *net.UnixConn
	address string
	most    int

	mu   sync.Mutex // guards what follows
	kept []held
	said []string
}

func newSystemd(t *testing.T, address string, most int) *fakeSystemd {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	m := &fakeSystemd{t: t, conn: conn, address: address, most: most}
	var serving sync.WaitGroup
	serving.Go(m.serve)
	t.Cleanup(func() {
		conn.Close()
		serving.Wait()
		for _, h := range m.kept {
			unix.Close(h.fd)
		}
	})
	return m
}

func (m *fakeSystemd) serve() {
	message, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*253))
	for {
		n, r, _, _, err := m.conn.ReadMsgUnix(message, rights)
		if err != nil {
			return
		}
		m.mu.Lock()
		m.obey(strings.Split(string(message[:n]), "\n"), received(rights[:r]))
		m.mu.Unlock()
	}
}

func (m *fakeSystemd) obey(words []string, fds []int) {
	defer func() { closeAll(fds) }()
	m.said = append(m.said, words...)
	name := "stored"
	for _, word := range words {
		if value, ok := strings.CutPrefix(word, "FDNAME="); ok {
			name = value
		}
	}
	switch {
	case slices.Contains(words, "BARRIER=1"):
		if len(words) != 1 || len(fds) != 1 {
			m.t.Errorf("a barrier with %q and %d descriptors", words, len(fds))
		}
	case slices.Contains(words, "FDSTOREREMOVE=1"):
		m.kept = slices.DeleteFunc(m.kept, func(h held) bool {
			if h.name == name {
				unix.Close(h.fd)
			}
			return h.name == name
		})
	case slices.Contains(words, "FDSTORE=1"):
		if !slices.Contains(words, "FDPOLL=0") {
			m.t.Errorf("%q: a pipe whose other end is closed is given up", words)
		}
		for len(fds) > 0 && len(m.kept) < m.most {
			fd := fds[0]
			fds = fds[1:]
			if slices.ContainsFunc(m.kept, func(h held) bool { return sameFile(m.t, h.fd, fd) }) {
				unix.Close(fd)
				continue
			}
			m.kept = append([]held{{name, fd}}, m.kept...)
		}
	}
}

// sameFile reports whether two descriptors are of the same open file.
func sameFile(t *testing.T, a, b int) bool {
	const file = 0 // KCMP_FILE
	pid := uintptr(os.Getpid())
	r, _, errno := unix.Syscall6(unix.SYS_KCMP, pid, pid, file, uintptr(a), uintptr(b), 0)
	if errno != 0 {
		t.Errorf("kcmp: %v", errno)
	}
	return r == 0
}

// names are the names of what it keeps.
func (m *fakeSystemd) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, h := range m.kept {
		names = append(names, h.name)
	}
	slices.Sort(names)
	return names
}

// plant has it keep something that no daemon has given it.
func (m *fakeSystemd) plant(name string, f *os.File) {
	fd, err := duplicate(f)
	if err != nil {
		m.t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = append([]held{{name, fd}}, m.kept...)
}

// store is that of a daemon which is started now.
func (m *fakeSystemd) store(limit string) *Store {
	m.t.Helper()
	s := &Store{kept: map[string][]entry{}}
	var err error
	if s.line, err = dial(m.address); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { s.line.conn.Close() })
	s.limit = limitOf(limit, s)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.kept {
		fd, err := unix.FcntlInt(uintptr(h.fd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			err = s.inherited(fd, h.name)
		}
		if err != nil {
			m.t.Fatal(err)
		}
	}
	return s
}

// need skips the test where it can't be told which descriptors are of the same file.
func need(t *testing.T) {
	t.Helper()
	const file = 0
	pid := uintptr(os.Getpid())
	if _, _, errno := unix.Syscall6(unix.SYS_KCMP, pid, pid, file, 0, 0, 0); errno != 0 {
		t.Skipf("kcmp: %v", errno)
	}
}

// newSession makes the descriptors of a session: what is given, and a mapping.
func newSession(t *testing.T, files ...*os.File) ([]*os.File, *mapping.Mapping) {
	t.Helper()
	m, err := mapping.Create(1 << 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	var ends []mapping.End
	for _, f := range files {
		end, err := mapping.EndOf(f)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	if err := m.SetEnds(ends...); err != nil {
		t.Fatal(err)
	}
	return append(files, m.File()), m
}

func newPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func terminal(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func mustKeep(t *testing.T, s *Store, name string, files ...*os.File) {
	t.Helper()
	if err := s.Keep(t.Context(), name, files...); err != nil {
		t.Fatal(err)
	}
}

// take takes over what is kept, and says of each session what of it is there.
func take(t *testing.T, s *Store) (sessions map[string][]mapping.End, strays []string) {
	t.Helper()
	all, left, err := s.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sessions = map[string][]mapping.End{}
	for _, session := range all {
		ends := []mapping.End{}
		for _, f := range session.Files {
			var end mapping.End
			if f != nil {
				if end, err = mapping.EndOf(f); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
			}
			ends = append(ends, end)
		}
		t.Cleanup(func() { session.Mapping.Close() })
		sessions[session.Name] = ends
	}
	for _, stray := range left {
		strays = append(strays, fmt.Sprintf("%s: %v", stray.Name, stray.Why))
	}
	slices.Sort(strays)
	return sessions, strays
}

func endsOf(t *testing.T, files ...*os.File) (ends []mapping.End) {
	t.Helper()
	for _, f := range files {
		end, err := mapping.EndOf(f)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	return ends
}

// What two sessions share is kept once, and as long as one of them needs it.
func TestSystemdKeepsAnOpenFileOnce(t *testing.T) {
	need(t)
	m := newSystemd(t, "@thoughtgate-keep-"+t.Name()+fmt.Sprint(os.Getpid()), MaxKept)
	s := m.store(fmt.Sprint(MaxKept))
	tty := terminal(t)
	r1, _ := newPipe(t)
	r2, _ := newPipe(t)
	one, _ := newSession(t, tty, tty, r1)
	two, _ := newSession(t, tty, tty, r2)
	mustKeep(t, s, "one", one...)
	mustKeep(t, s, "two", two...)
	if got, want := m.names(), []string{"one.0", "one.2", "one.3", "two.2", "two.3"}; !slices.Equal(got, want) {
		t.Fatalf("it keeps %q, want %q", got, want)
	}
	after := m.store("")
	sessions, strays := take(t, after)
	if len(strays) > 0 || !slices.Equal(sessions["one"], endsOf(t, tty, tty, r1)) || !slices.Equal(sessions["two"], endsOf(t, tty, tty, r2)) {
		t.Errorf("came back: %v, strays %q", sessions, strays)
	}
	for _, s := range []*Store{s, after} {
		if err := s.Drop(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		if err := s.barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := m.names(), []string{"one.0", "two.2", "two.3"}; !slices.Equal(got, want) {
			t.Fatalf("without the first session it keeps %q, want %q", got, want)
		}
	}
	last := m.store("")
	if sessions, strays := take(t, last); len(strays) > 0 || !slices.Equal(sessions["two"], endsOf(t, tty, tty, r2)) {
		t.Errorf("came back: %v, strays %q", sessions, strays)
	}
	if err := errors.Join(last.Drop(t.Context(), "two"), last.barrier(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := m.names(); len(got) > 0 {
		t.Errorf("without any session it keeps %q", got)
	}
}

// Part of a session is dropped by itself, so that its server sees the end of its input.
func TestPartOfASessionIsDropped(t *testing.T) {
	need(t)
	m := newSystemd(t, t.TempDir()+"/notify", MaxKept)
	s := m.store(fmt.Sprint(MaxKept))
	r, w := newPipe(t)
	in, _ := newPipe(t)
	files, _ := newSession(t, in, w)
	mustKeep(t, s, "one", files...)
	if err := errors.Join(s.Drop(t.Context(), "one", w), s.barrier(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the pipe that was dropped is open: %d, %v", n, err)
	}
	sessions, strays := take(t, m.store(""))
	if want := append(endsOf(t, in), mapping.End{}); len(strays) > 0 || !slices.Equal(sessions["one"], want) {
		t.Errorf("came back: %v, strays %q, want %v", sessions, strays, want)
	}
}

// More than may be kept is not given away, since it would be dropped without a word.
func TestNoMoreIsKeptThanMayBe(t *testing.T) {
	need(t)
	m := newSystemd(t, t.TempDir()+"/notify", 5)
	s := m.store("5")
	r, w := newPipe(t)
	one, _ := newSession(t, r, w)
	two, _ := newSession(t, r, w)
	mustKeep(t, s, "one", one...)
	if err := s.Keep(t.Context(), "two", two...); !errors.Is(err, ErrFull) {
		t.Errorf("a session too many: %v, want ErrFull", err)
	}
	if got := m.names(); len(got) != 3 {
		t.Errorf("it keeps %q", got)
	}
	// A systemd that doesn't say how many is asked whether it keeps any.
	if n, err := m.store("").limit(); n != MaxKept || err != nil {
		t.Errorf("of one that keeps some: %d, %v", n, err)
	}
	none := newSystemd(t, t.TempDir()+"/notify", 0)
	if err := none.store("").Keep(t.Context(), "one", one...); !errors.Is(err, ErrFull) {
		t.Errorf("of one that keeps nothing: %v, want ErrFull", err)
	}
	if err := (&Store{}).Keep(t.Context(), "one", one...); !errors.Is(err, ErrNobody) {
		t.Errorf("without anybody: %v, want ErrNobody", err)
	}
}

// What was planted among what is kept is in no session.
func TestWhatNoSessionClaimsIsClosed(t *testing.T) {
	need(t)
	m := newSystemd(t, t.TempDir()+"/notify", MaxKept)
	s := m.store(fmt.Sprint(MaxKept))
	r, w := newPipe(t)
	other, _ := newPipe(t)
	one, memory := newSession(t, r, w)
	mustKeep(t, s, "one", one...)

	m.plant("one.0", other)                // another pipe, under the session's name
	thief, _ := newSession(t, r, w, other) // a session that claims what is another's
	m.plant("thief.3", thief[3])
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", memory.File().Fd()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	m.plant("two.0", again) // the same memory as another session's
	empty, err := mapping.Create(1 << 10)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	m.plant("empty.0", empty.File())
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m.plant("two.1", file)

	sessions, strays := take(t, m.store(""))
	if want := endsOf(t, r, w); !slices.Equal(sessions["one"], want) {
		t.Errorf("the session came back as %v, want %v", sessions["one"], want)
	}
	if want := []mapping.End{{}, {}, endsOf(t, other)[0]}; !slices.Equal(sessions["thief"], want) {
		t.Errorf("one that claims another's pipes has %v, want %v", sessions["thief"], want)
	}
	if len(sessions) != 2 || len(strays) != 3 {
		t.Errorf("came back: %v, strays %q", sessions, strays)
	}
	if err := s.barrier(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got, want := m.names(), []string{"one.0", "one.0", "one.1", "one.2", "thief.3"}; !slices.Equal(got, want) {
		t.Errorf("it keeps %q, want %q", got, want)
	}
}
