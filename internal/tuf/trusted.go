package tuf

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxRoots is the maximum number of roots in the life of a fleet.
const maxRoots = 1024

// Update is what was published. Of a root each version counts; of the other metadata and of the
// target, nil stands for what was verified before.
type Update struct {
	Roots     [][]byte // oldest first
	Timestamp []byte
	Snapshot  []byte
	Targets   []byte // of the top level
	Delegated []byte // targets of the group
	Target    []byte
}

// Stored is what must be kept of a Trusted to make it again.
type Stored struct {
	Roots     [][]byte // from the first one to that in force
	Timestamp []byte   // the newest that was verified; nil if there is none
	Snapshot  []byte   // likewise
	Under     uint64   // version of the root under which the following were verified; 0 if they were not yet
	Targets   []byte
	Delegated []byte
	Target    []byte
}

// Trusted is what a client has verified for one group of a fleet. It is immutable.
//
// Once its target is verified, it keeps it until it verifies the next one: that metadata expire
// or that a root revokes their keys does not take the target away.
type Trusted struct {
	role string
	path string

	roots     []*root
	timestamp *timestamp // nil if none was verified, or its keys have changed
	snapshot  *snapshot  // likewise

	under     *root // of what follows; nil if nothing follows
	targets   *targets
	delegated *targets
	target    []byte
}

// Begin returns what is trusted of a fleet before anything was published to the client: the root
// that has the SHA-256 that the client was given. role is that of the client's group, and path
// that of the target.
func Begin(first []byte, digest [sha256.Size]byte, role, path string) (*Trusted, error) {
	return Load(Stored{Roots: [][]byte{first}}, digest, role, path)
}

// Load makes a Trusted of what was kept of one. All signatures are verified again, and times are
// not looked at: what was in force stays in force.
func Load(s Stored, digest [sha256.Size]byte, role, path string) (*Trusted, error) {
	if len(s.Roots) == 0 || len(s.Roots) > maxRoots || sha256.Sum256(s.Roots[0]) != digest {
		return nil, errors.New("verify the first root: it is not the one of the token: its SHA-256 differs")
	}
	t := &Trusted{role: role, path: path}
	for i, raw := range s.Roots {
		if err := t.rotate(raw); err != nil {
			return nil, fmt.Errorf("verify root %d of %d: %w", i+1, len(s.Roots), err)
		}
	}
	now := t.root()
	if s.Timestamp != nil {
		if err := t.takeTimestamp(now, s.Timestamp); err != nil {
			return nil, fmt.Errorf("verify the timestamp: %w", err)
		}
	}
	if s.Snapshot != nil {
		next, err := readSnapshot(s.Snapshot)
		if err == nil {
			err = next.signedBy(now.roles[roleSnapshot])
		}
		if err != nil {
			return nil, fmt.Errorf("verify the snapshot: %w", err)
		}
		t.snapshot = next
	}
	if s.Under == 0 {
		return t, nil
	}
	i := slices.IndexFunc(t.roots, func(r *root) bool { return r.version == s.Under })
	if i < 0 {
		return nil, fmt.Errorf("verify the policy: there is no root %d", s.Under)
	}
	return t, t.takeTarget(t.roots[i], s.Targets, s.Delegated, s.Target)
}

// Stored returns what must be kept.
func (t *Trusted) Stored() Stored {
	var s Stored
	for _, r := range t.roots {
		s.Roots = append(s.Roots, r.raw)
	}
	if t.timestamp != nil {
		s.Timestamp = t.timestamp.raw
	}
	if t.snapshot != nil {
		s.Snapshot = t.snapshot.raw
	}
	if t.under != nil {
		s.Under, s.Targets, s.Delegated, s.Target = t.under.version, t.targets.raw, t.delegated.raw, t.target
	}
	return s
}

// Keeping returns what t forbids together with the target of before: a client that can't use a
// target that was verified keeps the one it has.
func (t *Trusted) Keeping(before *Trusted) *Trusted {
	next := *t
	next.under, next.targets, next.delegated, next.target = before.under, before.targets, before.delegated, before.target
	return &next
}

func (t *Trusted) root() *root { return t.roots[len(t.roots)-1] }

// RootVersion returns the version of the root in force.
func (t *Trusted) RootVersion() uint64 { return t.root().version }

