package sock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Paths are the three folders of one user's ThoughtGate, each absolute and
// named thoughtgate where the platform has a folder for many programs.
type Paths struct {
	Config  string // what the user writes
	State   string // what must outlive a reboot
	Runtime string // the sockets and the lock
}

// DefaultPaths finds the folders by the environment. It makes nothing. A
// variable that is set to a relative path is an error: each program would find
// another folder.
func DefaultPaths(getenv func(string) string) (Paths, error) {
	return defaultPaths(getenv)
}

// absolute returns the value of a variable that names a folder, empty when it
// is unset.
func absolute(getenv func(string) string, name string) (string, error) {
	value := getenv(name)
	if value != "" && !filepath.IsAbs(value) {
		return "", fmt.Errorf("%s is %q; set it to an absolute path, or unset it", name, value)
	}
	return value, nil
}

func home(getenv func(string) string) (string, error) {
	dir, err := absolute(getenv, "HOME")
	if err == nil && dir == "" {
		err = errors.New("HOME is not set, so there is no place for ThoughtGate's files; set it to your home folder")
	}
	return dir, err
}

// ControlSocket is where tgctl and other surfaces connect.
func (p Paths) ControlSocket() string { return filepath.Join(p.Runtime, "control.sock") }

// ShimSocket is where shims connect. It serves only what an agent may be given.
func (p Paths) ShimSocket() string { return filepath.Join(p.Runtime, "shim.sock") }

// LockFile is what the daemon holds a lock on as long as it runs.
func (p Paths) LockFile() string { return filepath.Join(p.Runtime, "thoughtgated.lock") }

// KeeperLock is what the daemon's keeper holds a lock on, where it has one.
func (p Paths) KeeperLock() string { return filepath.Join(p.Runtime, "keeper.lock") }

// StateLock is what the daemon holds a lock on likewise: of those that keep what they
// know in the same folder there is one, wherever their sockets are.
func (p Paths) StateLock() string { return filepath.Join(p.State, "thoughtgated.lock") }

// AuditDir is where the record of calls and verdicts is written.
func (p Paths) AuditDir() string { return filepath.Join(p.State, "audit") }

// StateDB holds approvals, grants, pins and sessions.
func (p Paths) StateDB() string { return filepath.Join(p.State, "state.db") }

// Rewrites is where it is noted what is made beside the configurations of agents.
func (p Paths) Rewrites() string { return filepath.Join(p.State, "rewrites") }

// ExtensionsDir is where extensions are installed, each in a folder of its name.
func (p Paths) ExtensionsDir() string { return filepath.Join(p.Config, "extensions") }

// ConfigFile is the configuration, unless another was named.
func (p Paths) ConfigFile() string { return filepath.Join(p.Config, "thoughtgate.yaml") }

// LogFile is what a daemon that has no service manager logs to.
func (p Paths) LogFile() string { return filepath.Join(p.State, "thoughtgated.log") }

// Prepare makes the state and the runtime folder with mode 0700 where they are
// missing, and checks them where they are not. It changes nothing that it did
// not make: an error says what is wrong and how to put it right.
func (p Paths) Prepare() error {
	for _, dir := range []string{p.State, p.Runtime} {
		if err := makeDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func makeDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("make folder %q: the path must be absolute", dir)
	}
	// What is missing above is made for us alone as well.
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("make folder %s: %w", dir, err)
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) // whatever the umask left of it
	} else if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("make folder %s: %w", dir, err)
	}
	return checkDir(dir)
}

// CheckPath refuses a path at which no socket can be made on this platform.
func CheckPath(path string) error { return checkLength(path) }

// checkLength refuses a path that the platform can't bind. The kernel would cut
// it off or refuse it with no more than "invalid argument".
func checkLength(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("socket path %q is not absolute", path)
	}
	if len(path) > maxSocketPath {
		return fmt.Errorf("socket path %s has %d bytes and the system allows %d; %s", path, len(path), maxSocketPath, shorterPath)
	}
	return nil
}
