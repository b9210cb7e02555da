package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// folderTroubles says which of ThoughtGate's directories cannot be written or are on a full
// disk, and how to fix that. auditDir is the daemon's, or "" if no daemon runs.
func (a *app) folderTroubles(auditDir string) []string {
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return nil // code that needs the paths reports the error
	}
	dirs := []string{paths.State, paths.Runtime}
	if _, err := os.Stat(auditDir); err == nil && auditDir != paths.AuditDir() {
		dirs = append(dirs, auditDir)
	}
	var all []string
	for _, dir := range dirs {
		if what := a.folderTrouble(dir); what != "" {
			all = append(all, what)
		}
	}
	return all
}

// folderTrouble checks one directory, and returns "" if it is fine. For a missing directory it
// checks the nearest existing parent, where it would be created.
func (a *app) folderTrouble(dir string) string {
	m := a.examinedMachine()
	at := dir
	for {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	made := ""
	if at != dir {
		made = ", where " + dir + " would be created"
	}
	if err := m.writable(at); err != nil {
		return fmt.Sprintf("can't write to %s%s: %v; make it writable for its owner", at, made, err)
	}
	if room, err := m.space(at); err == nil && (room.Free < roomToRecord || room.Files == 0) {
		return fmt.Sprintf("the disk of %s is full or almost full (%d MB are free%s); free space there", at, room.Free>>20, made)
	}
	return ""
}
