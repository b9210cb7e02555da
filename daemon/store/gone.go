package store

import "context"

// EndedWrap is an ended wrap of whose agent processes may be left.
type EndedWrap struct {
	Session string
	Agent   string // agent type
	Wrap    Process
	Cgroup  string    // of the wrap; empty if there is none
	Ended   uint64    // when it vanished, as [Process].Start counts; 0 if it ended in order
	Left    []Process // processes of the agent when last observed
}

var gone = newTable("gone", func(g *EndedWrap) []column {
	boot, _ := Boot() // of everything that is written or read
	return []column{
		{"session", &g.Session}, {"agent", &g.Agent}, {"pid", &g.Wrap.PID}, {"started", bits(&g.Wrap.Start)},
		{"cgroup", &g.Cgroup}, {"ended", bits(&g.Ended)}, {"left", jsonText(&g.Left)}, {"boot", &boot},
	}
})

// KeepGone stores g and replaces an entry of the same session. All entries of this boot
// are kept: otherwise an agent could open wraps and kill them to have an older one
// forgotten.
func (db *DB) KeepGone(ctx context.Context, g *EndedWrap) error {
	boot, _ := Boot()
	return db.exec(ctx, "save what a wrap left", gone.replace(g), write(`DELETE FROM gone WHERE boot <> ?`, boot))
}

// DropGone removes the entry of a session, if there is one.
func (db *DB) DropGone(ctx context.Context, session string) error {
	return db.exec(ctx, "delete what a wrap left", write(`DELETE FROM gone WHERE session = ?`, session))
}

// Gone returns the wraps of this boot that were kept. After another boot none of their
// processes is left.
func (db *DB) Gone(ctx context.Context) ([]EndedWrap, error) {
	boot, _ := Boot()
	return gone.all(ctx, db, "read what wraps left", "WHERE boot = ? ORDER BY rowid", boot)
}
