package agentconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// An agent's lock that was not touched for so long was left by one that
	// died; agents judge ours the same way.
	agentLockStale = 10 * time.Second
	// Waiting a little longer than that outlasts a dead agent, and any live one.
	agentLockPatience = 12 * time.Second
)

// agentLock is a folder that we made because an agent takes such a folder for a
// lock on its file. It is told from one that the agent made by its identity.
type agentLock struct {
	Path string `json:"path"`
	identity
}

// withAgentLocks does what do does while no agent that heeds these lock folders
// writes. What we made is noted, as far as that can be written,
// so that it can be removed at once should we be killed: without a note, or
// without a lock of our own, which is a nil receiver, it is waited for.
//
// The error is an *agentLockError, and nothing was done, when one of the locks
// cannot be had.
func (l *fileLock) withAgentLocks(paths []string, do func() error) error {
	var taken []agentLock
	defer func() {
		// Taken away before the note of it, which stays where that can't be done:
		// a note too many does no harm.
		if len(taken) > 0 {
			l.note(slices.DeleteFunc(taken, agentLock.removeIfSame))
		}
	}()
	for _, path := range paths {
		lock, err := l.ours(path)
		if err != nil {
			lock, err = takeAgentLock(path)
		}
		if err != nil {
			return &agentLockError{path, err}
		}
		taken = append(taken, lock)
		l.note(taken)
	}
	return do()
}

// ours returns a lock that we have still, because it could not be removed.
func (l *fileLock) ours(path string) (agentLock, error) {
	now, err := identify(path)
	if err == nil && (l == nil || !slices.Contains(l.made.Locks, now)) {
		err = fs.ErrExist
	}
	return now, err
}

// note writes down which agent locks are ours.
func (l *fileLock) note(locks []agentLock) {
	if l == nil {
		return
	}
	l.made.Kind, l.made.Target, l.made.Locks = noteLocks, l.path, locks
	if len(locks) > 0 {
		l.holder.notes.put(&l.made)
	} else {
		_ = l.holder.notes.drop(&l.made)
	}
}

// agentLockError says that an agent's own lock could not be taken.
type agentLockError struct {
	path string
	err  error
}

func (e *agentLockError) Error() string {
	return fmt.Sprintf("take the agent's own lock %s: %v", e.path, e.err)
}

func (e *agentLockError) Unwrap() error { return e.err }

// regardless is withAgentLocks for putting things back, which an agent that
// hangs, or a disk that is full, must not prevent.
func (l *fileLock) regardless(paths []string, do func() error) error {
	err := l.withAgentLocks(paths, do)
	var unlocked *agentLockError
	if errors.As(err, &unlocked) {
		return do()
	}
	return err
}

func takeAgentLock(path string) (agentLock, error) {
	deadline := time.Now().Add(agentLockPatience)
	tick := time.NewTicker(lockEvery)
	defer tick.Stop()
	for {
		err := os.Mkdir(path, 0o755)
		if err == nil {
			return identify(path)
		}
		if !errors.Is(err, fs.ErrExist) {
			return agentLock{}, err
		}
		switch st, err := os.Lstat(path); {
		case err != nil: // just let go of
		case !st.IsDir():
			return agentLock{}, nil // not what agents lock with
		case time.Since(st.ModTime()) > agentLockStale:
			_ = unix.Rmdir(path) // if it isn't empty it is no lock, and stays
		}
		if time.Now().After(deadline) {
			return agentLock{}, errors.New("the agent does not let go of it")
		}
		<-tick.C
	}
}

func identify(path string) (agentLock, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return agentLock{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return agentLock{path, identityOf(&st)}, nil
}

// removeIfSame removes the folder unless somebody else made it anew, and reports
// whether that is done with.
func (a agentLock) removeIfSame() bool {
	now, err := identify(a.Path)
	return err != nil || now != a || unix.Rmdir(a.Path) == nil
}
