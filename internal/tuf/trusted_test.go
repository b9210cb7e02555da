package tuf

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

const (
	group = "dev"
	place = "dev/bundle.json"
	day   = 24 * time.Hour
)

// keyOf returns the key of this name.
func keyOf(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func keysOf(names ...string) []crypto.Signer {
	var all []crypto.Signer
	for _, name := range names {
		all = append(all, keyOf(name))
	}
	return all
}

func signers(threshold int, names ...string) Signers {
	s := Signers{Threshold: threshold}
	for _, name := range names {
		s.Keys = append(s.Keys, keyOf(name).Public().(ed25519.PublicKey))
	}
	return s
}

var theRoles = Roles{
	Root: signers(2, "root a", "root b", "root c"), Timestamp: signers(1, "timestamp"), Snapshot: signers(1, "snapshot"), Targets: signers(1, "targets"),
}

// fleet is a test fixture: what the administrators of a fleet have published.
type fleet struct {
	testing.TB
	Repository
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	f := &fleet{TB: t}
	f.must(f.AddRoot(theRoles, start.Add(365*day), keysOf("root a", "root c")...))
	f.must(f.Delegate([]Group{{Name: "dev", Paths: []string{"dev/*"}, Signers: signers(1, "dev")}, {Name: "ops", Paths: []string{"ops/*"}, Signers: signers(1, "ops")}},
		start.Add(90*day), keysOf("targets")...))
	f.must(f.Publish("ops", map[string][]byte{"ops/bundle.json": []byte("ops 1")}, start.Add(90*day), keysOf("ops")...))
	f.publish("dev 1")
	return f
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// publish publishes a bundle of the group dev.
func (f *fleet) publish(content string) {
	f.Helper()
	f.must(f.Publish(group, map[string][]byte{place: []byte(content)}, start.Add(90*day), keysOf("dev")...))
	f.seal()
}

func (f *fleet) seal() {
	f.Helper()
	f.must(f.Collect(start.Add(30*day), keysOf("snapshot")...))
	f.must(f.Confirm(start.Add(7*day), keysOf("timestamp")...))
}

func (f *fleet) begin() *Trusted {
	f.Helper()
	t, err := Begin(f.Roots[0], sha256.Sum256(f.Roots[0]), group, place)
	f.must(err)
	return t
}

// update is the update for a client that has the first root.
func (f *fleet) update() Update { return f.Update(group, place, 1) }

// take makes a client verify what is published now.
func (f *fleet) take(t *Trusted) *Trusted {
	f.Helper()
	next, err := t.Update(f.Update(group, place, t.RootVersion()), start)
	f.must(err)
	return next
}

// resigned returns metadata after a change of what is signed, signed again by keys.
func resigned(t testing.TB, raw []byte, change func(signed map[string]any), keys ...string) []byte {
	t.Helper()
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	change(m["signed"].(map[string]any))
	m["signatures"] = []any{}
	next, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range keys {
		if next, err = Sign(next, keyOf(name)); err != nil {
			t.Fatal(err)
		}
	}
	return next
}

func set(name string, value any) func(map[string]any) {
	return func(signed map[string]any) { signed[name] = value }
}

func TestUpdate(t *testing.T) {
	f := newFleet(t)
	c := f.begin()
	if c.Target() != nil || c.Version() != 0 || c.TimestampVersion() != 0 || c.RootVersion() != 1 {
		t.Fatalf("before anything: %q, %d, %d, %d", c.Target(), c.Version(), c.TimestampVersion(), c.RootVersion())
	}
	c = f.take(c)
	if string(c.Target()) != "dev 1" || c.Version() != 1 || c.TimestampVersion() != 1 {
		t.Fatalf("got %q, %d, %d", c.Target(), c.Version(), c.TimestampVersion())
	}
	f.publish("dev 2")
	second := f.take(c)
	if string(second.Target()) != "dev 2" || second.Version() != 2 || string(c.Target()) != "dev 1" {
		t.Fatalf("got %q of version %d; the one before has become %q", second.Target(), second.Version(), c.Target())
	}
	// Only a timestamp, as between two publications.
	f.must(f.Confirm(start.Add(10*day), keysOf("timestamp")...))
	third, err := second.Update(Update{Timestamp: f.Timestamp}, start.Add(8*day))
	if err != nil || third.TimestampVersion() != 3 || string(third.Target()) != "dev 2" {
		t.Fatalf("a timestamp alone: %v, %d, %q", err, third.TimestampVersion(), third.Target())
	}
}

func TestBeginWantsTheRootOfTheToken(t *testing.T) {
	f, other := newFleet(t), newFleet(t)
	other.Roots = nil
	other.must(other.AddRoot(theRoles, start.Add(9*day), keysOf("root a", "root b")...))
	if _, err := Begin(other.Roots[0], sha256.Sum256(f.Roots[0]), group, place); err == nil {
		t.Error("another root was accepted")
	}
	unsigned := newFleet(t)
	unsigned.Roots = nil
	unsigned.must(unsigned.AddRoot(theRoles, start.Add(9*day), keysOf("root a")...))
	if _, err := Begin(unsigned.Roots[0], sha256.Sum256(unsigned.Roots[0]), group, place); err == nil {
		t.Error("a root with one of two signatures was accepted")
	}
}

// An engine can keep, mix and invent what it carries. Nothing of that changes the target.
func TestLies(t *testing.T) {
	tests := []struct {
		name string
		lie  func(f *fleet, u *Update)
		want string
	}{
		{"old timestamp", func(f *fleet, u *Update) { f.publish("dev 3") }, ""}, // the control: it is taken
		{"bundle of another", func(f *fleet, u *Update) { u.Target = []byte("dev X") }, "SHA-256"},
		{"bundle cut off", func(f *fleet, u *Update) { u.Target = u.Target[:3] }, "bytes"},
		{"bundle too large", func(f *fleet, u *Update) { u.Target = make([]byte, MaxTargetBytes+1) }, "maximum"},
		{"old bundle", func(f *fleet, u *Update) { u.Target = []byte("dev 1") }, "SHA-256"},
		{"targets of another group", func(f *fleet, u *Update) { u.Delegated, u.Target = f.Groups["ops"], f.Files["ops"]["ops/bundle.json"] }, "0 of its keys"},
		{"top level for the group", func(f *fleet, u *Update) { u.Delegated = u.Targets }, "0 of its keys"},
		{"snapshot for the timestamp", func(f *fleet, u *Update) { u.Timestamp = u.Snapshot }, "of the type"},
		{"timestamp for the snapshot", func(f *fleet, u *Update) { u.Snapshot = u.Timestamp }, "bytes"},
		{"no timestamp signature", func(f *fleet, u *Update) { u.Timestamp = resigned(f, u.Timestamp, set("version", 9)) }, "0 of its keys"},
		{"timestamp by another key", func(f *fleet, u *Update) {
			u.Timestamp = resigned(f, u.Timestamp, set("version", 9), "snapshot", "targets", "dev")
		}, "0 of its keys"},
		{"expired timestamp", func(f *fleet, u *Update) {
			u.Timestamp = resigned(f, u.Timestamp, set("expires", start.Format(timeForm)), "timestamp")
		}, "expired"},
		{"expired snapshot", func(f *fleet, u *Update) { f.reseal(u, set("expires", start.Format(timeForm))) }, "expired"},
		{"snapshot of a higher version", func(f *fleet, u *Update) {
			u.Snapshot = resigned(f, u.Snapshot, set("version", 9), "snapshot")
			u.Timestamp = confirming(f, u.Timestamp, u.Snapshot, 2)
		}, "the timestamp names"},
		{"snapshot without a group", func(f *fleet, u *Update) {
			f.reseal(u, func(s map[string]any) { delete(s["meta"].(map[string]any), "ops.json") })
		}, "no longer names ops"},
		{"expired targets", func(f *fleet, u *Update) {
			u.Delegated = resigned(f, u.Delegated, set("expires", start.Format(timeForm)), "dev")
			f.reseal(u, named("dev.json", u.Delegated))
		}, "expired"},
		{"targets that the snapshot does not name", func(f *fleet, u *Update) {
			u.Delegated = resigned(f, u.Delegated, set("version", 7), "dev")
		}, "the snapshot names version"},
		{"group's key for another path", func(f *fleet, u *Update) {
			u.Delegated = resigned(f, u.Delegated, set("targets", map[string]any{"ops/bundle.json": describe(u.Target)}), "dev")
			f.reseal(u, named("dev.json", u.Delegated))
		}, "there is no dev/bundle.json"},
		{"root by one of two", func(f *fleet, u *Update) { u.Roots = [][]byte{f.next(theRoles, "root a")} }, "1 of its keys"},
		{"root by the new keys only", func(f *fleet, u *Update) {
			roles := theRoles
			roles.Root = signers(2, "thief a", "thief b")
			u.Roots = [][]byte{f.next(roles, "thief a", "thief b")}
		}, "by the root before"},
		{"root by the old keys only", func(f *fleet, u *Update) {
			roles := theRoles
			roles.Root = signers(2, "new a", "new b")
			u.Roots = [][]byte{f.next(roles, "root a", "root b")}
		}, "0 of its keys"},
		{"root that skips a version", func(f *fleet, u *Update) {
			u.Roots = [][]byte{resigned(f, f.Roots[0], set("version", 3), "root a", "root b")}
		}, "version 2 comes next"},
		{"other root of the same version", func(f *fleet, u *Update) {
			u.Roots = [][]byte{resigned(f, f.Roots[0], set("expires", start.Format(timeForm)), "root a", "root b")}
		}, "version 2 comes next"},
		{"expired root", func(f *fleet, u *Update) {
			u.Roots = [][]byte{resigned(f, f.Roots[0], func(s map[string]any) { s["version"], s["expires"] = 2, start.Format(timeForm) }, "root a", "root b")}
		}, "expired"},
		{"too many roots", func(f *fleet, u *Update) { u.Roots = make([][]byte, maxRoots+1) }, "maximum"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t)
			c := f.take(f.begin())
			f.must(f.Delegate([]Group{{Name: "dev", Paths: []string{"dev/*"}, Signers: signers(1, "dev")}, {Name: "ops", Paths: []string{"ops/*"}, Signers: signers(1, "ops")}},
				start.Add(90*day), keysOf("targets")...))
			f.publish("dev 2")
			u := f.update()
			tt.lie(f, &u)
			next, err := c.Update(u, start)
			if tt.want == "" {
				if err != nil || string(next.Target()) != "dev 2" {
					t.Fatalf("%v, %q", err, next.Target())
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got the error %v, want one with %q", err, tt.want)
			}
			if string(next.Target()) != "dev 1" || next.Version() != 1 {
				t.Errorf("the target has become %q of version %d", next.Target(), next.Version())
			}
			if again, err := Load(next.Stored(), sha256.Sum256(f.Roots[0]), group, place); err != nil || string(again.Target()) != "dev 1" {
				t.Errorf("what is kept after it is not usable: %v", err)
			}
		})
	}
}

// next returns the next root, with signatures by the named keys.
func (f *fleet) next(roles Roles, by ...string) []byte {
	f.Helper()
	r := Repository{Roots: f.Roots}
	f.must(r.AddRoot(roles, start.Add(365*day), keysOf(by...)...))
	return r.Roots[len(r.Roots)-1]
}

// reseal changes the snapshot of u, and has a timestamp name it.
func (f *fleet) reseal(u *Update, change func(map[string]any)) {
	f.Helper()
	u.Snapshot = resigned(f, u.Snapshot, change, "snapshot")
	s, err := readSnapshot(u.Snapshot)
	f.must(err)
	u.Timestamp = confirming(f, u.Timestamp, u.Snapshot, s.version)
}

func confirming(t testing.TB, timestamp, snapshot []byte, version uint64) []byte {
	value := describe(snapshot)
	value["version"] = version
	return resigned(t, timestamp, set("meta", map[string]any{"snapshot.json": value}), "timestamp")
}

// named has a snapshot name metadata of the role in the file.
func named(file string, raw []byte) func(map[string]any) {
	return func(s map[string]any) {
		value := describe(raw)
		value["version"] = 2
		s["meta"].(map[string]any)[file] = value
	}
}

func TestRollback(t *testing.T) {
	f := newFleet(t)
	old := f.update()
	c := f.take(f.begin())
	f.publish("dev 2")
	c = f.take(c)
	if next, err := c.Update(old, start); err == nil || string(next.Target()) != "dev 2" {
		t.Errorf("the whole old publication: %v, %q", err, next.Target())
	}
	// The same targets in a newer snapshot and newer timestamps, of which an older one comes again.
	second := f.update()
	f.seal()
	third := f.update()
	f.must(f.Confirm(start.Add(7*day), keysOf("timestamp")...))
	c = f.take(c)
	third.Timestamp = resigned(t, third.Timestamp, set("expires", start.Add(8*day).Format(timeForm)), "timestamp")
	if next, err := c.Update(third, start); err == nil || next.TimestampVersion() != 4 {
		t.Errorf("an old timestamp: %v, %d", err, next.TimestampVersion())
	}
	second.Timestamp = resigned(t, second.Timestamp, set("version", 9), "timestamp")
	if next, err := c.Update(second, start); err == nil || next.TimestampVersion() != 4 {
		t.Errorf("a new timestamp of an old snapshot: %v, %d", err, next.TimestampVersion())
	}
	// A newer snapshot of the old targets, as a thief of its key and the timestamp's can make it.
	mixed := f.update()
	f.reseal(&mixed, func(s map[string]any) {
		s["version"], s["meta"].(map[string]any)["dev.json"] = 9, map[string]any{"version": 1}
	})
	mixed.Timestamp = resigned(t, mixed.Timestamp, set("version", 9), "timestamp")
	mixed.Delegated, mixed.Target = old.Delegated, old.Target
	if next, err := c.Update(mixed, start); err == nil || !strings.Contains(err.Error(), "of dev") || string(next.Target()) != "dev 2" {
		t.Errorf("old targets in a new snapshot: %v, %q", err, next.Target())
	}
	// A newer timestamp for the old snapshot, as a thief of the timestamp's key can make it.
	old.Timestamp = resigned(t, old.Timestamp, set("version", 9), "timestamp")
	if next, err := c.Update(old, start); err == nil || string(next.Target()) != "dev 2" {
		t.Errorf("an old snapshot with a new timestamp: %v, %q", err, next.Target())
	}
}

// A timestamp that was verified forbids older ones, even if what it names did not come along.
func TestVersionsAreKeptAfterFailure(t *testing.T) {
	f := newFleet(t)
	c := f.take(f.begin())
	f.publish("dev 2")
	second := f.update()
	f.publish("dev 3")
	third := f.update()
	third.Snapshot = []byte("{}")
	c, err := c.Update(third, start)
	if err == nil || string(c.Target()) != "dev 1" || c.TimestampVersion() != 3 {
		t.Fatalf("%v, %q, %d", err, c.Target(), c.TimestampVersion())
	}
	if next, err := c.Update(second, start); err == nil || string(next.Target()) != "dev 1" {
		t.Errorf("the second publication was taken after the third timestamp: %v, %q", err, next.Target())
	}
	if string(f.take(c).Target()) != "dev 3" {
		t.Error("the whole third publication is not taken")
	}
}

// Two publications with one version are a lie of the timestamp's owner.
func TestTwoOfOneVersion(t *testing.T) {
	f := newFleet(t)
	c := f.take(f.begin())
	u := f.update()
	u.Timestamp = resigned(t, u.Timestamp, set("expires", start.Add(6*day).Format(timeForm)), "timestamp")
	if _, err := c.Update(u, start); err == nil || !strings.Contains(err.Error(), "two of the version") {
		t.Errorf("got %v", err)
	}
	u = f.update() // the same again is none
	if _, err := c.Update(u, start); err != nil {
		t.Error(err)
	}
}

func TestRotation(t *testing.T) {
	f := newFleet(t)
	c := f.take(f.begin())
	roles := theRoles
	roles.Root = signers(2, "root a", "root d", "root e")
	f.must(f.AddRoot(roles, start.Add(400*day), keysOf("root a", "root b", "root d")...))
	roles.Root = signers(1, "root e")
	f.must(f.AddRoot(roles, start.Add(500*day), keysOf("root d", "root e")...))
	f.publish("dev 2")
	c = f.take(c)
	if c.RootVersion() != 3 || string(c.Target()) != "dev 2" || c.TimestampVersion() != 2 {
		t.Errorf("root %d, %q, timestamp %d", c.RootVersion(), c.Target(), c.TimestampVersion())
	}
	// Whoever comes later takes all roots.
	if c := f.take(f.begin()); string(c.Target()) != "dev 2" {
		t.Errorf("got %q", c.Target())
	}
	// Roots that are known may come again.
	if _, err := c.Update(f.Update(group, place, 0), start); err != nil {
		t.Error(err)
	}
}

// A thief of a key has raised versions. The owner replaces the key, and starts at version 1.
func TestFastForward(t *testing.T) {
	for _, stolen := range []string{"timestamp", "snapshot"} {
		t.Run(stolen, func(t *testing.T) {
			f := newFleet(t)
			c := f.take(f.begin())
			u := f.update()
			if stolen == "snapshot" {
				u.Snapshot = resigned(t, u.Snapshot, set("version", maxVersion-1), "snapshot")
				u.Timestamp = confirming(t, resigned(t, u.Timestamp, set("version", 2), "timestamp"), u.Snapshot, maxVersion-1)
			} else {
				u.Timestamp = resigned(t, u.Timestamp, set("version", maxVersion-1), "timestamp")
			}
			c, err := c.Update(u, start)
			f.must(err)
			roles := theRoles
			if stolen == "snapshot" {
				roles.Snapshot = signers(1, "new")
			} else {
				roles.Timestamp = signers(1, "new")
			}
			f.must(f.AddRoot(roles, start.Add(400*day), keysOf("root a", "root b")...))
			f.must(f.Publish(group, map[string][]byte{place: []byte("dev 2")}, start.Add(90*day), keysOf("dev")...))
			by := map[string]string{"timestamp": "timestamp", "snapshot": "snapshot", stolen: "new"}
			f.must(f.Collect(start.Add(30*day), keysOf(by["snapshot"])...))
			f.must(f.Confirm(start.Add(7*day), keysOf(by["timestamp"])...))
			// The new root alone takes nothing away, also over a restart.
			c, err = c.Update(Update{Roots: f.Roots[1:]}, start)
			if err == nil || c.RootVersion() != 2 || string(c.Target()) != "dev 1" {
				t.Fatalf("%v, root %d, %q", err, c.RootVersion(), c.Target())
			}
			if c, err = Load(c.Stored(), sha256.Sum256(f.Roots[0]), group, place); err != nil {
				t.Fatal(err)
			}
			if c = f.take(c); string(c.Target()) != "dev 2" || c.TimestampVersion() != 2 {
				t.Errorf("got %q, timestamp %d", c.Target(), c.TimestampVersion())
			}
		})
	}
}

// What was in force stays so when a root revokes the keys by which it was verified, until
// something is published with the new ones.
func TestRevokedKeysOfTargets(t *testing.T) {
	f := newFleet(t)
	c := f.take(f.begin())
	roles := theRoles
	roles.Targets = signers(1, "new targets")
	f.must(f.AddRoot(roles, start.Add(400*day), keysOf("root a", "root b")...))
	c, err := c.Update(f.Update(group, place, 1), start)
	if err == nil || string(c.Target()) != "dev 1" {
		t.Fatalf("%v, %q", err, c.Target())
	}
	if c, err = Load(c.Stored(), sha256.Sum256(f.Roots[0]), group, place); err != nil || string(c.Target()) != "dev 1" {
		t.Fatalf("after a restart: %v", err)
	}
	f.must(f.Delegate([]Group{{Name: "dev", Paths: []string{"dev/*"}, Signers: signers(1, "dev")}}, start.Add(90*day), keysOf("new targets")...))
	f.publish("dev 2")
	if c = f.take(c); string(c.Target()) != "dev 2" {
		t.Errorf("got %q", c.Target())
	}
}

func TestDelegations(t *testing.T) {
	ours := Group{Name: "dev", Paths: []string{"dev/*"}, Signers: signers(1, "dev")}
	tests := []struct {
		name   string
		groups []Group
		want   string
	}{
		{"exact path", []Group{{Name: "dev", Paths: []string{place}, Signers: signers(1, "dev")}}, ""},
		{"two of three", []Group{{Name: "dev", Paths: []string{"dev/*"}, Signers: signers(2, "dev", "dev b", "dev c")}}, "1 of its keys"},
		{"another path", []Group{{Name: "dev", Paths: []string{"dev2/*", "dev/x/*", "d*"}, Signers: signers(1, "dev")}}, "not delegated"},
		{"no delegation", []Group{{Name: "ops", Paths: []string{"ops/*"}, Signers: signers(1, "dev")}}, "not delegated"},
		{"another group as well", []Group{ours, {Name: "ops", Paths: []string{"dev/bundle*"}, Signers: signers(1, "ops")}}, "delegated to ops"},
		{"another group first", []Group{{Name: "ops", Paths: []string{"dev/*"}, Signers: signers(1, "ops")}, ours}, "delegated to ops"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleet(t)
			f.must(f.Delegate(tt.groups, start.Add(90*day), keysOf("targets")...))
			f.publish("dev 2")
			next, err := f.begin().Update(f.update(), start)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || next.Target() != nil) {
				t.Errorf("%v, %q", err, next.Target())
			}
		})
	}
}

