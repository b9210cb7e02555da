package ui

import (
	"path/filepath"
	"strings"
)

// Tilde shortens a path in the home directory for display.
func (a *App) Tilde(path string) string {
	home := a.Getenv("HOME")
	if home == "" {
		return path
	}
	if rest, ok := strings.CutPrefix(path, filepath.Clean(home)+"/"); ok {
		return "~/" + rest
	}
	return path
}

// TildeIn shortens every path in a text like tilde.
func (a *App) TildeIn(text string) string {
	if home := a.Getenv("HOME"); home != "" {
		return strings.ReplaceAll(text, filepath.Clean(home)+"/", "~/")
	}
	return text
}

// Tildes shortens each path like Tilde, and joins them with commas.
func (a *App) Tildes(paths []string) string {
	return strings.Join(Map(paths, a.Tilde), ", ")
}
