package trust

import (
	"path/filepath"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// project returns the folder of the project that a launch belongs to, and whether
// what lies in it comes with the project. In the user's home, and above it, what
// lies below is the user's own.
func (b *Book) project(l Launch) (root string, planted bool) {
	folder := realPath(l.Cwd)
	if l.From != "" {
		folder = filepath.Dir(l.From)
		if strings.HasPrefix(filepath.Base(folder), ".") { // as in .vscode/mcp.json
			folder = filepath.Dir(folder)
		}
	}
	root = config.Root(folder)
	home := realPath(b.o.Home)
	return root, b.o.Home == "" || !within(root, home)
}

// within reports whether path is dir or lies in it. Both are clean and absolute.
func within(dir, path string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// realPath is path without links, or path itself where it can't be followed.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}
