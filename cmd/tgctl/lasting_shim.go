package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// lastingShim returns the path of tg-shim that is written where it is to stay.
// warning says what is wrong with the path when there is none that stays.
func (a *app) lastingShim() (path, warning string, err error) {
	path, why, err := a.lasting("tg-shim")
	if why != "" {
		warning = fmt.Sprintf("the lines will start %s, which %s. When it goes, the servers can't be started until `tgctl protect --repair`; "+
			"better install ThoughtGate where it stays", path, why)
	}
	return path, warning, err
}

// lasting returns the path of one of our programs that is written where it is to
// stay: links are kept, because an update changes what they lead to, and a path
// that an update will take away is passed over where there is another. why says
// that the path will not stay, if it won't.
func (a *app) lasting(name string) (path, why string, err error) {
	first, err := a.sibling(name)
	if err != nil {
		return "", "", err
	}
	if !filepath.IsAbs(first) {
		return "", "", fmt.Errorf("the path of %s is not absolute: %s", name, first)
	}
	path, why = thatStays(a.pathsTo(name, first), fleeting)
	return path, why, nil
}

// thatStays returns the first path against which fleeting has nothing to say,
// and where there is none the last, with what it says of that.
func thatStays(paths []string, fleeting func(string) string) (path, why string) {
	for _, path = range paths {
		if why = fleeting(path); why == "" {
			break
		}
	}
	return path, why
}

// pathsTo are the paths that lead to the program first, the one that is most
// likely to stay first.
func (a *app) pathsTo(name, first string) []string {
	var paths []string
	for _, dir := range a.ownDirs() {
		paths = append(paths, filepath.Join(dir, name), filepath.Join(dir, "..", "libexec", "thoughtgate", name))
	}
	paths = append(paths, keg.ReplaceAllString(first, "$1/opt/$2/"), first)
	return slices.DeleteFunc(paths, func(at string) bool { return !sameProgram(at, first) })
}

// keg is a program in the folder of one version of a Homebrew package, for which
// there is a link that every version keeps.
var keg = regexp.MustCompile(`^(.*)/Cellar/([^/]+)/[^/]+/`)

// ownDirs are the folders in which this program is found by its name.
func (a *app) ownDirs() []string {
	self, err := a.executable()
	if err != nil {
		return nil
	}
	var dirs []string
	for _, dir := range append(filepath.SplitList(a.getenv("PATH")), filepath.Dir(self)) {
		if filepath.IsAbs(dir) && sameProgram(filepath.Join(dir, "tgctl"), self) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func sameProgram(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	two, err := os.Stat(b)
	return err == nil && os.SameFile(one, two)
}

// version is a name that belongs to one version of something.
var version = regexp.MustCompile(`(^|[-_@])v?\d+\.\d+(\.\d+)*([-+~_].*)?$`)

// fleeting says why a path will not stay, empty when nothing speaks against it.
func fleeting(path string) string {
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm", "/run", "/private/tmp", "/private/var/folders", "/var/folders"} {
		if rest, err := filepath.Rel(dir, path); err == nil && !strings.HasPrefix(rest, "..") {
			return "lies in a folder for what is temporary (" + dir + ")"
		}
	}
	if strings.HasPrefix(path, "/nix/store/") {
		return "belongs to one version of a package"
	}
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if name := filepath.Base(dir); version.MatchString(name) {
			return "lies in the folder of one version (" + name + ")"
		}
		if ownSource(filepath.Join(dir, "go.mod")) {
			return "lies where ThoughtGate is built (" + dir + ")"
		}
	}
	return ""
}

// ownSource reports whether a go.mod is that of this program.
func ownSource(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	return lines.Scan() && lines.Text() == "module github.com/thoughtgate/thoughtgated"
}
