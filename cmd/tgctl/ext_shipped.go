package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// extensionDir finds the folder that a person means: what has a slash is a path,
// and a plain name first one of those that come with ThoughtGate, so that no
// folder that happens to lie here takes its place.
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
		return path, nil // that it is no extension the daemon says better
	}
	hint := "Name a folder with an extension.yaml."
	if names := a.shipped(); len(names) > 0 {
		hint = "Name a folder with an extension.yaml, or one of those that come along: " + strings.Join(names, ", ")
	}
	return "", &hintError{fmt.Errorf("%s: there is no such folder, and no extension of that name comes along: %w", named, fs.ErrNotExist), hint}
}

// shippedDirs are the folders that extensions which come along can lie in: below
// libexec where they are installed, since some are programs, and beside tgctl where
// it was only built.
func (a *app) shippedDirs() []string {
	self, err := a.executable()
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

// shipped are the names of the extensions that come along.
func (a *app) shipped() []string {
	var names []string
	for _, dir := range a.shippedDirs() {
		entries, _ := os.ReadDir(dir) // a folder that is not there holds none
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

// completeShipped offers what comes along, and folders.
func (a *app) completeShipped(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.shipped(), cobra.ShellCompDirectiveDefault
}
