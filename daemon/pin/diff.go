package pin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Grade says how much a change can affect.
type Grade string

const (
	High Grade = "high" // what a model sees, or what a call carries
	Low  Grade = "low"  // how it is shown to people
)

// Change is one difference between two definitions.
type Change struct {
	Path   string // such as inputSchema.properties.path.description
	Grade  Grade
	Before []byte // raw JSON; nil if absent
	After  []byte // raw JSON; nil if absent
	Note   string // explanation, if one is needed
}

const (
	// mostChanges is the limit of listed changes. If there are more, the last one says so.
	mostChanges = 100
	// deepest is the depth to which changes within a definition are listed separately.
	deepest = 12
)

// low are the members of a definition that are shown to people, or are claims that loosen nothing.
var low = map[string]bool{"annotations": true, "title": true, "icons": true}

// Changes returns the differences between two definitions, each a JSON object as a server sent it,
// in the order of after. There is at least one if their bytes differ.
func Changes(before, after []byte) []Change {
	var d differ
	d.compare(nil, before, after)
	if len(d.changes) == 0 && !bytes.Equal(before, after) {
		d.add(Change{Grade: Low, Note: "only the notation differs: spaces, escapes, or the order of members"})
	}
	return d.changes
}

// differ collects changes.
type differ struct {
	changes []Change
	more    int
}

func (d *differ) add(c Change) {
	if len(d.changes) < mostChanges {
		d.changes = append(d.changes, c)
		return
	}
	d.more++
	last := &d.changes[mostChanges-1]
	if d.more == 1 {
		*last = Change{Grade: High}
		d.more++
	}
	last.Note = fmt.Sprintf("%d more changes", d.more)
}

// compare compares the values at path; nil means absent.
func (d *differ) compare(path []string, before, after []byte) {
	if before != nil && after != nil {
		if sameValue(before, after) {
			return
		}
		if before[0] == '{' && after[0] == '{' && len(path) < deepest {
			d.objects(path, before, after)
			return
		}
		if isRequired(path) && before[0] == '[' && after[0] == '[' {
			d.required(path, before, after)
			return
		}
	}
	d.add(Change{Path: strings.Join(path, "."), Grade: gradeOf(path), Before: before, After: after})
}

// objects compares two objects member by member.
func (d *differ) objects(path []string, before, after []byte) {
	old, oldOrder := membersOf(before)
	now, order := membersOf(after)
	for _, name := range order {
		d.compare(append(slices.Clip(path), name), old[name], now[name])
	}
	for _, name := range oldOrder {
		if now[name] == nil {
			d.compare(append(slices.Clip(path), name), old[name], nil)
		}
	}
}

// required compares two lists of required arguments as sets.
func (d *differ) required(path []string, before, after []byte) {
	old, now, at, same := textsOf(before), textsOf(after), strings.Join(path, "."), true
	for _, name := range now {
		if !slices.Contains(old, name) {
			d.add(Change{Path: at, Grade: High, Note: "a new required argument", After: wire.AppendQuote(nil, name)})
			same = false
		}
	}
	for _, name := range old {
		if !slices.Contains(now, name) {
			d.add(Change{Path: at, Grade: High, Note: "no longer required", Before: wire.AppendQuote(nil, name)})
			same = false
		}
	}
	if same {
		d.add(Change{Path: at, Grade: gradeOf(path), Before: before, After: after})
	}
}

// isRequired reports whether path is that of a list of required arguments of a tool, at any depth.
func isRequired(path []string) bool {
	return len(path) > 1 && path[0] == "inputSchema" && path[len(path)-1] == "required"
}

func gradeOf(path []string) Grade {
	if len(path) > 0 && low[path[0]] {
		return Low
	}
	return High
}

// membersOf returns the members of an object and the order of their names.
func membersOf(raw []byte) (values map[string][]byte, order []string) {
	values = map[string][]byte{}
	// raw is an object: it was read strictly when it arrived.
	_ = wire.Members(raw, wire.Span{End: len(raw)}, func(name []byte, value wire.Span) error {
		order = append(order, string(name))
		values[string(name)] = value.Of(raw)
		return nil
	})
	return values, order
}

// textsOf returns the strings in an array. Other elements are returned raw.
func textsOf(raw []byte) []string {
	items, _ := wire.Elements(raw, wire.Span{End: len(raw)})
	var texts []string
	for _, item := range items {
		text, err := wire.Unquote(item, raw)
		if err != nil {
			text = string(item.Of(raw))
		}
		texts = append(texts, text)
	}
	return texts
}

// sameValue reports whether two JSON values differ only in white space, escapes and the order of
// members. Numbers are compared as written.
func sameValue(a, b []byte) bool {
	return bytes.Equal(a, b) || bytes.Equal(rawjson.Canonical(a), rawjson.Canonical(b))
}

// summary lists the top-level members that changed.
func summary(changes []Change) string {
	var paths []string
	for _, c := range changes {
		path, _, _ := strings.Cut(c.Path, ".")
		if path == "" {
			path = c.Note
		}
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	if len(paths) > 6 {
		paths = append(paths[:6], "…")
	}
	return strings.Join(paths, ", ")
}

// grade returns the highest grade of the changes.
func grade(changes []Change) Grade {
	if slices.ContainsFunc(changes, func(c Change) bool { return c.Grade == High }) {
		return High
	}
	return Low
}

// changes returns the texts of two definitions, each nil if it was not kept, and their differences
// if both were. b.changing must be held.
func (b *Registry) changes(ctx context.Context, old, now *definition) (before, after []byte, changes []Change, err error) {
	if before, err = b.text(ctx, old); err == nil {
		after, err = b.text(ctx, now)
	}
	if err == nil && before != nil && after != nil {
		changes = Changes(before, after)
	}
	return before, after, changes, err
}

// text returns a definition as it was offered, or nil if it was not kept. b.mu or b.changing must
// be held.
func (b *Registry) text(ctx context.Context, d *definition) ([]byte, error) {
	if d == nil {
		return nil, nil
	}
	if d.raw != nil || b.db == nil || d.digest == [sha256.Size]byte{} {
		return d.raw, nil
	}
	return b.db.Definition(ctx, d.digest[:])
}
