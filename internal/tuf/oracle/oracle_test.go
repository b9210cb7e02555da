// Package oracle compares package tuf with go-tuf, which is another implementation of the same
// specification. It is a module of its own, so that ThoughtGate does not depend on go-tuf.
//
// go-tuf reads JSON less strictly and knows more of the specification, so package tuf may refuse
// what go-tuf accepts, for the reasons in stricter. What go-tuf refuses it must refuse, too.
package oracle

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"
	"github.com/theupdateframework/go-tuf/v2/metadata/trustedmetadata"

	"github.com/thoughtgate/thoughtgated/internal/tuf"
)

const day = 24 * time.Hour

var cases = flag.Int("cases", 100, "how many publications are changed at random; a tenth as many are published")

var now = time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)

func keyOf(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func public(name string) ed25519.PublicKey { return keyOf(name).Public().(ed25519.PublicKey) }

// role is who signs, and how many must.
type role struct {
	keys      []string
	threshold int
}

func (r role) signers() tuf.Signers {
	s := tuf.Signers{Threshold: r.threshold}
	for _, name := range r.keys {
		s.Keys = append(s.Keys, public(name))
	}
	return s
}

func (r role) crypto() []crypto.Signer {
	var all []crypto.Signer
	for _, name := range r.keys[:r.threshold] {
		all = append(all, keyOf(name))
	}
	return all
}

// plan is what a publication says: it is published by both implementations.
type plan struct {
	roots    []map[string]role // by name of the role, for each version of the root
	groups   map[string]role
	bundles  []map[string]string // content by group, for each version of what is below the root
	lifetime time.Duration
}

func randomRole(r *rand.Rand, name string) role {
	n := 1 + r.IntN(3)
	one := role{threshold: 1 + r.IntN(n)}
	for i := range n {
		one.keys = append(one.keys, fmt.Sprintf("%s %d", name, i+r.IntN(2)*10))
	}
	return one
}

func randomPlan(r *rand.Rand) plan {
	p := plan{groups: map[string]role{}, lifetime: time.Duration(1+r.IntN(90)) * day}
	for range 1 + r.IntN(3) {
		roles := map[string]role{}
		for _, name := range metadata.TOP_LEVEL_ROLE_NAMES {
			roles[name] = randomRole(r, name)
			if name != metadata.ROOT && len(p.roots) > 0 && r.IntN(2) == 0 {
				roles[name] = p.roots[len(p.roots)-1][name]
			}
		}
		p.roots = append(p.roots, roles)
	}
	for _, name := range []string{"dev", "ops", "data-2"}[:1+r.IntN(3)] {
		p.groups[name] = randomRole(r, name)
	}
	for i := range 2 {
		of := map[string]string{}
		for name := range p.groups {
			of[name] = fmt.Sprintf("%s %d \"é\u2028\\ %d", name, i, r.Uint64())
		}
		p.bundles = append(p.bundles, of)
	}
	return p
}

// publication is the files of one state of a repository.
type publication struct {
	roots                                           [][]byte
	timestamp, snapshot, targets, delegated, target []byte
}

func (p publication) update(since int) tuf.Update {
	return tuf.Update{Roots: p.roots[since:], Timestamp: p.timestamp, Snapshot: p.snapshot, Targets: p.targets, Delegated: p.delegated, Target: p.target}
}

// ours publishes a plan by package tuf. The second publication has the roots after the first one.
func ours(t testing.TB, p plan) []publication {
	var all []publication
	for _, r := range repositories(t, p) {
		u := r.Update("dev", "dev/bundle.json", 0)
		all = append(all, publication{u.Roots, u.Timestamp, u.Snapshot, u.Targets, u.Delegated, u.Target})
	}
	return all
}

// repositories returns the states of a repository of package tuf that publishes a plan.
func repositories(t testing.TB, p plan) []tuf.Repository {
	var r tuf.Repository
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	root := func(i int) {
		roles := p.roots[i]
		keys := roles["root"].crypto()
		if i > 0 {
			keys = append(keys, p.roots[i-1]["root"].crypto()...)
		}
		must(r.AddRoot(tuf.Roles{Root: roles["root"].signers(), Timestamp: roles["timestamp"].signers(), Snapshot: roles["snapshot"].signers(), Targets: roles["targets"].signers()},
			now.Add(p.lifetime), keys...))
	}
	var all []tuf.Repository
	for i, of := range p.bundles {
		if i == 0 {
			root(0)
		} else {
			for j := range p.roots[1:] {
				root(j + 1)
			}
		}
		roles := p.roots[len(r.Roots)-1]
		var groups []tuf.Group
		for _, name := range slices.Sorted(maps.Keys(p.groups)) {
			groups = append(groups, tuf.Group{Name: name, Paths: []string{name + "/*"}, Signers: p.groups[name].signers()})
			must(r.Publish(name, map[string][]byte{name + "/bundle.json": []byte(of[name])}, now.Add(p.lifetime), p.groups[name].crypto()...))
		}
		must(r.Delegate(groups, now.Add(p.lifetime), roles["targets"].crypto()...))
		must(r.Collect(now.Add(p.lifetime), roles["snapshot"].crypto()...))
		must(r.Confirm(now.Add(p.lifetime), roles["timestamp"].crypto()...))
		state := r
		state.Roots, state.Groups, state.Files = slices.Clone(r.Roots), maps.Clone(r.Groups), maps.Clone(r.Files)
		all = append(all, state)
	}
	return all
}

func key(t testing.TB, name string) *metadata.Key {
	k, err := metadata.KeyFromPublicKey(public(name))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// signed returns metadata with signatures by keys, as go-tuf writes them.
func signed[T metadata.Roles](t testing.TB, m *metadata.Metadata[T], by ...role) []byte {
	t.Helper()
	done := map[string]bool{}
	for _, r := range by {
		for _, name := range r.keys[:r.threshold] {
			if done[name] {
				continue
			}
			done[name] = true
			s, err := signature.LoadSigner(keyOf(name), crypto.Hash(0))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Sign(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	raw, err := m.ToBytes(false)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func metaOf(version int64, raw []byte) *metadata.MetaFiles {
	sum := sha256.Sum256(raw)
	return &metadata.MetaFiles{Version: version, Length: int64(len(raw)), Hashes: metadata.Hashes{"sha256": sum[:]}}
}

// theirs publishes a plan by go-tuf.
func theirs(t testing.TB, p plan) []publication {
	t.Helper()
	expires := now.Add(p.lifetime)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var roots [][]byte
	root := func(i int) {
		m := metadata.Root(expires)
		m.Signed.Version = int64(i + 1)
		for name, r := range p.roots[i] {
			for _, k := range r.keys {
				must(m.Signed.AddKey(key(t, k), name))
			}
			m.Signed.Roles[name].Threshold = r.threshold
		}
		by := []role{p.roots[i]["root"]}
		if i > 0 {
			by = append(by, p.roots[i-1]["root"])
		}
		roots = append(roots, signed(t, m, by...))
	}
	var all []publication
	for i, of := range p.bundles {
		if i == 0 {
			root(0)
		} else {
			for j := range p.roots[1:] {
				root(j + 1)
			}
		}
		roles := p.roots[len(roots)-1]
		version := int64(i + 1)
		top := metadata.Targets(expires)
		top.Signed.Version = version
		top.Signed.Delegations = &metadata.Delegations{Keys: map[string]*metadata.Key{}}
		snapshot := metadata.Snapshot(expires)
		snapshot.Signed.Version = version
		delegated := map[string][]byte{}
		for name, r := range p.groups {
			one := metadata.DelegatedRole{Name: name, Threshold: r.threshold, Terminating: true, Paths: []string{name + "/*"}}
			for _, k := range r.keys {
				k := key(t, k)
				id, err := k.ID()
				must(err)
				top.Signed.Delegations.Keys[id] = k
				one.KeyIDs = append(one.KeyIDs, id)
			}
			top.Signed.Delegations.Roles = append(top.Signed.Delegations.Roles, one)
			own := metadata.Targets(expires)
			own.Signed.Version = version
			file, err := (&metadata.TargetFiles{}).FromBytes(name+"/bundle.json", []byte(of[name]), "sha256")
			must(err)
			own.Signed.Targets[name+"/bundle.json"] = file
			delegated[name] = signed(t, own, r)
			snapshot.Signed.Meta[name+".json"] = metaOf(version, delegated[name])
		}
		targets := signed(t, top, roles["targets"])
		snapshot.Signed.Meta["targets.json"] = metaOf(version, targets)
		rawSnapshot := signed(t, snapshot, roles["snapshot"])
		timestamp := metadata.Timestamp(expires)
		timestamp.Signed.Version = version
		timestamp.Signed.Meta["snapshot.json"] = metaOf(version, rawSnapshot)
		all = append(all, publication{slices.Clone(roots), signed(t, timestamp, roles["timestamp"]), rawSnapshot, targets, delegated["dev"], []byte(of["dev"])})
	}
	return all
}

// byGoTUF lets go-tuf verify a publication, after one that it has verified before, as its updater
// does. It returns the target, or why it refuses.
func byGoTUF(before *publication, p publication, at time.Time) ([]byte, error) {
	first := p.roots[0]
	if before != nil {
		first = before.roots[0]
	}
	m, err := trustedmetadata.New(first)
	if err != nil {
		return nil, err
	}
	m.RefTime = at
	known := [][]byte{first}
	if before != nil {
		known = before.roots
	}
	for _, raw := range known[1:] {
		if _, err := m.UpdateRoot(raw); err != nil {
			return nil, err
		}
	}
	for _, raw := range p.roots {
		if slices.ContainsFunc(known, func(k []byte) bool { return bytes.Equal(k, raw) }) {
			continue
		}
		if _, err := m.UpdateRoot(raw); err != nil {
			return nil, err
		}
	}
	if before != nil { // an updater ignores what it can no longer use of what it has stored
		_, _ = m.UpdateTimestamp(before.timestamp)
	}
	var equal *metadata.ErrEqualVersionNumber
	if _, err := m.UpdateTimestamp(p.timestamp); err != nil && !errors.As(err, &equal) {
		return nil, err
	}
	if before != nil {
		_, _ = m.UpdateSnapshot(before.snapshot, true)
	}
	if _, err := m.UpdateSnapshot(p.snapshot, false); err != nil {
		return nil, err
	}
	top, err := m.UpdateTargets(p.targets)
	if err != nil {
		return nil, err
	}
	if top.Signed.Delegations == nil {
		return nil, errors.New("no delegations")
	}
	roles := top.Signed.Delegations.GetRolesForTarget("dev/bundle.json")
	if len(roles) == 0 || roles[0].Name != "dev" {
		return nil, errors.New("not delegated to dev")
	}
	own, err := m.UpdateDelegatedTargets(p.delegated, "dev", "targets")
	if err != nil {
		return nil, err
	}
	file, ok := own.Signed.Targets["dev/bundle.json"]
	if !ok {
		return nil, errors.New("no target")
	}
	return p.target, file.VerifyLengthHashes(p.target)
}

// byUs lets package tuf do the same.
func byUs(before *publication, p publication, at time.Time) ([]byte, error) {
	first := p.roots[0]
	if before != nil {
		first = before.roots[0]
	}
	t, err := tuf.Begin(first, sha256.Sum256(first), "dev", "dev/bundle.json")
	if err != nil {
		return nil, err
	}
	if before != nil {
		if t, err = t.Update(before.update(1), now); err != nil {
			return nil, fmt.Errorf("before: %w", err)
		}
		// As after a restart.
		if t, err = tuf.Load(t.Stored(), sha256.Sum256(first), "dev", "dev/bundle.json"); err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
	}
	u := p.update(0)
	if before == nil {
		u = p.update(1)
	}
	next, err := t.Update(u, at)
	if err != nil {
		return nil, err
	}
	return next.Target(), nil
}

func TestBothPublishBothAccept(t *testing.T) {
	metadata.SetLogger(metadata.DiscardLogger{})
	for seed := range uint64(*cases / 10) {
		p := randomPlan(rand.New(rand.NewPCG(seed, 1)))
		for by, all := range map[string][]publication{"ours": ours(t, p), "theirs": theirs(t, p)} {
			for i := range all {
				var before *publication
				if i > 0 {
					before = &all[i-1]
				}
				for who, verify := range map[string]func(*publication, publication, time.Time) ([]byte, error){"go-tuf": byGoTUF, "tuf": byUs} {
					got, err := verify(before, all[i], now)
					if err != nil || string(got) != p.bundles[i]["dev"] {
						t.Fatalf("seed %d, publication %d of %s: %s gets %q, %v", seed, i, by, who, got, err)
					}
				}
			}
		}
	}
}

// stricter are the reasons for which package tuf may refuse what go-tuf accepts.
var stricter = []string{
	"two spellings", "can be taken for", "duplicate object member", "invalid UTF-8", "surrogate", // JSON that readers disagree about
	"whole number", "number from 1", "levels of brackets",
	"is not a time as in", "spec_version", "lower-case hexadecimal", "bytes in lower-case", "missing or invalid",
	"not computed from it", "are the same", "is named twice", "consistent snapshots", "must sign", "has signed it twice",
	"not the name of metadata", "instead of one snapshot", "proper path", "does not read", "not the name of a role", "there are two of the version",
	"delegated to", "of the top level", "expired", "invalid character", "is not a string", "must be an array", "not a JSON object", "not an array", "SHA-256 differs",
}

// TestRefusals changes publications at random, partly with signatures by the right keys.
func TestRefusals(t *testing.T) {
	metadata.SetLogger(metadata.DiscardLogger{})
	var refused, accepted, strict int
	for seed := range uint64(*cases) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := randomPlan(rand.New(rand.NewPCG(seed/20, 3)))
		publish := ours
		if seed%2 == 0 {
			publish = theirs
		}
		all := publish(t, p)
		next, at := all[1], now
		what := change(t, r, p, all, &next, &at)
		want, theirErr := byGoTUF(&all[0], next, at)
		got, ourErr := byUs(&all[0], next, at)
		switch {
		case theirErr != nil && ourErr == nil:
			t.Errorf("seed %d, %s: go-tuf refuses it (%v), and package tuf accepts it", seed, what, theirErr)
		case theirErr != nil:
			refused++
		case ourErr == nil:
			accepted++
			if !bytes.Equal(got, want) {
				t.Errorf("seed %d, %s: go-tuf gets %q, package tuf gets %q", seed, what, want, got)
			}
		default:
			strict++
			if !slices.ContainsFunc(stricter, func(why string) bool { return strings.Contains(ourErr.Error(), why) }) {
				t.Errorf("seed %d, %s: go-tuf accepts it, and package tuf refuses it: %v", seed, what, ourErr)
			}
		}
	}
	t.Logf("%d refused by both, %d accepted by both, %d refused by package tuf alone", refused, accepted, strict)
	if refused < *cases/4 || accepted < *cases/50 {
		t.Error("the changes are too one-sided to show anything")
	}
}

// change changes a publication, and returns what it has done.
func change(t testing.TB, r *rand.Rand, p plan, all []publication, next *publication, at *time.Time) string {
	parts := map[string]*[]byte{"timestamp": &next.timestamp, "snapshot": &next.snapshot, "targets": &next.targets, "dev": &next.delegated}
	if len(next.roots) > 1 {
		next.roots = slices.Clone(next.roots)
		parts["root"] = &next.roots[len(next.roots)-1]
	}
	name := slices.Sorted(maps.Keys(parts))[r.IntN(len(parts))]
	part := parts[name]
	switch r.IntN(9) {
	case 0: // nothing, but time
		*at = now.Add(time.Duration(r.Int64N(int64(100 * day))))
		return "later"
	case 1: // an old part
		old := map[string][]byte{"timestamp": all[0].timestamp, "snapshot": all[0].snapshot, "targets": all[0].targets, "dev": all[0].delegated, "root": all[0].roots[0]}
		*part = old[name]
		return "old " + name
	case 2: // a byte
		raw := bytes.Clone(*part)
		raw[r.IntN(len(raw))] ^= byte(1 << r.IntN(8))
		*part = raw
		return "byte of " + name
	case 3: // cut off
		*part = (*part)[:r.IntN(len(*part))]
		return "cut " + name
	case 4: // another part
		other := slices.Sorted(maps.Keys(parts))[r.IntN(len(parts))]
		*part = *parts[other]
		return other + " for " + name
	case 5: // all is old
		*next = all[0]
		return "all is old"
	case 6:
		next.target = append(bytes.Clone(next.target), 'x')
		return "target"
	}
	what := alter(t, r, part)
	by := p.roots[len(next.roots)-1][name]
	if name == "dev" {
		by = p.groups["dev"]
	}
	switch r.IntN(4) {
	case 0:
		return what + " of " + name + ", not signed"
	case 1:
		by.threshold--
	}
	resign(t, part, by)
	if name == "root" {
		resignMore(t, part, p.roots[len(next.roots)-2]["root"])
	}
	// What names it names it as it is, mostly.
	if r.IntN(4) > 0 && name != "root" {
		renew(t, p, next, name)
	}
	return what + " of " + name + ", signed"
}

// decoded returns metadata as Go values.
func decoded(t testing.TB, raw []byte) map[string]any {
	t.Helper()
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// alter changes a member of what is signed.
func alter(t testing.TB, r *rand.Rand, part *[]byte) string {
	m := decoded(t, *part)
	s := m["signed"].(map[string]any)
	names := slices.Sorted(maps.Keys(s))
	name := names[r.IntN(len(names))]
	what := name
	switch r.IntN(4) {
	case 0:
		delete(s, name)
		what = "no " + name
	case 1:
		s["version"] = json.Number(fmt.Sprint(r.IntN(6)))
		what = "another version"
	case 2:
		s["expires"] = now.Add(time.Duration(r.Int64N(int64(20*day))) - 10*day).Truncate(time.Second).Format(time.RFC3339)
		what = "another expiry"
	case 3:
		s["x-unknown"] = []any{name, json.Number("7"), nil, true, map[string]any{"é\"\\\n": "<&>"}}
		what = "an unknown member"
	}
	*part = encoded(t, m)
	return what
}

func resign(t testing.TB, part *[]byte, by role) {
	m := decoded(t, *part)
	m["signatures"] = []any{}
	*part = encoded(t, m)
	resignMore(t, part, by)
}

func resignMore(t testing.TB, part *[]byte, by role) {
	t.Helper()
	for _, name := range by.keys[:by.threshold] {
		next, err := tuf.Sign(*part, keyOf(name))
		if err != nil {
			t.Fatal(err)
		}
		*part = next
	}
}

// renew has the metadata above the part called name describe it as it is now.
func renew(t testing.TB, p plan, next *publication, name string) {
	roles := p.roots[len(next.roots)-1]
	describe := func(part *[]byte, file string, of []byte, by role) {
		m := decoded(t, *part)
		is := decoded(t, of)["signed"].(map[string]any)
		sum := sha256.Sum256(of)
		m["signed"].(map[string]any)["meta"].(map[string]any)[file] = map[string]any{
			"version": is["version"], "length": len(of), "hashes": map[string]any{"sha256": fmt.Sprintf("%x", sum)},
		}
		*part = encoded(t, m)
		resign(t, part, by)
	}
	if name == "dev" || name == "targets" {
		of := map[string][]byte{"dev": next.delegated, "targets": next.targets}[name]
		describe(&next.snapshot, name+".json", of, roles["snapshot"])
	}
	if name != "timestamp" {
		describe(&next.timestamp, "snapshot.json", next.snapshot, roles["timestamp"])
	}
}
