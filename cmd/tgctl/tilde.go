package main

import (
	"path/filepath"
	"strings"
)

// tilde shortens a path in the home directory for display.
func (a *app) tilde(path string) string {
	home := a.getenv("HOME")
	if home == "" {
		return path
	}
	if rest, ok := strings.CutPrefix(path, filepath.Clean(home)+"/"); ok {
		return "~/" + rest
	}
	return path
}

// tildeIn shortens every path in a text like tilde.
func (a *app) tildeIn(text string) string {
	if home := a.getenv("HOME"); home != "" {
		return strings.ReplaceAll(text, filepath.Clean(home)+"/", "~/")
	}
	return text
}

func (a *app) tildes(paths []string) string {
	return strings.Join(each(paths, a.tilde), ", ")
}