// A target of the top level has precedence for other clients, so that there would be two.
func TestTargetOfTheTopLevel(t *testing.T) {
	f := newFleet(t)
	f.Targets = resigned(t, f.Targets, set("targets", map[string]any{place: describe([]byte("dev 1"))}), "targets")
	f.seal()
	if _, err := f.begin().Update(f.update(), start); err == nil || !strings.Contains(err.Error(), "of the top level") {
		t.Errorf("got %v", err)
	}
}

// Load believes nothing that it reads.
func TestLoadVerifiesAgain(t *testing.T) {
	f := newFleet(t)
	c := f.take(f.begin())
	f.must(f.AddRoot(theRoles, start.Add(400*day), keysOf("root a", "root b")...))
	f.publish("dev 2")
	c = f.take(c)
	digest := sha256.Sum256(f.Roots[0])
	if again, err := Load(c.Stored(), digest, group, place); err != nil || string(again.Target()) != "dev 2" || again.TimestampVersion() != 2 {
		t.Fatalf("%v", err)
	}
	for name, change := range map[string]func(*Stored){
		"no root":           func(s *Stored) { s.Roots = nil },
		"another root":      func(s *Stored) { s.Roots = s.Roots[1:] },
		"roots changed":     func(s *Stored) { s.Roots[1] = flip(s.Roots[1]) },
		"timestamp changed": func(s *Stored) { s.Timestamp = flip(s.Timestamp) },
		"snapshot changed":  func(s *Stored) { s.Snapshot = flip(s.Snapshot) },
		"targets changed":   func(s *Stored) { s.Targets = flip(s.Targets) },
		"group changed":     func(s *Stored) { s.Delegated = flip(s.Delegated) },
		"target changed":    func(s *Stored) { s.Target = flip(s.Target) },
		"another under":     func(s *Stored) { s.Under = 3 },
	} {
		s := c.Stored()
		s.Roots = slices.Clone(s.Roots)
		change(&s)
		if _, err := Load(s, digest, group, place); err == nil {
			t.Errorf("%s: it was loaded", name)
		}
	}
	if _, err := Load(c.Stored(), digest, "ops", "ops/bundle.json"); err == nil {
		t.Error("it was loaded for another group")
	}
}

