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
)

const (
	lockSuffix = Infix + "lock"

	lockEvery = 10 * time.Millisecond

	// BriefPatience is how long whoever only puts a file back may take. That is
	// milliseconds, unless an agent hangs on to a lock of its own.
	BriefPatience = agentLockPatience + 3*time.Second
)

// LockedError says that a configuration is in the hands of another wrap.
type LockedError struct {
	Path    string // the configuration
	PID     int    // of the holder, 0 when it did not say
	Session string
	Since   time.Time

	brief bool // the holder will be done in a moment
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is wrapped already, by another process", e.Path)
	}
	if e.brief {
		return fmt.Sprintf("%s is just being rewritten or put back, by process %d", e.Path, e.PID)
	}
	return fmt.Sprintf("%s is wrapped already, by process %d since %s", e.Path, e.PID, e.Since.Local().Format(time.DateTime))
}

// Brief reports whether the lock will be free in a moment: the holder only puts
// the file back, or has not come to say what it is about. See [BriefPatience].
func (e *LockedError) Brief() bool { return e.brief || e.PID == 0 }

// fileLock is the right to rewrite one configuration, for as long as this
// process lives. It lies on a file of its own: editors put new files in the
// place of the configuration, which would take a lock on it away.
type fileLock struct {
	f      *os.File
	path   string
	holder holder
	made   note   // which locks of agents are ours
	theirs bool   // the file is somebody else's: it is neither written to nor removed
	folder string // that was made for the lock, and goes with it; empty for none
}

// holder is what a lock file says, for people and for whoever holds it next.
// The lock itself is the kernel's: what a dead holder wrote means nothing.
type holder struct {
	PID     int       `json:"pid"`
	Session string    `json:"session,omitempty"`
	Since   time.Time `json:"since"`
	Brief   bool      `json:"brief,omitempty"` // for a moment, not for a session

	notes notebook
}

// awaitLock is takeLock for who can wait a moment: a holder that is done soon is
// waited for.
func awaitLock(path, config string, who holder) (*fileLock, error) {
	deadline := time.Now().Add(BriefPatience)
	tick := time.NewTicker(lockEvery)
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

// takeLock takes the lock file at path, made if need be, without waiting. The
// error is a *LockedError when another process has it. config is for messages,
// and who is noted for whoever comes later.
func takeLock(path, config string, who holder) (*fileLock, error) {
	for {
		if l, err := takeLockOnce(path, config, who); !errors.Is(err, errVanished) {
			return l, err
		}
	}
}

// errVanished says that the last holder removed the lock file while it was being
// taken.
var errVanished = errors.New("the lock file is gone")

func takeLockOnce(path, config string, who holder) (*fileLock, error) {
	f, err := openLock(path, unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		defer f.Close()
		return nil, lockedBy(f, config)
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
	l := &fileLock{f: f, path: path, holder: who, theirs: !isHolders(f)}
	l.write()
	return l, nil
}

func lockedBy(f *os.File, config string) *LockedError {
	h := readHolder(f)
	return &LockedError{config, h.PID, h.Session, h.Since, h.Brief}
}

// isLocked looks whether another process has a lock, and leaves no trace.
func isLocked(path, config string) error {
	f, err := openLock(path, 0)
	if err != nil {
		return nil // what is wrong with it is for whoever takes it
	}
	defer f.Close()
	if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return lockedBy(f, config)
	}
	return nil
}

// openLock opens a lock file, and nothing that was planted in its place. create
// is O_CREAT or 0.
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
	if err == nil && st.Nlink > 1 { // it will be written to: what else would that change?
		err = errors.New("has another name; remove it")
	}
	if err != nil {
		unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// isAt reports whether f is still what path names.
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
		_ = json.Unmarshal(text, &h) // it only explains; nonsense explains nothing
	}
	return h
}

// isHolders reports whether a lock file is empty, or says who held it and nothing
// else: nothing is lost with it. Any other was put there by somebody else, and serves
// as a lock as it is.
func isHolders(f *os.File) bool {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	if err != nil || len(text) == 0 {
		return err == nil
	}
	again, err := json.Marshal(readHolder(f))
	return err == nil && bytes.Equal(bytes.TrimSpace(text), again)
}

// isLeftLock reports whether a lock file lies at path that a holder may remove.
func isLeftLock(path string) bool {
	f, err := openLock(path, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return isHolders(f)
}

// write says who holds the lock. On a full disk it stays unsaid. Whenever we are
// killed, [isHolders] knows the file.
func (l *fileLock) write() {
	text, err := json.Marshal(l.holder)
	if err != nil || l.theirs || l.f.Truncate(0) != nil {
		return
	}
	if _, err := l.f.WriteAt(append(text, '\n'), 0); err != nil {
		_ = l.f.Truncate(0)
	}
}

// release removes the lock file and lets go of it, in this order: who opened it
// before finds that it is gone.
func (l *fileLock) release() {
	if !l.theirs {
		_ = os.Remove(l.path)
	}
	_ = l.f.Close()
	if l.folder != "" {
		_ = os.Remove(l.folder)
	}
}

// lockPath returns where the lock of a configuration lies.
func lockPath(target string) string { return filepath.Clean(target) + lockSuffix }

// joinLock opens a lock file that is held already, by the caller of the caller,
// so that agent locks can be noted with it. It is nil when there is none.
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
