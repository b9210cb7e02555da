package sock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Paths are the three folders of a user's ThoughtGate. Each is absolute, and named thoughtgate
// if it lies in a folder shared with other programs.
type Paths struct {
	Config  string // written by the user
	State   string // must survive a reboot
	Runtime string // the sockets and the lock
}

// absolute returns the value of a variable that names a folder, empty if it is unset.
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
		err = errors.New("HOME is not set; set it to your home folder")
	}
	return dir, err
}

// ControlSocket returns the socket of tgctl and other surfaces.
func (p Paths) ControlSocket() string { return filepath.Join(p.Runtime, "control.sock") }

// ShimSocket returns the socket of tg-shim. It serves only what agents may use.
func (p Paths) ShimSocket() string { return filepath.Join(p.Runtime, "shim.sock") }

// FleetSocket returns the socket of the courier of a fleet. It is there while the machine is in one.
func (p Paths) FleetSocket() string { return filepath.Join(p.Runtime, "fleet.sock") }

// LockFile returns the file that the daemon keeps locked while it runs.
func (p Paths) LockFile() string { return filepath.Join(p.Runtime, "thoughtgated.lock") }

// KeeperLock returns the file that the daemon's keeper, if any, keeps locked.
func (p Paths) KeeperLock() string { return filepath.Join(p.Runtime, "keeper.lock") }

// StateLock returns another file that the daemon keeps locked: only one daemon may use a state
// folder, wherever its sockets are.
func (p Paths) StateLock() string { return filepath.Join(p.State, "thoughtgated.lock") }

// AuditDir returns the folder of the audit log.
func (p Paths) AuditDir() string { return filepath.Join(p.State, "audit") }

// StateDB returns the database of approvals, grants, pins and sessions.
func (p Paths) StateDB() string { return filepath.Join(p.State, "state.db") }

// Rewrites returns the folder of the records of what was created beside the configurations of
// agents.
func (p Paths) Rewrites() string { return filepath.Join(p.State, "rewrites") }

// FleetDir returns the folder of the membership in a fleet.
func (p Paths) FleetDir() string { return filepath.Join(p.State, "fleet") }

// UndoDir returns the folder of the copies of files that calls have destroyed.
func (p Paths) UndoDir() string { return filepath.Join(p.State, "undo") }

// ExtensionsDir returns the folder where extensions are installed, each in a folder with its
// name.
func (p Paths) ExtensionsDir() string { return filepath.Join(p.Config, "extensions") }

// ConfigFile returns the default configuration file.
func (p Paths) ConfigFile() string { return filepath.Join(p.Config, "thoughtgate.yaml") }

// LogFile returns the log file of a daemon without a service manager.
func (p Paths) LogFile() string { return filepath.Join(p.State, "thoughtgated.log") }

// Prepare creates the state and the runtime folder with mode 0700 if they are missing, and
// checks them otherwise. It does not change existing folders: an error says what is wrong and
// how to fix it.
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
		return fmt.Errorf("create folder %q: the path must be absolute", dir)
	}
	// Missing folders above it are created for this user alone too.
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return fmt.Errorf("create folder %s: %w", dir, err)
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) // regardless of the umask
	} else if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("create folder %s: %w", dir, err)
	}
	return CheckFolder(dir)
}

// CheckPath returns an error for a path at which the platform can't create a socket. The kernel
// would truncate it or only report "invalid argument".
func CheckPath(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("socket path %q is not absolute: name it from / on, or unset the variable that names it", path)
	}
	if len(path) > maxSocketPath {
		return fmt.Errorf("socket path %s has %d bytes and the system allows %d; %s", path, len(path), maxSocketPath, shorterPath)
	}
	return nil
}
