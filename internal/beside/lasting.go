package beside

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Lasting returns the path of the program called name that was installed with the program at self,
// to write into other files. It keeps symbolic links, because an update changes their targets, and
// prefers a path that an update does not remove. path lists folders like the variable PATH. why is
// not empty if the path will not last.
func Lasting(self, path, name string) (at, why string, err error) {
	first, err := Find(self, name)
	if err != nil {
		return "", "", err
	}
	if !filepath.IsAbs(first) {
		return "", "", fmt.Errorf("the path of %s is not absolute: %s", name, first)
	}
	at, why = firstStable(pathsTo(self, path, name, first), whyUnstable)
	return at, why, nil
}

// firstStable returns the first path for which fleeting returns an empty string. If there
// is none, it returns the last path and the reason.
func firstStable(paths []string, fleeting func(string) string) (path, why string) {
	for _, path = range paths {
		if why = fleeting(path); why == "" {
			break
		}
	}
	return path, why
}

// pathsTo returns the paths that lead to the program first. Those most likely to last
// come first.
func pathsTo(self, path, name, first string) []string {
	var paths []string
	for _, dir := range dirsOf(self, path) {
		paths = append(paths, filepath.Join(dir, name), filepath.Join(dir, "..", "libexec", "thoughtgate", name))
	}
	paths = append(paths, keg.ReplaceAllString(first, "$1/opt/$2/"), first)
	return slices.DeleteFunc(paths, func(at string) bool { return !SameProgram(at, first) })
}

// keg matches the directory of one version of a Homebrew package. Homebrew has a link to
// it that stays the same for every version.
var keg = regexp.MustCompile(`^(.*)/Cellar/([^/]+)/[^/]+/`)

// dirsOf returns the folders that have the program at self under the name tgctl.
func dirsOf(self, path string) []string {
	var dirs []string
	for _, dir := range append(filepath.SplitList(path), filepath.Dir(self)) {
		if filepath.IsAbs(dir) && SameProgram(filepath.Join(dir, "tgctl"), self) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// SameProgram reports whether the paths a and b lead to the same file.
func SameProgram(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	two, err := os.Stat(b)
	return err == nil && os.SameFile(one, two)
}

// version matches a name that belongs to one version of something.
var version = regexp.MustCompile(`(^|[-_@])v?\d+\.\d+(\.\d+)*([-+~_].*)?$`)

// whyUnstable returns why a path will not last, empty if there is no reason.
func whyUnstable(path string) string {
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm", "/run", "/private/tmp", "/private/var/folders", "/var/folders"} {
		if rest, err := filepath.Rel(dir, path); err == nil && !strings.HasPrefix(rest, "..") {
			return "is in a folder for temporary files (" + dir + ")"
		}
	}
	if strings.HasPrefix(path, "/nix/store/") {
		return "belongs to one version of a package"
	}
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if name := filepath.Base(dir); version.MatchString(name) {
			return "is in the folder of one version (" + name + ")"
		}
		if ownSource(filepath.Join(dir, "go.mod")) {
			return "is in ThoughtGate's source tree (" + dir + ")"
		}
	}
	return ""
}

// ownSource reports whether the go.mod at path is that of ThoughtGate.
func ownSource(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	return lines.Scan() && lines.Text() == "module github.com/thoughtgate/thoughtgated"
}
