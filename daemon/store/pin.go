package store

import (
	"context"
	"fmt"
	"time"
)

// Launch is an MCP server as pins identify it: by its id and its command.
type Launch struct {
	Server   string
	Launch   string // hex SHA-256 over the resolved command and its arguments
	Command  []string
	First    time.Time // first seen; UTC, microseconds, as all times here
	Seen     time.Time // last seen, to about an hour
	Accepted bool      // false: a new server under a known id
	Decider  string    // who accepted it; empty for the first of its id
}

// Definition is a server's definition of a tool, prompt or template.
type Definition struct {
	Digest []byte // SHA-256 over Raw as the server sent it
	Raw    []byte // nil if it was too large to be kept, and where it is not needed
	About  []byte // JSON, in its owner's format
}

// Pin is the accepted definition of one tool, prompt or template, and the one that the
// server sends now, which waits to be accepted. Pins sets only Digest and About of both.
type Pin struct {
	Server string
	Launch string
	Kind   string
	Name   string

	Accepted Definition // without Digest: none was ever accepted
	Since    time.Time
	Decider  string // who accepted it; empty at first sight

	Offered Definition // without Digest: none is waiting
	Noticed time.Time
	Why     string // why it is waiting
}

// View is what the server of one attachment has listed.
type View struct {
	Attachment string
	Server     string
	Launch     string
	Offers     []byte // JSON, in its owner's format
}

// PinChange is a set of changes that are stored atomically. Each row replaces the one
// with the same key.
type PinChange struct {
	Launches []Launch
	Pins     []Pin
	Views    []View
}

var (
	launches = newTable("launches", func(l *Launch) []column {
		return []column{
			{"server", &l.Server}, {"launch", &l.Launch}, {"command", jsonText(&l.Command)}, {"first", stamp(&l.First)},
			{"seen", stamp(&l.Seen)}, {"accepted", &l.Accepted}, {"decider", &l.Decider},
		}
	})
	definitions = newTable("definitions", func(d *Definition) []column {
		return []column{
			{"digest", &d.Digest}, {"raw", &d.Raw}, {"about", text(&d.About)},
		}
	})
	pins = newTable("pins", (*Pin).columns)
	// readPins also reads the About of a pin's definitions.
	readPins = newTable("pins", func(p *Pin) []column {
		return append(p.columns(), column{"(SELECT about FROM definitions WHERE digest = accepted)", text(&p.Accepted.About)},
			column{"(SELECT about FROM definitions WHERE digest = offered)", text(&p.Offered.About)})
	})
	views = newTable("views", func(v *View) []column {
		return []column{
			{"attachment", &v.Attachment}, {"server", &v.Server}, {"launch", &v.Launch}, {"offers", text(&v.Offers)},
		}
	})
)

func (p *Pin) columns() []column {
	return []column{
		{"server", &p.Server}, {"launch", &p.Launch}, {"kind", &p.Kind}, {"name", &p.Name}, {"accepted", &p.Accepted.Digest},
		{"since", stamp(&p.Since)}, {"decider", &p.Decider}, {"offered", &p.Offered.Digest}, {"noticed", stamp(&p.Noticed)}, {"why", &p.Why},
	}
}

// KeepPins stores a change. The Launch of a Pin must be stored. Definitions that no pin
// refers to any more are erased.
func (db *DB) KeepPins(ctx context.Context, change PinChange) error {
	var all []statement
	for i := range change.Launches {
		all = append(all, launches.insert(&change.Launches[i]).or(`(server, launch) DO UPDATE SET
			seen = excluded.seen, accepted = excluded.accepted, decider = excluded.decider`))
	}
	for i := range change.Pins {
		p := &change.Pins[i]
		for _, d := range []*Definition{&p.Accepted, &p.Offered} {
			if d.Digest != nil {
				// A known definition stays as it is: a change may refer to it by its
				// digest.
				all = append(all, definitions.insert(d).or("DO NOTHING"))
			}
		}
		all = append(all, pins.replace(p))
	}
	for i := range change.Views {
		all = append(all, views.replace(&change.Views[i]))
	}
	return db.exec(ctx, "save pins", append(all, write(dropDefinitions))...)
}

const dropDefinitions = `DELETE FROM definitions WHERE
	NOT EXISTS (SELECT 1 FROM pins WHERE accepted = digest) AND NOT EXISTS (SELECT 1 FROM pins WHERE offered = digest)`

// DropLaunch removes a launch of a server with all of its pins.
func (db *DB) DropLaunch(ctx context.Context, server, launch string) error {
	return db.exec(ctx, fmt.Sprintf("delete a launch of %q", server),
		write(`DELETE FROM launches WHERE server = ? AND launch = ?`, server, launch), write(dropDefinitions))
}

// DropView removes the View of an attachment.
func (db *DB) DropView(ctx context.Context, attachment string) error {
	return db.exec(ctx, "delete an attachment", write(`DELETE FROM views WHERE attachment = ?`, attachment))
}

// Launches returns all known servers and launches.
func (db *DB) Launches(ctx context.Context) ([]Launch, error) {
	return launches.all(ctx, db, "read servers", "")
}

// Pins returns all pins, without the definitions themselves.
func (db *DB) Pins(ctx context.Context) ([]Pin, error) { return readPins.all(ctx, db, "read pins", "") }

// Views returns the views of all attachments.
func (db *DB) Views(ctx context.Context) ([]View, error) {
	return views.all(ctx, db, "read what servers have listed", "")
}

// Definition returns the definition with that digest as the server sent it; nil if it was
// too large to be kept. gate.ErrNotFound means that no pin refers to it.
func (db *DB) Definition(ctx context.Context, digest []byte) ([]byte, error) {
	d, err := definitions.one(ctx, db, fmt.Sprintf("definition %x", digest), "WHERE digest = ?", digest)
	return d.Raw, err
}
