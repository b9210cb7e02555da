package child

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNotFound reports a program that does not exist, ErrNotExecutable one that exists and can't
// be executed.
var (
	ErrNotFound      = errors.New("command not found")
	ErrNotExecutable = errors.New("command cannot be run")
)

// Exit codes for a program that could not be started, as of env(1) and shells.
const (
	ExitInternal      = 125
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// StartExit returns the exit code for an error of Start or Resolve: 127 if the program was not
// found, 126 if it could not be executed, 125 for any other failure.
func StartExit(err error) int {
	switch {
	case errors.Is(err, ErrNotFound):
		return ExitNotFound
	case errors.Is(err, ErrNotExecutable):
		return ExitNotExecutable
	}
	return ExitInternal
}

// defaultPath is searched if the environment has no PATH, as execvp does.
const defaultPath = "/usr/bin:/bin"

// Resolve returns the absolute path that Start would execute. A command with a slash is
// relative to dir, or to the directory of this process if dir is empty. Any other command is
// looked up in the PATH of env, not in that of this process. A match in a relative entry of
// PATH is an error: which program it is would depend on the agent's current directory.
func Resolve(command string, env []string, dir string) (string, error) {
	if command == "" {
		return "", fmt.Errorf("start: %w: the command is empty", ErrNotFound)
	}
	if strings.ContainsRune(command, 0) {
		return "", fmt.Errorf("start %q: %w: its name contains a NUL byte", command, ErrNotExecutable)
	}
	if strings.ContainsRune(command, '/') {
		path := command
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return "", fmt.Errorf("start %q: %w", command, err)
		}
		if err := runnable(path); err != nil {
			return "", refusal(command, path, err)
		}
		return path, nil
	}
	return lookUp(command, env)
}

func lookUp(command string, env []string) (string, error) {
	search, _ := LookupEnv(env, "PATH")
	search = cmp.Or(search, defaultPath)
	var firstPath string
	var firstErr error
	for _, entry := range filepath.SplitList(search) {
		entry = cmp.Or(entry, ".")
		path := filepath.Join(entry, command)
		err := runnable(path)
		if err == nil && !filepath.IsAbs(entry) {
			return "", fmt.Errorf("start %q: %w: it was found through the relative entry %q of PATH; use an absolute path", command, ErrNotExecutable, entry)
		}
		if err == nil {
			return path, nil
		}
		// A program that can't be executed does not hide a later one that can.
		if firstErr == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			firstPath, firstErr = path, err
		}
	}
	if firstErr != nil {
		return "", refusal(command, firstPath, firstErr)
	}
	return "", fmt.Errorf("start %q: %w in PATH %s; install it or use an absolute path", command, ErrNotFound, clip(search, 512))
}

// runnable returns why the file at path can't be executed, or nil.
func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "execute", Path: path, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "execute", Path: path, Err: syscall.EACCES}
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return &fs.PathError{Op: "execute", Path: path, Err: err}
	}
	return nil
}

func refusal(command, path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("start %q: %w at %s", command, ErrNotFound, path)
	}
	return fmt.Errorf("start %q: %w: %w", command, ErrNotExecutable, err)
}

// startError explains an error of execve. Resolve has found the file, so a missing file now
// means a script's interpreter.
func startError(command, path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("start %q: %w: %s or the interpreter that its first line names is missing", command, ErrNotExecutable, path)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("start %q: %w: %s is not a program for this machine; a script must begin with #! and its interpreter", command, ErrNotExecutable, path)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM),
		errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("start %q: %w", command, err)
	}
	return fmt.Errorf("start %q: %w: %w", command, ErrNotExecutable, err)
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}
