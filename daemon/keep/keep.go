// Package keep lets what a daemon holds open outlive it.
//
// A daemon that dies takes its descriptors with it, and with the last copy of a pipe
// goes what was in it. So copies of all that a session consists of lie with somebody
// who stays: the user's systemd, which keeps descriptors for its services, or else a
// parent of the daemon that does nothing but that, the keeper ([Run]). Both are told
// the same by the same messages, and both hand everything back when they start the
// next daemon. A [Store] is the daemon's side of it.
//
// Who keeps them is not believed: processes of the same user can reach what systemd
// keeps. What comes back is known by what it leads to, as the mapping of its session
// says, and what no session claims is closed ([Store.Take]).
//
// # With systemd
//
// The unit says how many descriptors systemd may keep (FileDescriptorStoreMax=). It
// drops what is more without a word, so they are counted here, and $FDSTORE says how
// many there may be; systemd before 254 doesn't set it, and is asked once whether it
// keeps anything. It hands them back in any order. The same open file is kept once,
// under the name under which it came first, so that this name is given up only when no
// session needs it any more. `systemctl --user restart` keeps all of it, as
// `tgctl daemon restart` does; `stop` lets it go, and agents see the end of their input.
//
// # Without systemd
//
// The keeper starts the daemon, and starts it again when it dies. It runs the program
// that it was started with, which it has opened once, and what lies in its place now
// only when it is told to (`tgctl daemon restart`, [Again]). When the keeper
// is killed, the daemon goes on and says that it has lost its keeper. When both are
// killed, agents and servers see the end of their input.
package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
)

// Errors that [Store.Keep] wraps. What was to be kept works, and ends with the daemon.
var (
	ErrNobody = errors.New("nobody keeps descriptors for this daemon")
	ErrFull   = errors.New("no more descriptors can be kept for this daemon")
)

// Store is where the daemon has its descriptors kept. Its methods may be called by
// any number of goroutines at once.
type Store struct {
	line   *line    // to who keeps them and is told how the daemon fares; nil for nobody
	alive  *os.File // comes to its end when the keeper does; nil for systemd
	limit  func() (int, error)
	lost   atomic.Bool // the keeper was
	handed []*entry    // until Take

	mu   sync.Mutex // guards what follows
	kept map[string][]entry
}

// entry is one descriptor that is kept.
type entry struct {
	name string // that its keeper knows it by
	end  mapping.End
	file *os.File // nil where it is kept for others than who has given it
}

// longestName keeps the names of all that is kept within one variable of the
// environment, which is bounded by the system.
const longestName = 20

var validName = regexp.MustCompile(`^[a-z0-9-]{1,20}$`)

// Keep has files kept under a name: those of one session, its mapping among them. It
// returns when whoever keeps them has them. Each stays open until it was dropped. A
// nil file keeps its place and is skipped.
func (s *Store) Keep(ctx context.Context, name string, files ...*os.File) error {
	if s.line == nil {
		return ErrNobody
	}
	if !validName.MatchString(name) {
		return fmt.Errorf("keep descriptors: %q is no name of 1 to %d small letters, digits and dashes", name, longestName)
	}
	if err := s.register(name, files); err != nil {
		return fmt.Errorf("keep the descriptors of %s: %w", name, err)
	}
	err := s.hand(ctx, name)
	if err == nil {
		err = s.barrier(ctx)
	}
	if err != nil {
		err = fmt.Errorf("keep the descriptors of %s: %w", name, err)
		return errors.Join(err, s.Drop(context.WithoutCancel(ctx), name))
	}
	return nil
}

// register notes what is to be kept, if there is room for it.
func (s *Store) register(name string, files []*os.File) error {
	limit, err := s.limit()
	if err != nil {
		return err
	}
	var entries []entry
	for i, f := range files {
		if f == nil {
			continue
		}
		end, err := mapping.EndOf(f)
		if err != nil {
			return err
		}
		entries = append(entries, entry{name + "." + strconv.Itoa(i), end, f})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept[name]) > 0 {
		return errors.New("that name is taken")
	}
	if n := s.count(); n+len(entries) > limit {
		return fmt.Errorf("%w: there are %d, and may be %d", ErrFull, n, limit)
	}
	s.kept[name] = entries
	return nil
}

// count is how many descriptors are kept. s.mu is held.
func (s *Store) count() (n int) {
	for _, entries := range s.kept {
		n += len(entries)
	}
	return n
}

func (s *Store) hand(ctx context.Context, name string) error {
	s.mu.Lock()
	entries := s.kept[name]
	s.mu.Unlock()
	for _, e := range entries {
		if err := s.line.send(ctx, stateStore+e.name+statePoll, e.file); err != nil {
			return err
		}
	}
	return nil
}

// Drop has what is kept under a name kept no more, or only those of it that are given.
// After that it is up to the daemon when their other ends see that they are closed.
func (s *Store) Drop(ctx context.Context, name string, only ...*os.File) error {
	if s.line == nil {
		return nil
	}
	var ends []mapping.End
	for _, f := range only {
		end, err := mapping.EndOf(f)
		if err != nil {
			return err
		}
		ends = append(ends, end)
	}
	var failed error
	for _, e := range s.unregister(name, ends) {
		failed = errors.Join(failed, s.line.send(ctx, stateRemove+e.name, nil))
	}
	return failed
}

// unregister forgets entries, those with the ends or all, and returns what is to be
// removed: not what another session has too, which may be kept under this name alone.
func (s *Store) unregister(name string, ends []mapping.End) (remove []entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var stay []entry
	for _, e := range s.kept[name] {
		if len(ends) > 0 && !slices.Contains(ends, e.end) {
			stay = append(stay, e)
			continue
		}
		if other := s.holder(name, e.end); other != "" {
			s.kept[other] = append(s.kept[other], entry{e.name, e.end, nil})
			continue
		}
		remove = append(remove, e)
	}
	if s.kept[name] = stay; len(stay) == 0 {
		delete(s.kept, name)
	}
	return remove
}

// holder is the name of another than name under which something with that end is
// kept. s.mu is held.
func (s *Store) holder(name string, end mapping.End) string {
	for other, entries := range s.kept {
		for _, e := range entries {
			if other != name && e.end == end {
				return other
			}
		}
	}
	return ""
}

// Kept is how many descriptors are kept, and how many may be.
func (s *Store) Kept() (n, limit int) {
	if s.line == nil {
		return 0, 0
	}
	limit, _ = s.limit() // 0 with its error
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(), limit
}

// Notify tells the service manager, or the keeper, how the daemon fares, in the words
// of sd_notify. Where there is neither, it does nothing.
func (s *Store) Notify(ctx context.Context, state string) error {
	if s.line == nil {
		return nil
	}
	return s.line.send(ctx, state, nil)
}

// Keeper reports whether it is a keeper that the daemon was started by.
func (s *Store) Keeper() bool { return s.alive != nil }

// KeeperLost reports whether there was a keeper that has ended.
func (s *Store) KeeperLost() bool { return s.lost.Load() }

// AwaitKeeperEnd returns true when the keeper has ended, which it should not before the
// daemon, and false when ctx has. Without a keeper it waits for ctx.
func (s *Store) AwaitKeeperEnd(ctx context.Context) bool {
	if s.alive == nil {
		<-ctx.Done()
		return false
	}
	defer context.AfterFunc(ctx, func() { _ = s.alive.SetReadDeadline(past) })()
	if _, err := s.alive.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
		s.lost.Store(true)
	}
	return s.lost.Load()
}
