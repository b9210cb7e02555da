package connect

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// LastingShim returns the path of tg-shim to write into configurations. warning is not
// empty if the path will not last.
func (a *App) LastingShim() (path, warning string, err error) {
	path, why, err := a.Lasting("tg-shim")
	if why != "" {
		warning = fmt.Sprintf("the tg-shim entries will start %s, which %s. If that path is removed, the servers can't be started until you run `tgctl protect --repair`; "+
			"install ThoughtGate in a permanent location", path, why)
	}
	return path, warning, err
}

// Lasting returns the path of one of ThoughtGate's programs to write into other files. It
// keeps symbolic links, because an update changes their targets, and prefers a path that
// an update does not remove. why is not empty if the path will not last.
func (a *App) Lasting(name string) (path, why string, err error) {
	first, err := a.Sibling(name)
	if err != nil {
		return "", "", err
	}
	if !filepath.IsAbs(first) {
		return "", "", fmt.Errorf("the path of %s is not absolute: %s", name, first)
	}
	path, why = firstStable(a.pathsTo(name, first), whyUnstable)
	return path, why, nil
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
func (a *App) pathsTo(name, first string) []string {
	var paths []string
	for _, dir := range a.ownDirs() {
		paths = append(paths, filepath.Join(dir, name), filepath.Join(dir, "..", "libexec", "thoughtgate", name))
	}
	paths = append(paths, keg.ReplaceAllString(first, "$1/opt/$2/"), first)
	return slices.DeleteFunc(paths, func(at string) bool { return !SameProgram(at, first) })
}

// keg matches the directory of one version of a Homebrew package. Homebrew has a link to
// it that stays the same for every version.
var keg = regexp.MustCompile(`^(.*)/Cellar/([^/]+)/[^/]+/`)

// ownDirs returns the directories that have this program under the name tgctl.
func (a *App) ownDirs() []string {
	self, err := a.Executable()
	if err != nil {
		return nil
	}
	var dirs []string
	for _, dir := range append(filepath.SplitList(a.Getenv("PATH")), filepath.Dir(self)) {
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
