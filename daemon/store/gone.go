package store

import "context"

// Gone is a wrap that is over and of whose agent something may be left.
type Gone struct {
	Session string
	Agent   string // agent type
	Wrap    Process
	Cgroup  string    // of the wrap; empty where there is none
	Ended   uint64    // when it vanished, as [Process].Start counts; 0 when it ended in order
	Left    []Process // of the agent, when that was seen last
}

var gone = newTable("gone", func(g *Gone) []column {
	boot, _ := Boot() // of all that is written, and of all that is read
	return []column{
		{"session", &g.Session}, {"agent", &g.Agent}, {"pid", &g.Wrap.PID}, {"started", bits(&g.Wrap.Start)},
		{"cgroup", &g.Cgroup}, {"ended", bits(&g.Ended)}, {"left", jsonText(&g.Left)}, {"boot", &boot},
	}
})

// KeepGone keeps g, in place of what was kept of the same session. Those of this boot
// are all kept: an agent could open wraps and kill them to have an older one forgotten.
func (db *DB) KeepGone(ctx context.Context, g *Gone) error {
	boot, _ := Boot()
	return db.exec(ctx, "keep what a wrap left", gone.replace(g), write(`DELETE FROM gone WHERE boot <> ?`, boot))
}

// DropGone forgets what a wrap left, if it is kept.
func (db *DB) DropGone(ctx context.Context, session string) error {
	return db.exec(ctx, "forget what a wrap left", write(`DELETE FROM gone WHERE session = ?`, session))
}

// Gone returns the wraps of this boot that were kept; after another one no process
// of theirs is left.
func (db *DB) Gone(ctx context.Context) ([]Gone, error) {
	boot, _ := Boot()
	return gone.all(ctx, db, "read what wraps left", "WHERE boot = ? ORDER BY rowid", boot)
}
