package agentconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

const (
	lockSuffix = Infix + "lock"

	lockInterval = 10 * time.Millisecond

	// BriefLockTimeout is how long a process that only restores a file may hold its lock. It
	// usually takes milliseconds, unless an agent does not release its own lock.
	BriefLockTimeout = agentLockTimeout + 3*time.Second
)

// LockedError reports that another process holds the lock of a configuration.
type LockedError struct {
	Path string // path of the configuration
	holder
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is already wrapped by another process", e.Path)
	}
	if e.holder.Brief {
		return fmt.Sprintf("%s is being rewritten or restored by process %d", e.Path, e.PID)
	}
	return fmt.Sprintf("%s is already wrapped by process %d since %s", e.Path, e.PID, e.Since.Local().Format(time.DateTime))
}

// Brief reports whether the lock will be released soon: the holder only restores the file, or
// has not yet written who it is. See [BriefLockTimeout].
func (e *LockedError) Brief() bool { return e.holder.Brief || e.PID == 0 }

// fileLock is the right of this process to rewrite one configuration. The lock is on a separate
// file, because editors replace the configuration, which would remove a lock on it.
type fileLock struct {
	f         *os.File
	path      string
	holder    holder
	made      note   // the agent locks that are ours
	isForeign bool   // the file is somebody else's: it is neither written nor removed
	folder    string // folder made for the lock and removed with it; empty for none
}

// holder is the content of a lock file, for people and the next holder. The lock itself is the
// kernel's: what a dead holder wrote has no effect.
type holder struct {
	PID     int       `json:"pid"` // 0 if unknown
	Session string    `json:"session,omitempty"`
	Since   time.Time `json:"since"`
	Brief   bool      `json:"brief,omitempty"` // held for a moment, not for a session

	notes notebook
}

// awaitLock is takeLock, but waits up to BriefLockTimeout for a holder that will release the lock
// soon.
func awaitLock(path, config string, who holder) (*fileLock, error) {
	deadline := time.Now().Add(BriefLockTimeout)
	tick := time.NewTicker(lockInterval)
	defer tick.Stop()
	for {
		l, err := takeLock(path, config, who)
		var locked *LockedError
		if !errors.As(err, &locked) || !locked.Brief() || time.Now().After(deadline) {
			return l, err
		}
		<-tick.C
	}
}

// takeLock takes the lock file at path without waiting, and creates it if necessary. The error
// is a *LockedError if another process holds it. config is the path in errors; who is written
// to the lock file.
func takeLock(path, config string, who holder) (*fileLock, error) {
	for {
		if l, err := takeLockOnce(path, config, who); !errors.Is(err, errVanished) {
			return l, err
		}
	}
}

// errVanished reports that the last holder removed the lock file while it was being taken.
var errVanished = errors.New("the lock file was removed")

func takeLockOnce(path, config string, who holder) (*fileLock, error) {
	f, err := openLock(path, unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		defer f.Close()
		return nil, &LockedError{config, currentHolder(f)}
	case err != nil:
		f.Close()
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	case !isAt(f, path):
		f.Close()
		return nil, errVanished
	}
	for _, n := range who.notes.of(noteLocks, path) {
		for _, left := range n.Locks {
			left.removeIfSame()
		}
		_ = who.notes.drop(n)
	}
	who.PID, who.Since = os.Getpid(), time.Now().UTC().Truncate(time.Second)
	l := &fileLock{f: f, path: path, holder: who, isForeign: !isHolders(f)}
	l.write()
	return l, nil
}

// isLocked returns an error if another process holds a lock. It leaves no trace.
func isLocked(path, config string) error {
	f, err := openLock(path, 0)
	if err != nil {
		return nil // left to the process that takes it
	}
	defer f.Close()
	if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return &LockedError{config, currentHolder(f)}
	}
	return nil
}

// openLock opens a lock file, but nothing that was planted in its place. create is O_CREAT or
// 0.
func openLock(path string, create int) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|create|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	switch {
	case errors.Is(err, unix.ELOOP):
		err = errors.New("is a link; remove it")
	case errors.Is(err, unix.EISDIR):
		err = errors.New("is a folder; remove it")
	case errors.Is(err, unix.ENXIO): // a socket
		err = errors.New("is not a regular file; remove it")
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		if err = ownRegular(&st); err != nil {
			err = fmt.Errorf("%w; remove it", err)
		}
	}
	if err == nil && st.Nlink > 1 { // a write to it would change another file
		err = errors.New("has a second name (hard link); remove it")
	}
	if err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// isAt reports whether path still names f.
func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}

func readHolder(f *os.File) holder {
	var h holder
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err == nil {
		_ = json.Unmarshal(text, &h) // only informative, so errors don't matter
	}
	return h
}

// currentHolder returns who holds a lock, a zero holder if that is not known: until the holder has
// written who it is, the file may name a process that was killed while it had the lock.
func currentHolder(f *os.File) holder {
	h := readHolder(f)
	if is, err := proc.Read(int32(h.PID)); err != nil || is.Ended() {
		return holder{}
	}
	return h
}

