package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// ParseGrantID returns the number in the id of a grant, 0 for what is none.
func ParseGrantID(id string) uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(id, "G-"), 10, 63)
	if err != nil || formatGrantID(n) != id {
		return 0
	}
	return n
}

func formatGrantID(n uint64) string { return fmt.Sprintf("G-%d", n) }

// AddGrant keeps a grant and gives it its ID.
func (db *DB) AddGrant(ctx context.Context, g *Grant) error {
	bounds, err := json.Marshal(&g.Bounds)
	if err != nil {
		return fmt.Errorf("keep grant: %w", err)
	}
	_, result, err := db.change(ctx, `INSERT INTO grants (created, expires, boot, deadline, times, used, ended, end, bounds)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		micros(g.Created), micros(g.Expires), g.Boot, int64(g.Deadline), int64(g.Times), int64(g.Used), micros(g.Ended), g.End, string(bounds))
	if err != nil {
		return fmt.Errorf("keep grant: %w", err)
	}
	n, err := result.LastInsertId()
	if err != nil {
		return fmt.Errorf("keep grant: %w", err)
	}
	g.ID = formatGrantID(uint64(n))
	return nil
}

// UseGrant counts a call that the grant lets through, and remembers it among its
// last. ErrDecided means that it has ended, or has let through as many as it may.
// g is as it was kept; its Used and Uses are changed when the error is nil.
func (db *DB) UseGrant(ctx context.Context, g *Grant, u Use) error {
	uses := append(slices.Clone(g.Uses[max(0, len(g.Uses)-lastUses+1):]), u)
	text, err := json.Marshal(uses)
	var n int64
	if err == nil {
		n, _, err = db.change(ctx, "UPDATE grants SET used = used + 1, uses = ? WHERE n = ? AND ended = 0 AND (times = 0 OR used < times)",
			string(text), int64(ParseGrantID(g.ID)))
	}
	if err == nil && n == 0 {
		err = gate.ErrDecided
	}
	if err != nil {
		return fmt.Errorf("use grant %s: %w", g.ID, err)
	}
	g.Used, g.Uses = g.Used+1, uses
	return nil
}

// EndGrant writes down that a grant has ended: its Ended and End. ErrDecided means
// that it had before.
func (db *DB) EndGrant(ctx context.Context, g *Grant) error {
	n, _, err := db.change(ctx, "UPDATE grants SET ended = ?, end = ? WHERE n = ? AND ended = 0",
		micros(g.Ended), g.End, int64(ParseGrantID(g.ID)))
	if err == nil && n == 0 {
		err = gate.ErrDecided
	}
	if err != nil {
		return fmt.Errorf("end grant %s: %w", g.ID, err)
	}
	return nil
}

// Grants returns those in force, oldest first.
func (db *DB) Grants(ctx context.Context) ([]Grant, error) {
	return db.grants(ctx, "WHERE ended = 0 ORDER BY n")
}

// EndedGrants returns the newest that have ended, newest first, at most limit.
func (db *DB) EndedGrants(ctx context.Context, limit int) ([]Grant, error) {
	return db.grants(ctx, "WHERE ended <> 0 ORDER BY n DESC LIMIT ?", limit)
}

// PruneGrants removes those that have ended but for the newest keep.
func (db *DB) PruneGrants(ctx context.Context, keep int) error {
	_, _, err := db.change(ctx, `DELETE FROM grants WHERE ended <> 0 AND n <=
		(SELECT n FROM grants WHERE ended <> 0 ORDER BY n DESC LIMIT 1 OFFSET ?)`, keep)
	if err != nil {
		return fmt.Errorf("prune grants: %w", err)
	}
	return nil
}

func (db *DB) grants(ctx context.Context, where string, args ...any) ([]Grant, error) {
	var all []Grant
	const columns = "n, created, expires, boot, deadline, times, used, ended, end, uses, bounds"
	err := db.each(ctx, "SELECT "+columns+" FROM grants "+where, func(scan func(...any) error) error {
		var g Grant
		var n, created, expires, deadline, times, used, ended int64
		var uses, bounds []byte
		if err := scan(&n, &created, &expires, &g.Boot, &deadline, &times, &used, &ended, &g.End, &uses, &bounds); err != nil {
			return err
		}
		if len(uses) > 0 {
			if err := json.Unmarshal(uses, &g.Uses); err != nil {
				return fmt.Errorf("%s: %w", formatGrantID(uint64(n)), err)
			}
		}
		g.ID, g.Deadline, g.Times, g.Used = formatGrantID(uint64(n)), time.Duration(deadline), uint64(times), uint64(used)
		g.Created, g.Expires, g.Ended = fromMicros(created), fromMicros(expires), fromMicros(ended)
		if err := json.Unmarshal(bounds, &g.Bounds); err != nil {
			return fmt.Errorf("%s: %w", g.ID, err)
		}
		all = append(all, g)
		return nil
	}, args...)
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	return all, nil
}