// TimestampVersion returns the highest version of a timestamp that was verified, or 0.
func (t *Trusted) TimestampVersion() uint64 {
	if t.timestamp == nil {
		return 0
	}
	return t.timestamp.version
}

// Version returns the version of the group's targets, or 0 if there are none yet.
func (t *Trusted) Version() uint64 {
	if t.delegated == nil {
		return 0
	}
	return t.delegated.version
}

// Target returns the content of the target, or nil if there is none yet. The caller must not
// modify it.
func (t *Trusted) Target() []byte { return t.target }

// Update verifies what was published, by the time now. It returns what is trusted afterwards.
// If it fails, that still is what was verified of u, as far as it forbids older versions later;
// the target is then the one before.
func (t *Trusted) Update(u Update, now time.Time) (*Trusted, error) {
	next := *t
	next.roots = slices.Clone(t.roots)
	if err := next.rotateAll(u.Roots); err != nil {
		return &next, err
	}
	if err := next.root().expired(now); err != nil {
		return &next, fmt.Errorf("verify the root: %w", err)
	}
	if err := next.updateTimestamp(u.Timestamp, now); err != nil {
		return &next, fmt.Errorf("verify the timestamp: %w", err)
	}
	if err := next.updateSnapshot(u.Snapshot, now); err != nil {
		return &next, fmt.Errorf("verify the snapshot: %w", err)
	}
	return &next, next.updateTarget(u, now)
}

// rotateAll takes the roots that are newer than the one in force. One that was verified before may
// come again.
func (t *Trusted) rotateAll(roots [][]byte) error {
	if len(roots) > maxRoots {
		return fmt.Errorf("verify the roots: there are %d; the maximum is %d", len(roots), maxRoots)
	}
	for _, raw := range roots {
		if slices.ContainsFunc(t.roots, func(r *root) bool { return bytes.Equal(r.raw, raw) }) {
			continue
		}
		if err := t.rotate(raw); err != nil {
			return fmt.Errorf("verify a root: %w", err)
		}
	}
	return nil
}

// rotate verifies the next root. If it changes who signs timestamps or snapshots, those that were
// verified no longer count: whoever had the old keys may have raised their versions.
func (t *Trusted) rotate(raw []byte) error {
	next, err := readRoot(raw)
	if err != nil {
		return err
	}
	if err := next.signedBy(next.roles[roleRoot]); err != nil {
		return err
	}
	if len(t.roots) > 0 {
		last := t.root()
		if next.version != last.version+1 {
			return fmt.Errorf("it has version %d, and version %d comes next", next.version, last.version+1)
		}
		if err := next.signedBy(last.roles[roleRoot]); err != nil {
			return fmt.Errorf("by the root before: %w", err)
		}
		if !next.roles[roleTimestamp].equal(last.roles[roleTimestamp]) || !next.roles[roleSnapshot].equal(last.roles[roleSnapshot]) {
			t.timestamp, t.snapshot = nil, nil
		}
	}
	if len(t.roots) == maxRoots {
		return fmt.Errorf("there are %d roots before it, which is the maximum", maxRoots)
	}
	t.roots = append(t.roots, next)
	return nil
}

// takeTimestamp verifies a timestamp that is not older than the one before.
func (t *Trusted) takeTimestamp(by *root, raw []byte) error {
	next, err := readTimestamp(raw)
	if err != nil {
		return err
	}
	if err := next.signedBy(by.roles[roleTimestamp]); err != nil {
		return err
	}
	if last := t.timestamp; last != nil {
		switch {
		case next.version < last.version:
			return rolledBack(next.version, last.version)
		case next.version == last.version && !bytes.Equal(next.body, last.body):
			return fmt.Errorf("there are two of the version %d", next.version)
		case next.snapshot.version < last.snapshot.version:
			return fmt.Errorf("of its snapshot: %w", rolledBack(next.snapshot.version, last.snapshot.version))
		}
	}
	t.timestamp = next
	return nil
}

// rolledBack is the error for a version that is lower than one that was verified.
func rolledBack(version, before uint64) error {
	return fmt.Errorf("it has version %d, and version %d was verified before", version, before)
}

func (t *Trusted) updateTimestamp(raw []byte, now time.Time) error {
	if raw != nil {
		if err := t.takeTimestamp(t.root(), raw); err != nil {
			return err
		}
	}
	if t.timestamp == nil {
		return errors.New("there is none")
	}
	return t.timestamp.expired(now)
}

