package store

import (
	"context"
	"fmt"
	"time"
)

// Listing is the list of tools of a server with a given launch.
type Listing struct {
	Server string
	Launch string    // hex SHA-256 over the resolved command and its arguments
	Listed time.Time // last listed; UTC, microseconds
	Tools  []Shape
}

// Shape describes the arguments of one tool.
type Shape struct {
	Tool  string
	Takes []byte // in the format of internal/shape; nil if Fault says why there is none
	Fault string
}

// shape is a Shape as stored, with its server and launch.
type shape struct {
	server, launch string
	Shape
}

var (
	listings = newTable("listings", func(l *Listing) []column {
		return []column{
			{"server", &l.Server}, {"launch", &l.Launch}, {"listed", stamp(&l.Listed)},
		}
	})
	shapes = newTable("shapes", func(s *shape) []column {
		return []column{
			{"server", &s.server}, {"launch", &s.launch}, {"tool", &s.Tool}, {"takes", &s.Takes}, {"fault", &s.Fault},
		}
	})
)

// KeepListing stores l and replaces the one of the same server and launch.
func (db *DB) KeepListing(ctx context.Context, l *Listing) error {
	all := []statement{dropListing(l.Server, l.Launch), listings.insert(l)}
	for _, t := range l.Tools {
		all = append(all, shapes.insert(&shape{l.Server, l.Launch, t}))
	}
	return db.exec(ctx, fmt.Sprintf("save the tools of %q", l.Server), all...)
}

// DropListing removes the listing of a server; it is no error if there is none.
func (db *DB) DropListing(ctx context.Context, server, launch string) error {
	return db.exec(ctx, fmt.Sprintf("delete the tools of %q", server), dropListing(server, launch))
}

func dropListing(server, launch string) statement {
	return write(`DELETE FROM listings WHERE server = ? AND launch = ?`, server, launch)
}

// Listings returns the listings of all servers, the latest first.
func (db *DB) Listings(ctx context.Context) ([]Listing, error) {
	const doing = "read the tools of servers"
	all, err := listings.all(ctx, db, doing, "ORDER BY listed DESC, server, launch")
	if err != nil {
		return nil, err
	}
	tools := map[[2]string][]Shape{}
	err = shapes.each(ctx, db, doing, func(s shape) {
		of := [2]string{s.server, s.launch}
		tools[of] = append(tools[of], s.Shape)
	}, "ORDER BY tool")
	for i, l := range all {
		all[i].Tools = tools[[2]string{l.Server, l.Launch}]
	}
	return all, err
}

// PutActiveSet stores the digest of the policy set that is in force.
func (db *DB) PutActiveSet(ctx context.Context, digest string) error {
	return db.exec(ctx, "save which set is in force", write(`INSERT OR REPLACE INTO standing (one, digest) VALUES (1, ?)`, digest))
}

// ActiveSet returns the digest of the policy set that was last in force; empty if there
// was none.
func (db *DB) ActiveSet(ctx context.Context) (digest string, err error) {
	err = db.each(ctx, "read which set was in force", func(scan func(...any) error) error { return scan(&digest) }, `SELECT digest FROM standing`)
	return digest, err
}
