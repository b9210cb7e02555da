package ext

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// extensionDir finds the directory that a person means. A name with a slash is a path. A
// plain name means an included extension first, so that a directory that happens to be
// here does not replace it.
func (a *app) extensionDir(named string) (string, error) {
	if !strings.ContainsRune(named, filepath.Separator) && named != "." && named != ".." {
		for _, dir := range a.shippedDirs() {
			if path := filepath.Join(dir, named); isExtension(path) {
				return path, nil
			}
		}
	}
	path, err := filepath.Abs(named)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path, nil // if it is no extension, the daemon has the better error
	}
	hint := "Name a folder with an extension.yaml."
	if names := a.shipped(); len(names) > 0 {
		hint = "Name a folder with an extension.yaml, or an included extension: " + strings.Join(names, ", ")
	}
	return "", &ui.HintError{Err: fmt.Errorf("%s: no such folder and no included extension: %w", named, fs.ErrNotExist), Hint: hint}
}

// shippedDirs returns the directories that included extensions may be in: below libexec
// if they are installed, since some are programs, and beside tgctl if it was only built.
func (a *app) shippedDirs() []string {
	self, err := a.Executable()
	if err != nil {
		return nil
	}
	dirs := []string{filepath.Dir(self)}
	if real, err := filepath.EvalSymlinks(self); err == nil && real != self {
		dirs = append(dirs, filepath.Dir(real))
	}
	var all []string
	for _, dir := range dirs {
		all = append(all, filepath.Join(dir, "..", "libexec", "thoughtgate", "extensions"), filepath.Join(dir, "extensions"))
	}
	return all
}

// shipped returns the names of the included extensions.
func (a *app) shipped() []string {
	var names []string
	for _, dir := range a.shippedDirs() {
		entries, _ := os.ReadDir(dir) // a missing directory has no entries
		for _, e := range entries {
			if isExtension(filepath.Join(dir, e.Name())) {
				names = append(names, string(display.Name(e.Name())))
			}
		}
		if len(names) > 0 {
			break
		}
	}
	return names
}

func isExtension(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "extension.yaml"))
	return err == nil && info.Mode().IsRegular()
}

// completeShipped completes included extensions and directories.
func (a *app) completeShipped(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.shipped(), cobra.ShellCompDirectiveDefault
}
