package keep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
)

const (
	firstHanded = 3 // first inherited descriptor

	// PerSession is how many descriptors of a session may be kept: two of the agent, two of
	// the server, one whose end tells tg-shim to exit, two staging pipes, and the mapping.
	PerSession = 8
	// MaxKept is how many descriptors are kept in total if nothing else is configured: those
	// of 512 sessions. It equals FileDescriptorStoreMax= in the unit.
	MaxKept = PerSession * 512
	// maxByKeeper is how many descriptors a keeper keeps at most. All names, of 19 bytes each,
	// are in one environment variable, which is limited to 128 KiB.
	maxByKeeper = PerSession * 800
	// reservedByKeeper is how many descriptors the keeper needs itself.
	reservedByKeeper = 64

	keeperVar = "THOUGHTGATE_KEEPER"
)

// Open takes over the descriptors that the parent process has handed over, and determines
// whether systemd or a keeper keeps descriptors. It must be called once, before any other
// process is started, because it removes the variables that it uses from the environment.
func Open() (*Store, error) {
	s := &Store{kept: map[string][]entry{}}
	keeper := os.Getenv(keeperVar)
	mine := keeper != "" || os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid())
	count, names := os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	address, limit := os.Getenv("NOTIFY_SOCKET"), os.Getenv("FDSTORE")
	for _, name := range []string{keeperVar, "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "FDSTORE"} {
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	if mine {
		if err := s.inherit(count, names); err != nil {
			return nil, err
		}
	}
	var err error
	if keeper != "" {
		err = s.join(keeper)
	} else {
		s.line, err = dial(address)
	}
	if err != nil {
		return nil, err
	}
	s.limit = limitOf(limit, s)
	return s, nil
}

// limitOf returns a function that returns how many descriptors may be kept. said is the value
// of $FDSTORE. The function's error wraps [ErrNobody] or [ErrFull].
func limitOf(said string, s *Store) func() (int, error) {
	if n, err := strconv.Atoi(said); err == nil && n >= 0 {
		return func() (int, error) { return n, nil }
	}
	return sync.OnceValues(func() (int, error) {
		err := s.keepsAny(context.Background()) // which has its own timeout
		if err != nil && !errors.Is(err, ErrFull) {
			err = fmt.Errorf("%w: %w", ErrNobody, err)
		}
		if err != nil {
			return 0, err
		}
		return MaxKept, nil
	})
}

// inherit takes over the descriptors that $LISTEN_FDS announces.
func (s *Store) inherit(count, names string) error {
	n, err := strconv.Atoi(count)
	if count == "" {
		return nil
	}
	if err != nil || n < 0 {
		return fmt.Errorf("LISTEN_FDS is %q, which is not a number of descriptors", count)
	}
	named := strings.Split(names, ":")
	for i := range n {
		name := ""
		if i < len(named) {
			name = named[i]
		}
		if err := s.inherited(firstHanded+i, name); err != nil {
			return fmt.Errorf("take over descriptor %d of %d in LISTEN_FDS: %w", firstHanded+i, n, err)
		}
	}
	return nil
}

func (s *Store) inherited(fd int, name string) error {
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "handed over")
	end, err := mapping.EndOf(f)
	if err != nil {
		return err
	}
	s.handed = append(s.handed, &entry{name: name, end: end, file: f})
	return nil
}

// join takes over the daemon's ends of the connections to its keeper.
func (s *Store) join(said string) error {
	var fds [3]int // messages, life, program
	words := strings.Split(said, ":")
	if len(words) != len(fds) {
		return fmt.Errorf("%s is %q; only the keeper sets it", keeperVar, said)
	}
	for i, word := range words {
		fd, err := strconv.Atoi(word)
		if err != nil || fd < firstHanded {
			return fmt.Errorf("%s is %q; only the keeper sets it", keeperVar, said)
		}
		unix.CloseOnExec(fd)
		fds[i] = fd
	}
	if err := unix.Close(fds[2]); err != nil {
		return fmt.Errorf("close the keeper's copy of the program: %w", err)
	}
	if err := unix.SetNonblock(fds[1], true); err != nil { // the keeper's end is a different file
		return fmt.Errorf("watch the keeper: %w", err)
	}
	s.alive = os.NewFile(uintptr(fds[1]), "life of the keeper")
	conn, err := connOf(fds[0])
	if err != nil {
		return fmt.Errorf("take over the keeper's socket: %w", errors.Join(err, s.alive.Close()))
	}
	s.line = &line{conn: conn}
	// A process that was started from a descriptor bears its number as a name. An error is
	// harmless.
	_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0)
	return nil
}

// Socket returns the listening socket that was handed over under a name, or nil if there is
// none. It returns an error if there are several.
func (s *Store) Socket(name string) (*os.File, error) {
	var found *os.File
	rest := s.handed[:0:0]
	for _, e := range s.handed {
		if e.name != name || !listens(e) {
			rest = append(rest, e)
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("several sockets named %s were handed over; see thoughtgated.socket", name)
		}
		found = e.file
	}
	s.handed = rest
	return found, nil
}

// listens reports whether an entry is a listening socket.
func listens(e *entry) bool {
	if e.end.Kind != unix.S_IFSOCK {
		return false
	}
	raw, err := e.file.SyscallConn()
	if err != nil {
		return false
	}
	yes := false
	err = raw.Control(func(fd uintptr) {
		n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		yes = err == nil && n != 0
	})
	return err == nil && yes
}
