package keep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
)

// Session is what was kept of one session.
type Session struct {
	Name    string // under which it is kept until it is dropped
	Mapping *mapping.Mapping
	Files   []*os.File // in the order of its mapping's ends; nil for descriptors that are no longer kept
}

// Stray is a descriptor that was kept and belongs to no session. It has been closed.
type Stray struct {
	Name string
	End  mapping.End
	Why  error
}

// claim is a session that is being assembled.
type claim struct {
	Session
	memory *entry
	ends   []mapping.End
	own    int // number of descriptors with its own name
	uses   []*entry
}

// Take returns everything that a previous daemon has had kept, by session, and the descriptors
// that no session claims. It must be called once, after the sockets were taken. Names prove
// nothing: a session is what a mapping says it is, and a descriptor belongs to the session
// that lists what it refers to. The name only decides between descriptors that refer to the
// same thing.
func (s *Store) Take(ctx context.Context) ([]Session, []Stray, error) {
	all := s.handed
	s.handed = nil
	claims, strays := mappings(all)
	used := map[*entry]bool{}
	for _, c := range claims {
		used[c.memory] = true
	}
	for _, st := range strays {
		used[st.entry] = true
	}
	// A session first gets what was kept under its own name.
	for _, own := range []bool{true, false} {
		for _, c := range claims {
			c.claim(all, used, own)
		}
	}
	var failed error
	var sessions []Session
	for _, c := range claims {
		c.share(all)
		s.settle(c)
		sessions = append(sessions, c.Session)
	}
	for _, e := range all {
		if !used[e] {
			strays = append(strays, stray{e, cmp.Or(e.unread, errors.New("it belongs to no session"))})
		}
	}
	told := make([]Stray, len(strays))
	for i, st := range strays {
		told[i] = Stray{st.entry.name, st.entry.end, st.why}
		failed = errors.Join(failed, s.discard(ctx, st.entry))
	}
	return sessions, told, failed
}

type stray struct {
	entry *entry
	why   error
}

// mappings finds the mappings among the kept descriptors. Each is a session. Sessions that
// have most of their descriptors under their own name come first.
func mappings(all []*entry) (claims []*claim, strays []stray) {
	for _, e := range all {
		if e.end.Kind != unix.S_IFREG || e.end.Access != unix.O_RDWR {
			continue
		}
		f, err := copyOf(e.file)
		if err != nil {
			strays = append(strays, stray{e, err})
			continue
		}
		m, err := mapping.Open(f)
		if err != nil {
			e.unread = err // it may be a file that is an agent's input
			continue
		}
		c := &claim{Session: Session{Mapping: m}, memory: e, uses: []*entry{e}}
		c.Name, _, _ = strings.Cut(e.name, ".")
		if c.ends, err = m.Ends(); err != nil {
			strays = append(strays, stray{e, errors.Join(err, m.Close())})
			continue
		}
		c.Files = make([]*os.File, len(c.ends))
		for _, other := range all {
			if strings.HasPrefix(other.name, c.Name+".") && slices.Contains(c.ends, other.end) {
				c.own++
			}
		}
		claims = append(claims, c)
	}
	slices.SortStableFunc(claims, func(a, b *claim) int { return b.own - a.own })
	seen := map[mapping.End]bool{}
	claims = slices.DeleteFunc(claims, func(c *claim) bool {
		again := seen[c.memory.end]
		if seen[c.memory.end] = true; again {
			err := errors.New("it is the memory of a session that exists already")
			strays = append(strays, stray{c.memory, errors.Join(err, c.Mapping.Close())})
		}
		return again
	})
	return claims, strays
}

// claim finds the session's descriptors. It prefers those with its own name and index, then
// those with its own name and, unless own is set, takes any that is unclaimed.
func (c *claim) claim(all []*entry, used map[*entry]bool, own bool) {
	for i, end := range c.ends {
		if c.Files[i] != nil || end == (mapping.End{}) {
			continue
		}
		at := slices.IndexFunc(all, func(e *entry) bool {
			return !used[e] && e.end == end && e.name == c.Name+"."+strconv.Itoa(i)
		})
		if at < 0 {
			at = slices.IndexFunc(all, func(e *entry) bool {
				return !used[e] && e.end == end && (!own || strings.HasPrefix(e.name, c.Name+"."))
			})
		}
		if at >= 0 {
			used[all[at]] = true
			c.Files[i] = all[at].file
			c.uses = append(c.uses, all[at])
		}
	}
}

// share gives the session a copy of a descriptor with the same end for each one that it still
// lacks. systemd keeps an open file once: an agent's socket or terminal may be both its input
// and its output. From other sessions it only gets devices and files, which any number of
// agents may use, and never a pipe or a socket.
func (c *claim) share(all []*entry) {
	for i, end := range c.ends {
		if c.Files[i] != nil || end == (mapping.End{}) {
			continue
		}
		from := c.uses
		if end.Kind == unix.S_IFCHR || end.Kind == unix.S_IFREG {
			from = all
		}
		if at := slices.IndexFunc(from, func(e *entry) bool { return e.end == end }); at >= 0 {
			c.Files[i], _ = copyOf(from[at].file) // nil if that fails, as if it were lost
			if !slices.Contains(c.uses, from[at]) {
				c.uses = append(c.uses, from[at])
			}
		}
	}
}

// settle registers what is still kept of a recovered session.
func (s *Store) settle(c *claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := 0; !validName.MatchString(c.Name) || s.kept[c.Name] != nil; n++ {
		c.Name = "again-" + strconv.Itoa(n)
	}
	_ = c.memory.file.Close() // the mapping has its own copy
	c.memory.file = c.Mapping.File()
	for _, e := range c.uses {
		s.kept[c.Name] = append(s.kept[c.Name], *e)
	}
}

// discard closes a stray and stops keeping it.
func (s *Store) discard(ctx context.Context, e *entry) error {
	err := e.file.Close()
	if s.line == nil {
		return err
	}
	return errors.Join(err, s.remove(ctx, e.name))
}

// duplicate returns a new descriptor of the same open file.
func duplicate(f *os.File) (int, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	var to int
	var failed error
	err = raw.Control(func(fd uintptr) { to, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, firstHanded) })
	if err = errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("copy a descriptor: %w", err)
	}
	return to, nil
}

// copyOf returns a new file for the same open file.
func copyOf(f *os.File) (*os.File, error) {
	fd, err := duplicate(f)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
