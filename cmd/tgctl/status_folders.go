package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// folderTroubles says which of our folders nothing can be kept in, because the disk
// is full or the folder can't be written, and what to do. auditDir is the daemon's,
// empty when none runs.
func (a *app) folderTroubles(auditDir string) []string {
	paths, err := sock.DefaultPaths(a.getenv)
	if err != nil {
		return nil // whoever needs them has said so
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

// folderTrouble is that of one folder, empty for none. One that is missing would be
// made in what is there above it.
func (a *app) folderTrouble(dir string) string {
	m := a.lookedAt()
	at := dir
	for {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	made := ""
	if at != dir {
		made = ", where " + dir + " is to be made"
	}
	if err := m.writable(at); err != nil {
		return fmt.Sprintf("%s can't be written%s: %v; make it writable for its owner", at, made, err)
	}
	if room, err := m.space(at); err == nil && (room.Free < roomToRecord || room.Files == 0) {
		return fmt.Sprintf("the disk of %s is full, or nearly so (%d MB are left%s); make room there", at, room.Free>>20, made)
	}
	return ""
}