// updateSnapshot verifies the snapshot that the timestamp names.
func (t *Trusted) updateSnapshot(raw []byte, now time.Time) error {
	if raw == nil && t.snapshot != nil {
		raw = t.snapshot.raw
	}
	if err := t.timestamp.snapshot.check(raw); err != nil {
		return err
	}
	next, err := readSnapshot(raw)
	if err != nil {
		return err
	}
	if err := next.signedBy(t.root().roles[roleSnapshot]); err != nil {
		return err
	}
	if next.version != t.timestamp.snapshot.version {
		return fmt.Errorf("it has version %d, and the timestamp names version %d", next.version, t.timestamp.snapshot.version)
	}
	if t.snapshot != nil {
		for name, before := range t.snapshot.meta {
			is, there := next.meta[name]
			switch {
			case !there:
				return fmt.Errorf("it no longer names %s", name)
			case is.version < before.version:
				return fmt.Errorf("of %s: %w", name, rolledBack(is.version, before.version))
			}
		}
	}
	t.snapshot = next
	return next.expired(now)
}

// named returns an error unless the snapshot names m as the metadata of the role.
func (t *Trusted) named(role string, m *metadata) error {
	is, there := t.snapshot.meta[role]
	if !there {
		return errors.New("the snapshot does not name them")
	}
	if m.version != is.version {
		return fmt.Errorf("they have version %d, and the snapshot names version %d", m.version, is.version)
	}
	return is.check(m.raw)
}

// updateTarget verifies the targets that the snapshot names, and the target.
func (t *Trusted) updateTarget(u Update, now time.Time) error {
	next := *t
	if t.under != nil {
		if u.Targets == nil {
			u.Targets = t.targets.raw
		}
		if u.Delegated == nil {
			u.Delegated = t.delegated.raw
		}
		if u.Target == nil {
			u.Target = t.target
		}
	}
	if err := next.takeTarget(t.root(), u.Targets, u.Delegated, u.Target); err != nil {
		return err
	}
	for _, one := range []struct {
		role string
		*targets
	}{{roleTargets, next.targets}, {t.role, next.delegated}} {
		err := t.named(one.role, &one.metadata)
		if err == nil {
			err = one.expired(now)
		}
		if err != nil {
			return fmt.Errorf("verify the targets of %s: %w", one.role, err)
		}
	}
	*t = next
	return nil
}

// takeTarget verifies targets and the target by their signatures alone.
func (t *Trusted) takeTarget(by *root, top, delegated, target []byte) error {
	all, err := readTargets(top)
	if err == nil {
		err = all.signedBy(by.roles[roleTargets])
	}
	if err != nil {
		return fmt.Errorf("verify the targets: %w", err)
	}
	d, err := all.delegation(t.role, t.path)
	if err != nil {
		return fmt.Errorf("verify the targets: %w", err)
	}
	own, err := readTargets(delegated)
	if err == nil {
		err = own.signedBy(d.role)
	}
	if err != nil {
		return fmt.Errorf("verify the targets of %s: %w", t.role, err)
	}
	is, there := own.targets[t.path]
	if !there {
		return fmt.Errorf("verify the targets of %s: there is no %s", t.role, t.path)
	}
	if len(target) > MaxTargetBytes {
		return fmt.Errorf("verify %s: it has %d bytes; the maximum is %d", t.path, len(target), MaxTargetBytes)
	}
	if err := is.check(target); err != nil {
		return fmt.Errorf("verify %s: %w", t.path, err)
	}
	t.under, t.targets, t.delegated, t.target = by, all, own, target
	return nil
}

// delegation returns the only role that may have the target at path, which must be the named one.
func (t *targets) delegation(name, path string) (*delegation, error) {
	if _, there := t.targets[path]; there {
		return nil, fmt.Errorf("%s is a target of the top level, not of %s", path, name)
	}
	var found *delegation
	for i := range t.delegations {
		d := &t.delegations[i]
		switch {
		case !d.covers(path):
		case d.name != name:
			return nil, fmt.Errorf("%s is delegated to %s, not to %s alone", path, d.name, name)
		default:
			found = d
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%s is not delegated to %s", path, name)
	}
	return found, nil
}