// flip returns raw with a bit changed in the middle.
func flip(raw []byte) []byte {
	raw = bytes.Clone(raw)
	raw[len(raw)/2] ^= 1
	return raw
}

// Each of these is signed by the right key and refused all the same.
func TestStrictReading(t *testing.T) {
	f := newFleet(t)
	replace := func(raw []byte, old, new string) []byte {
		t.Helper()
		if n := bytes.Count(raw, []byte(old)); n == 0 {
			t.Fatalf("there is no %s in %s", old, raw)
		}
		return bytes.Replace(raw, []byte(old), []byte(new), 1)
	}
	again := func(raw []byte) error { _, err := readTargets(raw); return err }
	root := func(raw []byte) error { _, err := readRoot(raw); return err }
	second := keyValue(keyOf("root b").Public().(ed25519.PublicKey))
	second["x"] = 1 // another id for the same key
	tests := []struct {
		name string
		err  error
	}{
		{"member twice", again(replace(f.Targets, `"version":1`, `"version":1,"version":2`))},
		{"member in another case", again(replace(f.Targets, `"version":1`, `"version":1,"Version":2`))},
		{"text behind", again(append(bytes.Clone(f.Targets), "{}"...))},
		{"version 0", again(replace(f.Targets, `"version":1`, `"version":0`))},
		{"version 1.0", again(replace(f.Targets, `"version":1`, `"version":1.0`))},
		{"version as text", again(replace(f.Targets, `"version":1`, `"version":"1"`))},
		{"large version", again(replace(f.Targets, `"version":1`, fmt.Sprintf(`"version":%d`, uint64(maxVersion)+1)))},
		{"no targets", again(replace(f.Targets, `"targets":{}`, `"x":{}`))},
		{"no version", again(replace(f.Targets, `,"version":1`, ``))},
		{"number with a fraction", again(replace(f.Targets, `"version":1`, `"version":1,"x":0.5`))},
		{"deep", again(replace(f.Targets, `"version":1`, `"version":1,"x":`+strings.Repeat("[", 20)+strings.Repeat("]", 20)))},
		{"time with a zone", again(replace(f.Targets, `:00Z"`, `:00+00:00"`))},
		{"time with a fraction", again(replace(f.Targets, `:00Z"`, `:00.5Z"`))},
		{"specification 2", again(replace(f.Targets, `"spec_version":"1.`, `"spec_version":"2.`))},
		{"upper-case signature", again(upper(f.Targets))},
		{"another key type", root(replace(f.Roots[0], `"keytype":"ed25519"`, `"keytype":"rsa"`))},
		{"id of another key", root(bytes.ReplaceAll(f.Roots[0], []byte(KeyID(keyOf("root a").Public().(ed25519.PublicKey))), bytes.Repeat([]byte("0"), 64)))},
		{"no consistent snapshots", root(replace(f.Roots[0], `"consistent_snapshot":true`, `"consistent_snapshot":false`))},
		{"threshold 0", root(replace(f.Roots[0], `"threshold":2`, `"threshold":0`))},
		{"threshold above the keys", root(replace(f.Roots[0], `"threshold":2`, `"threshold":4`))},
		{"hash bins", again(replace(f.Targets, `"paths":["dev/*"]`, `"path_hash_prefixes":["00"],"paths":["dev/*"]`))},
		{"succinct roles", again(replace(f.Targets, `"delegations":{`, `"delegations":{"succinct_roles":{},`))},
		{"parent folder", again(replace(f.Targets, `"dev/*"`, `"../*"`))},
		{"pattern", again(replace(f.Targets, `"dev/*"`, `"d?v/*"`))},
		{"role of the top level", again(replace(f.Targets, `"name":"dev"`, `"name":"targets"`))},
		{"role twice", again(replace(f.Targets, `"name":"dev"`, `"name":"ops"`))},
		{"too large", again(append(bytes.Clone(f.Targets), bytes.Repeat([]byte(" "), MaxTargetsBytes)...))},
		{"one key under two ids", root(resigned(t, f.Roots[0], func(s map[string]any) {
			body, _ := canonical(nil, write(second), maxDepth)
			sum := sha256.Sum256(body)
			s["keys"].(map[string]any)[fmt.Sprintf("%x", sum)] = second
		}, "root a"))},
		{"one key in two signatures", root(replace(f.Roots[0], `"signatures":[{`, `"signatures":[{"keyid":"`+KeyID(keyOf("root a").Public().(ed25519.PublicKey))+`","sig":""},{`))},
	}
	if err := again(f.Targets); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		if tt.err == nil {
			t.Errorf("%s: it was accepted", tt.name)
		}
	}
	if err := again(replace(f.Targets, `"version":1`, `"version":1,"x-our-own":{"a":[1,null,"é\u0000"]}`)); err != nil {
		t.Errorf("an unknown member: %v", err)
	}
}

