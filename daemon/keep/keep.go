// Package keep lets descriptors that a daemon holds open outlive it.
//
// When a daemon dies, its descriptors are closed, and the content of a pipe is lost with its
// last copy. So copies of all descriptors of a session are kept elsewhere: by the user's
// systemd, which keeps descriptors for its services, or by the keeper ([Run]), a parent of the
// daemon that does nothing else. Both get the same messages, and both hand everything back
// when they start the next daemon. A [Store] is the daemon's side of it.
//
// What is handed back is not trusted: processes of the same user can reach what systemd keeps.
// Descriptors are recognized by what they refer to, as their session's mapping says, and those
// that no session claims are closed ([Store.Take]).
//
// # With systemd
//
// The unit says how many descriptors systemd may keep (FileDescriptorStoreMax=). systemd
// silently drops any more, so they are counted here. $FDSTORE says how many there may be;
// systemd before 254 does not set it, and is probed once for whether it keeps anything. It
// hands descriptors back in any order. It keeps the same open file once, under its first name,
// so that name is only given up when no session needs it any more. `systemctl --user restart`
// keeps everything, as does `tgctl daemon restart`; `stop` drops it, and agents see the end of
// their input.
//
// # Without systemd
//
// The keeper starts the daemon, and restarts it when it dies. It runs the program that it
// opened at its own start. Only when it is told to (`tgctl daemon restart`, [Again]) does it
// open the program at that path again. If the keeper is killed, the daemon continues and
// reports that it has lost its keeper. If both are killed, agents and servers see the end of
// their input.
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

// Errors that [Store.Keep] wraps if trying again is of no use. The session works nevertheless, but ends
// with the daemon.
var (
	ErrNobody = errors.New("no store keeps descriptors for this daemon")
	ErrFull   = errors.New("the descriptor store of this daemon is full")
)

// Store has the daemon's descriptors kept by systemd or the keeper. Its methods are safe for
// concurrent use.
type Store struct {
	line   *line    // to systemd or the keeper, for descriptors and notifications; nil if there is neither
	alive  *os.File // reaches its end when the keeper exits; nil with systemd
	limit  func() (int, error)
	lost   atomic.Bool // the keeper has exited
	handed []*entry    // inherited descriptors, until Take

	mu    sync.Mutex // guards the fields below
	kept  map[string][]entry
	stuck []string // names that could not be removed
}

// entry is one kept descriptor.
type entry struct {
	name string // under which it is kept
	end  mapping.End
	file *os.File // nil if it is kept for another session than the one that sent it

	unread error // why it is not a session's mapping, if it looks like one
}

// longestName limits names so that all of them fit into one environment variable, whose size
// the system limits.
const longestName = 20

var validName = regexp.MustCompile(`^[a-z0-9-]{1,20}$`)

// Keep has files kept under a name: those of one session, of which the last is its mapping. It
// returns when they have arrived. Each file must stay open until it is dropped. A nil file keeps
// its index and is skipped.
//
// A daemon may be killed between two messages. So the mapping is sent last and removed first: the
// next daemon finds a session whole, or takes what it finds for no session.
func (s *Store) Keep(ctx context.Context, name string, files ...*os.File) error {
	if s.line == nil {
		return ErrNobody
	}
	if !validName.MatchString(name) {
		return fmt.Errorf("keep descriptors: the name %q must be 1 to %d lower-case letters, digits and dashes", name, longestName)
	}
	err := s.removeStuck(ctx) // which may be of an earlier attempt under the same name
	if err == nil {
		err = s.register(name, files)
	}
	if err != nil {
		return fmt.Errorf("keep the descriptors of %s: %w", name, err)
	}
	if err = s.sendDescriptors(ctx, name); err == nil {
		err = s.barrier(ctx)
	}
	if err != nil {
		err = fmt.Errorf("keep the descriptors of %s: %w", name, err)
		return errors.Join(err, s.Drop(context.WithoutCancel(ctx), name))
	}
	return nil
}

