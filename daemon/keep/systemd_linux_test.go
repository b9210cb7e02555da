package keep

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// newSystemd returns a manager that keeps descriptors as systemd does, n at most.
func newSystemd(t *testing.T, address string, n int) *rig.FDStore {
	t.Helper()
	if !rig.ComparesFiles() {
		t.Skip("it can't be told which descriptors are of the same open file")
	}
	m := rig.NewFDStore(t, address)
	m.SetMax(n)
	return m
}

// storeOf returns the store of a daemon that is started now, with the limit in its
// environment.
func storeOf(t *testing.T, m *rig.FDStore, limit string) *Store {
	t.Helper()
	s := &Store{kept: map[string][]entry{}}
	var err error
	if s.line, err = dial(m.Address()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.line.conn.Close() })
	s.limit = limitOf(limit, s)
	m.HandOver(func(name string, fd int) { err = errors.Join(err, s.inherited(fd, name)) })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newSession creates the descriptors of a session: those given, and a mapping.
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

// take takes over what is kept, and returns for each session which of its descriptors are
// present.
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
	m := newSystemd(t, "@thoughtgate-keep-"+t.Name()+fmt.Sprint(os.Getpid()), MaxKept)
	s := storeOf(t, m, fmt.Sprint(MaxKept))
	tty := terminal(t)
	r1, _ := newPipe(t)
	r2, _ := newPipe(t)
	one, _ := newSession(t, tty, tty, r1)
	two, _ := newSession(t, tty, tty, r2)
	mustKeep(t, s, "one", one...)
	mustKeep(t, s, "two", two...)
	if got, want := m.Names(), []string{"one.0", "one.2", "one.3", "two.2", "two.3"}; !slices.Equal(got, want) {
		t.Fatalf("it keeps %q, want %q", got, want)
	}
	after := storeOf(t, m, "")
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
		if got, want := m.Names(), []string{"one.0", "two.2", "two.3"}; !slices.Equal(got, want) {
			t.Fatalf("without the first session it keeps %q, want %q", got, want)
		}
	}
	last := storeOf(t, m, "")
	if sessions, strays := take(t, last); len(strays) > 0 || !slices.Equal(sessions["two"], endsOf(t, tty, tty, r2)) {
		t.Errorf("came back: %v, strays %q", sessions, strays)
	}
	if err := errors.Join(last.Drop(t.Context(), "two"), last.barrier(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := m.Names(); len(got) > 0 {
		t.Errorf("without any session it keeps %q", got)
	}
}

// A session keeps what it has under names that somebody else has used, too: what goes by them is
// closed, and the rest stays.
func TestOthersUnderTheSameNames(t *testing.T) {
	m := newSystemd(t, t.TempDir()+"/notify", MaxKept)
	s := storeOf(t, m, fmt.Sprint(MaxKept))
	r, w := newPipe(t)
	in, _ := newPipe(t)
	gone, _ := newPipe(t)
	one, _ := newSession(t, r, w, in)
	mustKeep(t, s, "one", one...)
	other, _ := newSession(t, r, w, gone)
	m.Plant("one.3", other[3])
	next := storeOf(t, m, "")
	sessions, strays := take(t, next)
	if want := endsOf(t, r, w, in); len(strays) > 0 || len(sessions) != 2 || !slices.Equal(sessions["one"], want) {
		t.Errorf("came back: %v, strays %q, want %v", sessions, strays, want)
	}
	for name := range sessions {
		if name == "one" {
			continue
		}
		if err := errors.Join(next.Drop(t.Context(), name), next.barrier(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := m.Names(), []string{"one.0", "one.1", "one.2", "one.3"}; !slices.Equal(got, want) {
		t.Errorf("it keeps %q, want %q", got, want)
	}
	if sessions, strays := take(t, storeOf(t, m, "")); len(strays) > 0 || !slices.Equal(sessions["one"], endsOf(t, r, w, in)) {
		t.Errorf("came back: %v, strays %q", sessions, strays)
	}
}

// What could not be removed, since nobody read the messages, is removed before anything else is kept:
// the next daemon finds the later attempt alone.
func TestWhatCouldNotBeRemoved(t *testing.T) {
	path := t.TempDir() + "/notify"
	r, w := newPipe(t)
	first, _ := newSession(t, r, w)
	second, _ := newSession(t, r, w)
	m := newSystemd(t, path, MaxKept)
	s := storeOf(t, m, fmt.Sprint(MaxKept))
	mustKeep(t, s, "one", first...)
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	line := s.line
	s.line = silent(t)
	if err := s.Drop(soon, "one"); err == nil {
		t.Fatal("messages that nobody reads are sent")
	}
	s.line = line
	mustKeep(t, s, "one", second...)
	if got, want := m.Names(), []string{"one.0", "one.1", "one.2"}; !slices.Equal(got, want) {
		t.Errorf("it keeps %q, want %q", got, want)
	}
	sessions, strays := take(t, storeOf(t, m, ""))
	if len(sessions) != 1 || len(strays) > 0 || !slices.Equal(sessions["one"], endsOf(t, r, w)) {
		t.Errorf("came back: %v, strays %q", sessions, strays)
	}
}

// The mapping is what makes a session of descriptors: it comes last, and goes first, so that a daemon that is
// killed meanwhile leaves the session whole, or none.
func TestMappingIsLastAndFirst(t *testing.T) {
	r, w := newPipe(t)
	files, _ := newSession(t, r, w)
	address := &net.UnixAddr{Name: t.TempDir() + "/messages", Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	said := make(chan string, 16)
	go func() { // ends with conn
		defer close(said)
		message, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4))
		for {
			n, m, _, _, err := conn.ReadMsgUnix(message, rights)
			if err != nil {
				return
			}
			closeAll(received(rights[:m]))
			said <- string(message[:n])
		}
	}()
	s := &Store{kept: map[string][]entry{}, limit: func() (int, error) { return MaxKept, nil }}
	if s.line, err = dial(address.Name); err != nil {
		t.Fatal(err)
	}
	defer s.line.conn.Close()
	mustKeep(t, s, "one", files...)
	if err := errors.Join(s.Drop(t.Context(), "one"), s.Notify(t.Context(), "X=1")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for message := range said {
		if message == "X=1" {
			break
		}
		got = append(got, strings.TrimSuffix(message, statePoll))
	}
	want := []string{stateStore + "one.0", stateStore + "one.1", stateStore + "one.2", stateBarrier, stateRemove + "one.2", stateRemove + "one.1", stateRemove + "one.0"}
	if !slices.Equal(got, want) {
		t.Errorf("the messages are %q, want %q", got, want)
	}
}

// silent returns a line to somebody who reads nothing, whose queue is full.
func silent(t *testing.T) *line {
	t.Helper()
	address := &net.UnixAddr{Name: t.TempDir() + "/silent", Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	l, err := dial(address.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.conn.Close() })
	for err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		err = l.send(ctx, "X=1", nil)
		cancel()
	}
	return l
}

// Part of a session can be dropped separately, so that its server sees the end of its input.
func TestPartOfASessionIsDropped(t *testing.T) {
	m := newSystemd(t, t.TempDir()+"/notify", MaxKept)
	s := storeOf(t, m, fmt.Sprint(MaxKept))
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
	sessions, strays := take(t, storeOf(t, m, ""))
	if want := append(endsOf(t, in), mapping.End{}); len(strays) > 0 || !slices.Equal(sessions["one"], want) {
		t.Errorf("came back: %v, strays %q, want %v", sessions, strays, want)
	}
}

// Descriptors above the limit are not sent, since they would be dropped silently.
func TestNoMoreIsKeptThanMayBe(t *testing.T) {
	m := newSystemd(t, t.TempDir()+"/notify", 5)
	s := storeOf(t, m, "5")
	r, w := newPipe(t)
	one, _ := newSession(t, r, w)
	two, _ := newSession(t, r, w)
	mustKeep(t, s, "one", one...)
	if err := s.Keep(t.Context(), "two", two...); !errors.Is(err, ErrFull) {
		t.Errorf("a session too many: %v, want ErrFull", err)
	}
	if got := m.Names(); len(got) != 3 {
		t.Errorf("it keeps %q", got)
	}
	// A systemd that does not announce a limit is asked whether it keeps anything.
	if n, err := storeOf(t, m, "").limit(); n != MaxKept || err != nil {
		t.Errorf("of one that keeps some: %d, %v", n, err)
	}
	none := newSystemd(t, t.TempDir()+"/notify", 0)
	if err := storeOf(t, none, "").Keep(t.Context(), "one", one...); !errors.Is(err, ErrFull) {
		t.Errorf("of one that keeps nothing: %v, want ErrFull", err)
	}
	if err := (&Store{}).Keep(t.Context(), "one", one...); !errors.Is(err, ErrNobody) {
		t.Errorf("without anybody: %v, want ErrNobody", err)
	}
}

// Planted descriptors become part of no session.
func TestWhatNoSessionClaimsIsClosed(t *testing.T) {
	m := newSystemd(t, t.TempDir()+"/notify", MaxKept)
	s := storeOf(t, m, fmt.Sprint(MaxKept))
	r, w := newPipe(t)
	other, _ := newPipe(t)
	one, memory := newSession(t, r, w)
	mustKeep(t, s, "one", one...)

	m.Plant("one.0", other)                // another pipe, under the session's name
	thief, _ := newSession(t, r, w, other) // a session that claims another's descriptor
	m.Plant("thief.3", thief[3])
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", memory.File().Fd()), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	m.Plant("two.0", again) // the same memory as another session's
	empty, err := mapping.Create(1 << 10)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	m.Plant("empty.0", empty.File())
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m.Plant("two.1", file)

	sessions, strays := take(t, storeOf(t, m, ""))
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
	if got, want := m.Names(), []string{"one.0", "one.0", "one.1", "one.2", "thief.3"}; !slices.Equal(got, want) {
		t.Errorf("it keeps %q, want %q", got, want)
	}
}
