package store

import (
	"context"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// Session is a wrapped run of an agent whose files may have to be restored.
type Session struct {
	ID      string // chosen by the wrap
	Agent   string // agent type
	Command []string
	Project string // absolute path of the folder of the wrap
	Profile string
	Keep    bool // leave the rewritten files as they are
	Wrap    Process
	Opened  time.Time // UTC, microseconds
	Files   []File
	Remotes string // its servers behind an address, in its owner's terms
	State   string // progress, in its owner's terms
}

// Process identifies a process even if its PID is reused.
type Process = proc.Process

// File is one file that a session rewrites.
type File struct {
	Path    string
	Journal []byte // how to restore it, in the format of internal/agentconf
}

// sessionFile is a File as stored, with its session and position.
type sessionFile struct {
	session string
	place   int
	File
}

var (
	sessions = newTable("sessions", func(s *Session) []column {
		return []column{
			{"id", &s.ID}, {"agent", &s.Agent}, {"command", jsonText(&s.Command)}, {"project", &s.Project},
			{"profile", &s.Profile}, {"keep", &s.Keep}, {"pid", &s.Wrap.PID}, {"started", bits(&s.Wrap.Start)},
			{"opened", stamp(&s.Opened)}, {"state", &s.State}, {"remotes", &s.Remotes},
		}
	})
	sessionFiles = newTable("session_files", func(f *sessionFile) []column {
		return []column{
			{"session", &f.session}, {"place", &f.place}, {"path", &f.Path}, {"journal", blob(&f.Journal)},
		}
	})
)

// PutSession stores s and replaces one with the same ID.
func (db *DB) PutSession(ctx context.Context, s *Session) error {
	all := []statement{sessions.replace(s), write(`DELETE FROM session_files WHERE session = ?`, s.ID)}
	for i, f := range s.Files {
		all = append(all, sessionFiles.insert(&sessionFile{s.ID, i, f}))
	}
	return db.exec(ctx, "save session "+s.ID, all...)
}

// DeleteSession erases a session; it is no error if there is none. A journal may contain
// what a file contained, so it is erased from the disk.
func (db *DB) DeleteSession(ctx context.Context, id string) error {
	return db.erase(ctx, "delete session "+id,
		write(`DELETE FROM session_files WHERE session = ?`, id), write(`DELETE FROM sessions WHERE id = ?`, id))
}

// Sessions returns all sessions, oldest first.
func (db *DB) Sessions(ctx context.Context) ([]Session, error) {
	all, err := sessions.all(ctx, db, "read sessions", "ORDER BY opened, id")
	if err != nil {
		return nil, err
	}
	files := map[string][]File{}
	err = sessionFiles.each(ctx, db, "read sessions", func(f sessionFile) {
		files[f.session] = append(files[f.session], f.File)
	}, "ORDER BY session, place")
	for i := range all {
		all[i].Files = files[all[i].ID]
	}
	return all, err
}