// upper writes the signature in upper case.
func upper(raw []byte) []byte {
	at := bytes.Index(raw, []byte(`"sig":"`)) + len(`"sig":"`)
	return append(append(bytes.Clone(raw[:at]), bytes.ToUpper(raw[at:at+128])...), raw[at+128:]...)
}

// A person signs beside others, one after the other.
func TestSign(t *testing.T) {
	f := newFleet(t)
	f.Roots = nil
	f.must(f.AddRoot(theRoles, start.Add(day)))
	for range 2 { // the second signature by a key replaces the first
		var err error
		f.Roots[0], err = Sign(f.Roots[0], keyOf("root b"))
		f.must(err)
	}
	if _, err := Begin(f.Roots[0], sha256.Sum256(f.Roots[0]), group, place); err == nil {
		t.Error("one key has signed twice, and that is enough")
	}
	// What is signed may hold what the canonical form can't write as JSON.
	odd := resigned(t, f.Targets, set("x", "line\n\u0000"), "targets")
	m, err := readTargets(odd)
	f.must(err)
	f.must(m.signedBy(role{map[keyID]ed25519.PublicKey{keyID(KeyID(theRoles.Targets.Keys[0])): theRoles.Targets.Keys[0]}, 1}))
	signed, err := Sign(f.Roots[0], keyOf("root c"))
	f.must(err)
	if _, err := Begin(signed, sha256.Sum256(signed), group, place); err != nil {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	fleet := newFleet(f)
	client := fleet.begin()
	for _, raw := range [][]byte{fleet.Roots[0], fleet.Timestamp, fleet.Snapshot, fleet.Targets, fleet.Groups[group], []byte(`{"signed":{"x":[[]]}}`)} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, err := read(roleRoot, raw, MaxRootBytes); err == nil {
			checkCanonical(t, m.body)
		}
		_, _ = readRoot(raw)
		_, _ = readTimestamp(raw)
		_, _ = readSnapshot(raw)
		if m, err := readTargets(raw); err == nil {
			checkCanonical(t, m.body)
		}
		// Whatever it is, it is no publication of this fleet.
		u := fleet.Update(group, place, 1)
		for _, part := range []*[]byte{&u.Timestamp, &u.Snapshot, &u.Targets, &u.Delegated, &u.Target} {
			was := *part
			*part = raw
			if next, err := client.Update(u, start); err == nil && !bytes.Equal(next.Target(), []byte("dev 1")) {
				t.Fatalf("%q is taken", raw)
			}
			*part = was
		}
	})
}

// checkCanonical wants the canonical form to have one value, and to be its own canonical form
// where JSON can say so: it leaves control characters in texts as they are.
func checkCanonical(t *testing.T, body []byte) {
	if slices.ContainsFunc(body, func(b byte) bool { return b < ' ' }) {
		return
	}
	if again, err := canonical(nil, body, maxDepth); err != nil || !bytes.Equal(again, body) {
		t.Fatalf("the canonical form of %q is %q, %v", body, again, err)
	}
}
