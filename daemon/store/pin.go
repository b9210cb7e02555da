package store

import (
	"context"
	"fmt"
	"time"
)

// Launch is an MCP server as pins tell it from others: its id, and what is
// started under it.
type Launch struct {
	Server   string
	Launch   string // hex SHA-256 over the resolved command and its arguments
	Command  []string
	First    time.Time // it was first seen; UTC, microseconds, as all times here
	Seen     time.Time // it was last seen, to the hour or so
	Accepted bool      // false: a stranger under a known id
	Decider  string    // who accepted it; empty for the first of its id
}

// Definition is what a server says of a tool, prompt or template.
type Definition struct {
	Digest []byte // SHA-256 over Raw as it was offered
	Raw    []byte // nil when it was too large to be kept, and where it is not asked for
	About  []byte // JSON, of whoever keeps it
}

// Pin is what was accepted of one tool, prompt or template, and what is offered
// in its place. Of both only Digest and About are filled in by Pins.
type Pin struct {
	Server string
	Launch string
	Kind   string
	Name   string

	Accepted Definition // without Digest: none ever was
	Since    time.Time
	Decider  string // who accepted it; empty at first sight

	Offered Definition // without Digest: nothing waits
	Noticed time.Time
	Why     string // it waits
}

// View is what one attachment's server has shown.
type View struct {
	Attachment string
	Server     string
	Launch     string
	Offers     []byte // JSON, of whoever keeps it
}

// PinChange is what is kept together, or not at all. Each row replaces the one
// of the same name.
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
	// readPins has what is said about the definitions of a pin as well.
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

// KeepPins writes a change. A Pin must name a Launch that is kept. Definitions
// that no pin names any more are erased.
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
				// What is known of a definition stays: a change may name it by its digest.
				all = append(all, definitions.insert(d).or("DO NOTHING"))
			}
		}
		all = append(all, pins.replace(p))
	}
	for i := range change.Views {
		all = append(all, views.replace(&change.Views[i]))
	}
	return db.exec(ctx, "keep pins", append(all, write(dropDefinitions))...)
}

const dropDefinitions = `DELETE FROM definitions WHERE
	NOT EXISTS (SELECT 1 FROM pins WHERE accepted = digest) AND NOT EXISTS (SELECT 1 FROM pins WHERE offered = digest)`

// DropLaunch forgets a launch of a server with all of its pins.
func (db *DB) DropLaunch(ctx context.Context, server, launch string) error {
	return db.exec(ctx, fmt.Sprintf("forget a launch of %q", server),
		write(`DELETE FROM launches WHERE server = ? AND launch = ?`, server, launch), write(dropDefinitions))
}

// DropView forgets what the server of an attachment has shown.
func (db *DB) DropView(ctx context.Context, attachment string) error {
	return db.exec(ctx, "forget an attachment", write(`DELETE FROM views WHERE attachment = ?`, attachment))
}

// Launches returns every server and launch that is known.
func (db *DB) Launches(ctx context.Context) ([]Launch, error) {
	return launches.all(ctx, db, "read servers", "")
}

// Pins returns every pin, without the definitions themselves.
func (db *DB) Pins(ctx context.Context) ([]Pin, error) { return readPins.all(ctx, db, "read pins", "") }

// Views returns what the servers of attachments have shown.
func (db *DB) Views(ctx context.Context) ([]View, error) {
	return views.all(ctx, db, "read what servers have shown", "")
}

// Definition returns the definition with that digest as it was offered, nil when
// it was too large to be kept. gate.ErrNotFound means that no pin names it.
func (db *DB) Definition(ctx context.Context, digest []byte) ([]byte, error) {
	d, err := definitions.one(ctx, db, fmt.Sprintf("definition %x", digest), "WHERE digest = ?", digest)
	return d.Raw, err
}
