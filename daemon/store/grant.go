package store

import (
	"context"
	"slices"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Grant is an approval for more than one call: it approves calls that a person would be
// asked about.
type Grant struct {
	ID      string // such as G-3, set by AddGrant; never reused
	Created time.Time
	Expires time.Time
	// End of its validity on a clock that nobody can set; see Question.
	Boot     string
	Deadline time.Duration
	Times    uint64 // number of calls it approves; 0: any number
	Used     uint64
	Ended    time.Time // zero while it is in force
	End      string    // why it has ended, in one sentence
	Uses     []Use     // the last ones, oldest first, including all that may not be recorded yet
	Bounds
}

// Use is a call that a grant has approved.
type Use struct {
	Attachment string `json:"a"`
	Seq        uint64 `json:"s"`
	Subject    []byte `json:"d"` // SHA-256 of what was called
}

// lastUses is the number of approved calls that a grant remembers: more than can be
// waiting to be recorded at the same time.
const lastUses = 64

// Bounds are the conditions for a call that a grant covers, and who gave the grant.
type Bounds struct {
	Agent      string
	Session    string // of the question; used if Scope is session
	Project    string // likewise, if Scope is project
	Server     string
	Launch     string
	Definition [32]byte // of what is called; zero if none was known
	Method     string
	Tool       string
	Workflow   string
	Rule       string      // the rule that asks, with its position
	Basis      gate.Basis  // digests of the rule and of the workflow
	Extent     gate.Extent // of what it destroys; a call that destroys more is not covered
	Facts      []string    // names of the facts of the call; a call with any other is not covered

	Grain   *gate.Grain       // what a call must do, if Match is verb or program
	Match   string            // tool, args, some, verb or program
	Scope   string            // session, project or always
	Salt    []byte            // for Members
	Members map[string][]byte // HMAC-SHA-256 over the digest of each argument that must be equal; under "" of all arguments
	Beside  []byte            // likewise, of the params other than arguments, which must always be equal; nil in grants of releases that did not check them

	Approval string // the question with which it was given
	Decider  string
	Surface  string
	Level    string // level of the approval with which it was given: watch or presence; empty means watch
	Note     string
}

const grantPrefix = "G-"

// ParseGrantID returns the number in the id of a grant; 0 if id is invalid.
func ParseGrantID(id string) uint64 { return uint64(parseID(grantPrefix, id)) }

var grants = newTable("grants", func(g *Grant) []column {
	return []column{
		{"n", id{grantPrefix, &g.ID}}, {"created", stamp(&g.Created)}, {"expires", stamp(&g.Expires)},
		{"boot", &g.Boot}, {"deadline", &g.Deadline}, {"times", bits(&g.Times)}, {"used", bits(&g.Used)},
		{"ended", stamp(&g.Ended)}, {"end", &g.End}, {"uses", jsonText(&g.Uses)}, {"bounds", jsonText(&g.Bounds)},
	}
})

// AddGrant stores a grant and sets its ID.
func (db *DB) AddGrant(ctx context.Context, g *Grant) error {
	added := *g
	added.ID = ""
	n, err := db.add(ctx, "save grant", grants.insert(&added))
	if err != nil {
		return err
	}
	g.ID = formatID(grantPrefix, n)
	return nil
}

// UseGrant counts a call that the grant approves and adds it to its last uses. ErrDecided
// means that the grant has ended or is used up. g must be as it is stored; its Used and
// Uses are updated if the error is nil.
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

// EndGrant stores the end of a grant, which is its Ended and End. ErrDecided means that
// it had ended before.
func (db *DB) EndGrant(ctx context.Context, g *Grant) error {
	return db.exec(ctx, "end grant "+g.ID, update("UPDATE grants SET ended = ?, end = ? WHERE n = ? AND ended = 0",
		stamp(&g.Ended), g.End, id{grantPrefix, &g.ID}))
}

// Grants returns the grants in force, oldest first.
func (db *DB) Grants(ctx context.Context) ([]Grant, error) {
	return grants.all(ctx, db, "read grants", "WHERE ended = 0 ORDER BY n")
}

// EndedGrants returns at most limit ended grants, newest first.
func (db *DB) EndedGrants(ctx context.Context, limit int) ([]Grant, error) {
	return grants.all(ctx, db, "read grants", "WHERE ended <> 0 ORDER BY n DESC LIMIT ?", limit)
}

// PruneGrants removes ended grants except the newest keep.
func (db *DB) PruneGrants(ctx context.Context, keep int) error {
	return db.exec(ctx, "prune grants", write(`DELETE FROM grants WHERE ended <> 0 AND n <=
		(SELECT n FROM grants WHERE ended <> 0 ORDER BY n DESC LIMIT 1 OFFSET ?)`, keep))
}
