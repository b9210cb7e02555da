package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

// Session is a wrapped run of an agent whose files may have to be put back.
type Session struct {
	ID      string // chosen by the wrap
	Agent   string // agent type
	Command []string
	Project string // absolute folder of the wrap
	Profile string
	Keep    bool // leave the rewritten files
	Wrap    Process
	Opened  time.Time // UTC, microseconds
	Files   []File
	State   string // the owner's word for how far it has come
}

// Process names a process beyond the reuse of its number.
type Process = proc.Process

// File is one file that a session rewrites.
type File struct {
	Path    string
	Journal []byte // internal/agentconf's own record of how to put it back
}

// PutSession keeps s, in place of what was kept under its ID.
func (db *DB) PutSession(ctx context.Context, s *Session) error {
	command, err := json.Marshal(s.Command)
	if err != nil {
		return fmt.Errorf("keep session: %w", err)
	}
	ctx = context.WithoutCancel(ctx)
	err = db.together(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO sessions (id, agent, command, project, profile, keep, pid, started, opened, state)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			s.ID, s.Agent, string(command), s.Project, s.Profile, s.Keep, s.Wrap.PID, int64(s.Wrap.Start), micros(s.Opened), s.State)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM session_files WHERE session = ?`, s.ID); err != nil {
			return err
		}
		for i, f := range s.Files {
			_, err := tx.ExecContext(ctx, `INSERT INTO session_files (session, place, path, journal) VALUES (?, ?, ?, ?)`,
				s.ID, i, f.Path, append([]byte{}, f.Journal...))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("keep session %s: %w", s.ID, err)
	}
	return nil
}

// DeleteSession erases a session; one that is not there is no error. A journal
// may hold what a file held, so that it does not stay behind.
func (db *DB) DeleteSession(ctx context.Context, id string) error {
	ctx = context.WithoutCancel(ctx)
	err := db.together(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM session_files WHERE session = ?`, id); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE id = ?`, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("erase session %s: %w", id, err)
	}
	db.erased(ctx)
	return nil
}

// Sessions returns all sessions, oldest first.
func (db *DB) Sessions(ctx context.Context) ([]Session, error) {
	var all []Session
	places := map[string]int{}
	err := db.each(ctx, `SELECT id, agent, command, project, profile, keep, pid, started, opened, state FROM sessions ORDER BY opened, id`,
		func(scan func(...any) error) error {
			var s Session
			var command []byte
			var started, opened int64
			err := scan(&s.ID, &s.Agent, &command, &s.Project, &s.Profile, &s.Keep, &s.Wrap.PID, &started, &opened, &s.State)
			if err != nil {
				return err
			}
			s.Wrap.Start, s.Opened = uint64(started), fromMicros(opened)
			if err := json.Unmarshal(command, &s.Command); err != nil {
				return fmt.Errorf("%s: command: %w", s.ID, err)
			}
			places[s.ID] = len(all)
			all = append(all, s)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	err = db.each(ctx, `SELECT session, path, journal FROM session_files ORDER BY session, place`, func(scan func(...any) error) error {
		var id string
		var f File
		if err := scan(&id, &f.Path, &f.Journal); err != nil {
			return err
		}
		if i, ok := places[id]; ok {
			all[i].Files = append(all[i].Files, f)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	return all, nil
}