// register adds what is to be kept, if there is room for it.
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
		entries = append(entries, entry{name: name + "." + strconv.Itoa(i), end: end, file: f})
	}
	slices.Reverse(entries) // Drop begins with the mapping
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept[name]) > 0 {
		return errors.New("the name is already used")
	}
	if n := s.count(); n+len(entries) > limit {
		return fmt.Errorf("%w: it has %d, the maximum is %d", ErrFull, n, limit)
	}
	s.kept[name] = entries
	return nil
}

// count returns the number of kept descriptors. s.mu must be held.
func (s *Store) count() (n int) {
	for _, entries := range s.kept {
		n += len(entries)
	}
	return n
}

func (s *Store) sendDescriptors(ctx context.Context, name string) error {
	s.mu.Lock()
	entries := s.kept[name]
	s.mu.Unlock()
	for _, e := range slices.Backward(entries) {
		if err := s.line.send(ctx, stateStore+e.name+statePoll, e.file); err != nil {
			return err
		}
	}
	return nil
}

// Drop stops keeping what is kept under a name, or only the given files. After that, their
// other ends see the end when the daemon closes them.
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
	var names []string
	for _, e := range s.unregister(name, ends) {
		names = append(names, e.name)
	}
	return s.removeAll(ctx, names)
}

// removeAll removes what is kept under descriptors' names. What could not be removed is removed
// before anything else is kept.
func (s *Store) removeAll(ctx context.Context, names []string) error {
	for i, name := range names {
		if err := s.remove(ctx, name); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.stuck = append(s.stuck, names[i:]...)
			return err
		}
	}
	return nil
}

func (s *Store) removeStuck(ctx context.Context) error {
	s.mu.Lock()
	names := s.stuck
	s.stuck = nil
	s.mu.Unlock()
	return s.removeAll(ctx, names)
}

// remove removes what is kept under a descriptor's name. Only names can be removed, so what sessions
// need that is kept under the same name, since somebody else has used it, is sent again.
func (s *Store) remove(ctx context.Context, name string) error {
	err := s.line.send(ctx, stateRemove+name, nil)
	for _, f := range s.under(name) {
		err = errors.Join(err, s.line.send(ctx, stateStore+name+statePoll, f))
	}
	return err
}

// under returns the descriptors of sessions that are kept under a descriptor's name.
func (s *Store) under(name string) (files []*os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, entries := range s.kept {
		for _, e := range entries {
			if e.name == name && e.file != nil {
				files = append(files, e.file)
			}
		}
	}
	return files
}

// unregister removes the entries with the given ends, or all, and returns those that must be
// removed from systemd or the keeper. An open file that another session has too may be kept
// under this name alone, and is left there.
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
			s.kept[other] = append(s.kept[other], entry{name: e.name, end: e.end})
			continue
		}
		remove = append(remove, e)
	}
	if s.kept[name] = stay; len(stay) == 0 {
		delete(s.kept, name)
	}
	return remove
}

// holder returns another name than name under which something with that end is kept. s.mu must
// be held.
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

// Kept returns how many descriptors are kept, and how many may be.
func (s *Store) Kept() (n, limit int) {
	if s.line == nil {
		return 0, 0
	}
	limit, _ = s.limit() // 0 on error
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(), limit
}

// Notify sends the daemon's state to systemd or the keeper, as sd_notify does. If there is
// neither, it does nothing.
func (s *Store) Notify(ctx context.Context, state string) error {
	if s.line == nil {
		return nil
	}
	return s.line.send(ctx, state, nil)
}

// Keeper reports whether the daemon was started by a keeper.
func (s *Store) Keeper() bool { return s.alive != nil }

// KeeperLost reports whether there was a keeper that has exited.
func (s *Store) KeeperLost() bool { return s.lost.Load() }

// AwaitKeeperEnd returns true when the keeper has exited, which it should not do before the
// daemon, and false when ctx has ended. Without a keeper it waits for ctx.
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
