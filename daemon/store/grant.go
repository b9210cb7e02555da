package store

import (
	"context"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Grant is a yes that remembers: it lets calls through that would be asked about.
type Grant struct {
	ID      string // as G-3, given by AddGrant; a name, never used again
	Created time.Time
	Expires time.Time
	// Until when it is in force on a clock that nobody can set; see Question.
	Boot     string
	Deadline time.Duration
	Times    uint64 // how many calls it lets through; 0: any number
	Used     uint64
	Ended    time.Time // zero while it is in force
	End      string    // why it has ended, in one sentence
	Uses     []Use     // the last ones, oldest first, those of which nothing may be on record yet among them
	Bounds
}

// Use is a call that a grant has let through.
type Use struct {
	Attachment string `json:"a"`
	Seq        uint64 `json:"s"`
	Subject    []byte `json:"d"` // SHA-256 of what was called
}

// lastUses is how many calls a grant remembers that it let through: more than can
// be on their way into the record at once.
const lastUses = 64

// Bounds are what a call must be that a grant covers, and who gave it.
type Bounds struct {
	Agent      string
	Session    string // of the question; it counts where Scope is session
	Project    string // likewise, where Scope is project
	Server     string
	Launch     string
	Definition [32]byte // of what is called; zero where none was known
	Method     string
	Tool       string
	Workflow   string
	Rule       string     // which asks, with its place
	Basis      gate.Basis // it and the workflow, by what they say
	Facts      []string   // names of what was true of the call; no other may be

	Match   string            // tool, args or some
	Scope   string            // session, project or always
	Salt    []byte            // of Members
	Members map[string][]byte // HMAC-SHA-256 over the digest of each argument that must be equal; of all of them under ""
	Beside  []byte            // likewise, of what stands beside the arguments, which must always be equal; nil in grants of releases that did not look at it

	Approval string // the question that it was given with
	Decider  string
	Surface  string
	Level    string // what the yes has shown that it was given with: watch or presence; empty stands for watch
	Note     string
}

const grantPrefix = "G-"

// ParseGrantID returns the number in the id of a grant, 0 for what is none.
func ParseGrantID(id string) uint64 { return uint64(parseID(grantPrefix, id)) }

var grants = newTable("grants", func(g *Grant) []column {
	return []column{
		{"n", id{grantPrefix, &g.ID}}, {"created", stamp(&g.Created)}, {"expires", stamp(&g.Expires)},
		{"boot", &g.Boot}, {"deadline", &g.Deadline}, {"times", bits(&g.Times)}, {"used", bits(&g.Used)},
		{"ended", stamp(&g.Ended)}, {"end", &g.End}, {"uses", jsonText(&g.Uses)}, {"bounds", jsonText(&g.Bounds)},
	}
})

// AddGrant keeps a grant and gives it its ID.
func (db *DB) AddGrant(ctx context.Context, g *Grant) error {
	added := *g
	added.ID = ""
	n, err := db.add(ctx, "keep grant", grants.insert(&added))
	if err != nil {
		return err
	}
	g.ID = formatID(grantPrefix, n)
	return nil
}

// UseGrant counts a call that the grant lets through, and remembers it among its
// last. ErrDecided means that it has ended, or has let through as many as it may.
// g is as it was kept; its Used and Uses are changed when the error is nil.
func (db *DB) UseGrant(ctx context.Context, g *Grant, u Use) error {
	uses := append(slices.Clone(g.Uses[max(0, len(g.Uses)-lastUses+1):]), u)
	err := db.exec(ctx, "use grant "+g.ID, update("UPDATE grants SET used = used + 1, uses = ? WHERE n = ? AND ended = 0 AND (times = 0 OR used < times)",
		jsonText(uses), id{grantPrefix, &g.ID}))
	if err != nil {
		return err
	}
	g.Used, g.Uses = g.Used+1, uses
	return nil
}

// EndGrant writes down that a grant has ended: its Ended and End. ErrDecided means
// that it had before.
func (db *DB) EndGrant(ctx context.Context, g *Grant) error {
	return db.exec(ctx, "end grant "+g.ID, update("UPDATE grants SET ended = ?, end = ? WHERE n = ? AND ended = 0",
		stamp(&g.Ended), g.End, id{grantPrefix, &g.ID}))
}

// Grants returns those in force, oldest first.
func (db *DB) Grants(ctx context.Context) ([]Grant, error) {
	return grants.all(ctx, db, "read grants", "WHERE ended = 0 ORDER BY n")
}

// EndedGrants returns the newest that have ended, newest first, at most limit.
func (db *DB) EndedGrants(ctx context.Context, limit int) ([]Grant, error) {
	return grants.all(ctx, db, "read grants", "WHERE ended <> 0 ORDER BY n DESC LIMIT ?", limit)
}

// PruneGrants removes those that have ended but for the newest keep.
func (db *DB) PruneGrants(ctx context.Context, keep int) error {
	return db.exec(ctx, "prune grants", write(`DELETE FROM grants WHERE ended <> 0 AND n <=
		(SELECT n FROM grants WHERE ended <> 0 ORDER BY n DESC LIMIT 1 OFFSET ?)`, keep))
}