// isHolders reports whether a lock file is empty or has only the text of a holder, so that it
// can be removed. Any other file was made by somebody else and is used as a lock without a
// change.
func isHolders(f *os.File) bool {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err != nil || len(text) == 0 {
		return err == nil
	}
	again, err := json.Marshal(readHolder(f))
	return err == nil && bytes.Equal(bytes.TrimSpace(text), again)
}

// isLeftLock reports whether the file at path is a lock file that a holder may remove.
func isLeftLock(path string) bool {
	f, err := openLock(path, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return isHolders(f)
}

// write writes the holder to the lock file. On a full disk it leaves the file empty.
// [isHolders] accepts the file even if this process is killed at any point.
func (l *fileLock) write() {
	text, err := json.Marshal(l.holder)
	if err != nil || l.isForeign || l.f.Truncate(0) != nil {
		return
	}
	if _, err := l.f.WriteAt(append(text, '\n'), 0); err != nil {
		_ = l.f.Truncate(0)
	}
}

// release removes the lock file and then unlocks it. In this order, a process that opened it
// before sees that it was removed.
func (l *fileLock) release() {
	if !l.isForeign {
		_ = os.Remove(l.path)
	}
	_ = l.f.Close()
	if l.folder != "" {
		_ = os.Remove(l.folder)
	}
}

// lockPath returns the path of the lock of a configuration.
func lockPath(target string) string { return filepath.Clean(target) + lockSuffix }

// joinLock opens a lock file whose lock a caller holds already, so that agent locks can be
// noted with it. It returns nil if there is none.
func joinLock(path string, notes notebook) *fileLock {
	f, err := openLock(path, 0)
	if err != nil {
		return nil
	}
	l := &fileLock{f: f, path: path, holder: readHolder(f)}
	l.holder.notes = notes
	if noted := notes.of(noteLocks, path); len(noted) > 0 {
		l.made = *noted[0]
	}
	return l
}

const (
	// An agent lock that was not touched for this long was left by a dead process. Agents apply
	// the same rule to ours.
	agentLockStale = 10 * time.Second
	// Slightly longer, to outlast a dead agent and any live one.
	agentLockTimeout = 12 * time.Second
)

// agentLock is a folder that we made because an agent uses such a folder as a lock on its file.
// Its identity distinguishes it from one that the agent made.
type agentLock struct {
	Path string `json:"path"`
	identity
}

// withAgentLocks calls do while holding the lock folders of agents, which prevents them from
// writing. What we made is noted if possible, so that it can be removed at once if this process
// is killed. Without a note, or without a lock of our own (a nil receiver), others have to wait
// until it is stale.
//
// If one of the locks can't be taken, do is not called, and the error is an *agentLockError.
func (l *fileLock) withAgentLocks(paths []string, do func() error) error {
	var taken []agentLock
	defer func() {
		// The folders are removed before their note. If that fails, the note stays, which does
		// no harm.
		if len(taken) > 0 {
			l.recordAgentLocks(slices.DeleteFunc(taken, agentLock.removeIfSame))
		}
	}()
	for _, path := range paths {
		lock, err := l.ownAgentLock(path)
		if err != nil {
			lock, err = takeAgentLock(path)
		}
		if err != nil {
			return &agentLockError{path, err}
		}
		taken = append(taken, lock)
		l.recordAgentLocks(taken)
	}
	return do()
}

// ownAgentLock returns a lock that is still ours because it could not be removed.
func (l *fileLock) ownAgentLock(path string) (agentLock, error) {
	now, err := identify(path)
	if err == nil && (l == nil || !slices.Contains(l.made.Locks, now)) {
		err = fs.ErrExist
	}
	return now, err
}

// recordAgentLocks records which agent locks are ours.
func (l *fileLock) recordAgentLocks(locks []agentLock) {
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

// agentLockError reports that an agent's own lock could not be taken.
type agentLockError struct {
	path string
	err  error
}

func (e *agentLockError) Error() string {
	return fmt.Sprintf("take the agent's own lock %s: %v", e.path, e.err)
}

func (e *agentLockError) Unwrap() error { return e.err }

// tryWithAgentLocks is withAgentLocks for restoring, which neither an agent that hangs nor a full disk
// may prevent.
func (l *fileLock) tryWithAgentLocks(paths []string, do func() error) error {
	err := l.withAgentLocks(paths, do)
	var unlocked *agentLockError
	if errors.As(err, &unlocked) {
		return do()
	}
	return err
}

func takeAgentLock(path string) (agentLock, error) {
	deadline := time.Now().Add(agentLockTimeout)
	tick := time.NewTicker(lockInterval)
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
		case err != nil: // released just now
		case !st.IsDir():
			return agentLock{}, nil // agents do not lock with files
		case time.Since(st.ModTime()) > agentLockStale:
			_ = unix.Rmdir(path) // fails if it is not empty, and therefore no lock
		}
		if time.Now().After(deadline) {
			return agentLock{}, errors.New("the agent does not release it")
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

// removeIfSame removes the folder unless it is not ours any more, and reports whether nothing
// is left to do.
func (a agentLock) removeIfSame() bool {
	now, err := identify(a.Path)
	return err != nil || now != a || unix.Rmdir(a.Path) == nil
}
