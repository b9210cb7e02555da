package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
)

// Gone is a wrap that is over and of whose agent something may be left.
type Gone struct {
	Session string
	Agent   string // agent type
	Wrap    Process
	Cgroup  string    // of the wrap; empty where there is none
	Ended   uint64    // when it vanished, as [Process].Start counts; 0 when it ended in order
	Left    []Process // of the agent, when that was seen last
}

// KeepGone keeps g, in place of what was kept of the same session. Those of this boot
// are all kept: an agent could open wraps and kill them to have an older one forgotten.
func (db *DB) KeepGone(ctx context.Context, g *Gone) error {
	left, err := json.Marshal(g.Left)
	if err != nil {
		return fmt.Errorf("keep what a wrap left: %w", err)
	}
	boot, _ := Boot()
	ctx = context.WithoutCancel(ctx)
	err = db.together(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO gone (session, agent, pid, started, cgroup, ended, left, boot) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			g.Session, g.Agent, g.Wrap.PID, int64(g.Wrap.Start), g.Cgroup, int64(g.Ended), string(left), boot)
		if err == nil {
			_, err = tx.ExecContext(ctx, `DELETE FROM gone WHERE boot <> ?`, boot)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("keep what a wrap left: %w", err)
	}
	return nil
}

// DropGone forgets what a wrap left, if it is kept.
func (db *DB) DropGone(ctx context.Context, session string) error {
	if _, _, err := db.change(ctx, `DELETE FROM gone WHERE session = ?`, session); err != nil {
		return fmt.Errorf("forget what a wrap left: %w", err)
	}
	return nil
}

// Gone returns the wraps of this boot that were kept; after another one no process
// of theirs is left.
func (db *DB) Gone(ctx context.Context) ([]Gone, error) {
	boot, _ := Boot()
	var all []Gone
	err := db.each(ctx, `SELECT session, agent, pid, started, cgroup, ended, left, boot FROM gone ORDER BY rowid`, func(scan func(...any) error) error {
		var g Gone
		var started, ended int64
		var left []byte
		var of string
		if err := scan(&g.Session, &g.Agent, &g.Wrap.PID, &started, &g.Cgroup, &ended, &left, &of); err != nil {
			return err
		}
		g.Wrap.Start, g.Ended = uint64(started), uint64(ended)
		if err := json.Unmarshal(left, &g.Left); err != nil {
			return fmt.Errorf("%s: %w", g.Session, err)
		}
		if of == boot {
			all = append(all, g)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read what wraps left: %w", err)
	}
	return all, nil
}
