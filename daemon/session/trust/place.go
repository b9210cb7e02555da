package trust

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// project returns the folder of the project that a launch belongs to, and whether the files in it
// come with the project. If the folder is the user's home, or above it, they are the user's own.
func (b *Registry) project(l Launch) (root string, planted bool) {
	folder := realPath(l.Cwd)
	if l.From != "" {
		folder = filepath.Dir(l.From)
		if strings.HasPrefix(filepath.Base(folder), ".") { // such as .vscode/mcp.json
			folder = filepath.Dir(folder)
		}
	}
	root = config.Root(folder)
	home := realPath(b.o.Home)
	return root, b.o.Home == "" || !within(root, home)
}

// found reports whether name is a bare name that PATH resolves to path, and neither the project nor
// another user can write path.
func (v *launchExamination) found(name, path string) bool {
	return !strings.Contains(name, "/") && !v.inside(path) && othersKeepOut(realPath(path)) && othersKeepOut(filepath.Dir(realPath(path)))
}

// othersKeepOut reports whether only this user and the superuser can change path.
func othersKeepOut(path string) bool {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return false
	}
	return (st.Uid == 0 || int(st.Uid) == os.Geteuid()) && st.Mode&0o002 == 0
}

// within reports whether path is dir or lies in it. Both must be clean and absolute.
func within(dir, path string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// realPath returns path with symbolic links resolved, or the clean path if that fails.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}
