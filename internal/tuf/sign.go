package tuf

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// Signers says who signs a role: at least Threshold of Keys.
type Signers struct {
	Keys      []ed25519.PublicKey
	Threshold int
}

// Roles says who signs the top-level roles.
type Roles struct {
	Root, Timestamp, Snapshot, Targets Signers
}

// Group is a group to whose keys targets are delegated.
type Group struct {
	Name  string
	Paths []string // of its targets; the last part may be *
	Signers
}

// Repository is the newest metadata of a fleet, as its administrators keep them. Its methods
// replace metadata by their next version, which a person signs by [Sign] or by the keys that are
// handed to the method.
type Repository struct {
	Roots     [][]byte // from the first one
	Timestamp []byte
	Snapshot  []byte
	Targets   []byte
	Groups    map[string][]byte            // targets, by group
	Files     map[string]map[string][]byte // content, by group and path
}

// Update returns what a client of a group that has a root of the version since needs.
func (r *Repository) Update(group, path string, since uint64) Update {
	u := Update{Timestamp: r.Timestamp, Snapshot: r.Snapshot, Targets: r.Targets, Delegated: r.Groups[group], Target: r.Files[group][path]}
	if since < uint64(len(r.Roots)) {
		u.Roots = r.Roots[since:]
	}
	return u
}

// AddRoot adds a root. Before a client accepts it, keys of the root before must sign it, too;
// [Sign] adds signatures to the last of Roots.
func (r *Repository) AddRoot(roles Roles, expires time.Time, keys ...crypto.Signer) error {
	table, by := map[keyID]any{}, map[string]any{}
	for name, s := range map[string]Signers{roleRoot: roles.Root, roleTimestamp: roles.Timestamp, roleSnapshot: roles.Snapshot, roleTargets: roles.Targets} {
		by[name] = s.value(table)
	}
	next, err := sign(roleRoot, uint64(len(r.Roots)), expires, map[string]any{"consistent_snapshot": true, "keys": table, "roles": by}, keys)
	if err != nil {
		return err
	}
	if _, err := readRoot(next); err != nil {
		return fmt.Errorf("write the root: %w", err)
	}
	r.Roots = append(r.Roots, next)
	return nil
}

// RenewRoot adds a root that says the same as the last one until expires. It fails unless enough keys
// of the last one sign it.
func (r *Repository) RenewRoot(expires time.Time, keys ...crypto.Signer) error {
	last, err := readRoot(r.Roots[len(r.Roots)-1])
	if err != nil {
		return fmt.Errorf("read the root before: %w", err)
	}
	o := rawjson.Read(last.raw)
	same := o.Object("signed")
	if err := o.Err(); err != nil {
		return fmt.Errorf("read the root before: %w", err)
	}
	next, err := sign(roleRoot, uint64(len(r.Roots)), expires, map[string]any{
		"consistent_snapshot": true, "keys": jsontext.Value(same.Get("keys")), "roles": jsontext.Value(same.Get("roles")),
	}, keys)
	if err != nil {
		return err
	}
	is, err := readRoot(next)
	if err == nil {
		err = is.signedBy(last.roles[roleRoot])
	}
	if err != nil {
		return fmt.Errorf("renew the root: %w", err)
	}
	r.Roots = append(r.Roots, next)
	return nil
}

// Delegate makes the targets of the top level: which groups there are, and who signs for them.
func (r *Repository) Delegate(groups []Group, expires time.Time, keys ...crypto.Signer) error {
	table, roles := map[keyID]any{}, []any{}
	for _, g := range groups {
		value := g.value(table)
		value["name"], value["paths"], value["terminating"] = g.Name, g.Paths, true
		roles = append(roles, value)
	}
	return r.replaceTargets(&r.Targets, map[string]any{
		"targets": struct{}{}, "delegations": map[string]any{"keys": table, "roles": roles},
	}, expires, keys)
}

// Publish makes the targets of a group.
func (r *Repository) Publish(group string, files map[string][]byte, expires time.Time, keys ...crypto.Signer) error {
	list := map[string]any{}
	for path, content := range files {
		list[path] = describe(content)
	}
	own := r.Groups[group]
	if err := r.replaceTargets(&own, map[string]any{"targets": list}, expires, keys); err != nil {
		return err
	}
	if r.Groups == nil {
		r.Groups, r.Files = map[string][]byte{}, map[string]map[string][]byte{}
	}
	r.Groups[group], r.Files[group] = own, files
	return nil
}

// RootExpires returns when the last root expires.
func (r *Repository) RootExpires() (time.Time, error) {
	is, err := readRoot(r.Roots[len(r.Roots)-1])
	if err != nil {
		return time.Time{}, fmt.Errorf("read the root: %w", err)
	}
	return is.expires, nil
}

// TargetsExpire returns when the targets of a group expire, or those of the top level if group is empty.
func (r *Repository) TargetsExpire(group string) (time.Time, error) {
	raw := r.Targets
	if group != "" {
		raw = r.Groups[group]
	}
	is, err := readTargets(raw)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the targets: %w", err)
	}
	return is.expires, nil
}

// replaceTargets replaces targets by their next version.
func (r *Repository) replaceTargets(at *[]byte, signed map[string]any, expires time.Time, keys []crypto.Signer) error {
	var before uint64
	if *at != nil {
		last, err := readTargets(*at)
		if err != nil {
			return fmt.Errorf("read the targets before: %w", err)
		}
		before = last.version
	}
	next, err := sign(roleTargets, before, expires, signed, keys)
	if err != nil {
		return err
	}
	if _, err := readTargets(next); err != nil {
		return fmt.Errorf("write the targets: %w", err)
	}
	*at = next
	return nil
}

// Collect makes a snapshot of all targets. It must be followed by Confirm.
func (r *Repository) Collect(expires time.Time, keys ...crypto.Signer) error {
	var before uint64
	meta := map[string]any{}
	if r.Snapshot != nil {
		last, err := readSnapshot(r.Snapshot)
		if err != nil {
			return fmt.Errorf("read the snapshot before: %w", err)
		}
		before = last.version
	}
	all := map[string][]byte{roleTargets: r.Targets}
	for group, own := range r.Groups {
		all[group] = own
	}
	for name, raw := range all {
		is, err := readTargets(raw)
		if err != nil {
			return fmt.Errorf("read the targets of %s: %w", name, err)
		}
		value := describe(raw)
		value["version"] = is.version
		meta[name+".json"] = value
	}
	next, err := sign(roleSnapshot, before, expires, map[string]any{"meta": meta}, keys)
	if err == nil {
		r.Snapshot = next
	}
	return err
}

// Confirm makes a timestamp, by which clients know that the snapshot is the newest one.
func (r *Repository) Confirm(expires time.Time, keys ...crypto.Signer) error {
	is, err := readSnapshot(r.Snapshot)
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	var before uint64
	if r.Timestamp != nil {
		last, err := readTimestamp(r.Timestamp)
		if err != nil {
			return fmt.Errorf("read the timestamp before: %w", err)
		}
		before = last.version
	}
	value := describe(r.Snapshot)
	value["version"] = is.version
	next, err := sign(roleTimestamp, before, expires, map[string]any{"meta": map[string]any{"snapshot.json": value}}, keys)
	if err == nil {
		r.Timestamp = next
	}
	return err
}

// KeyID returns the id of a key in metadata.
func KeyID(public ed25519.PublicKey) string {
	body, err := canonical(nil, write(keyValue(public)), maxDepth)
	if err != nil {
		panic("tuf: write a key: " + err.Error())
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

func keyValue(public ed25519.PublicKey) map[string]any {
	return map[string]any{"keytype": "ed25519", "scheme": "ed25519", "keyval": map[string]any{"public": hex.EncodeToString(public)}}
}

// value returns the JSON value of a role, and adds its keys to table.
func (s Signers) value(table map[keyID]any) map[string]any {
	ids := []string{}
	for _, key := range s.Keys {
		ids = append(ids, KeyID(key))
		table[keyID(KeyID(key))] = keyValue(key)
	}
	return map[string]any{"keyids": ids, "threshold": s.Threshold}
}

// describe returns the JSON value that describes content.
func describe(content []byte) map[string]any {
	sum := sha256.Sum256(content)
	return map[string]any{"length": len(content), "hashes": map[string]any{"sha256": hex.EncodeToString(sum[:])}}
}

// write returns a value as JSON. It is not in canonical form, which is not always JSON.
func write(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic("tuf: write what this package has built: " + err.Error())
	}
	return raw
}

// sign returns metadata of the version after before, with a signature by each key.
func sign(kind string, before uint64, expires time.Time, signed map[string]any, keys []crypto.Signer) ([]byte, error) {
	signed["_type"], signed["spec_version"] = kind, specVersion
	signed["version"], signed["expires"] = before+1, expires.UTC().Format(timeForm)
	next := write(map[string]any{"signatures": []any{}, "signed": signed})
	for _, key := range keys {
		var err error
		if next, err = Sign(next, key); err != nil {
			return nil, err
		}
	}
	return next, nil
}

// Sign returns metadata with a signature by key, which must be an ed25519 key. It replaces an
// earlier one by the same key.
func Sign(metadata []byte, key crypto.Signer) ([]byte, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("sign metadata: the key is not an ed25519 key")
	}
	o := rawjson.Read(metadata)
	signed, signatures := o.Object("signed"), readSignatures(o)
	if err := o.Err(); err != nil {
		return nil, fmt.Errorf("sign metadata: %w", err)
	}
	body, err := canonical(nil, signed.Raw, maxDepth)
	if err != nil {
		return nil, fmt.Errorf("sign metadata: %w", err)
	}
	sig, err := key.Sign(nil, body, crypto.Hash(0))
	if err != nil {
		return nil, fmt.Errorf("sign metadata: %w", err)
	}
	id := keyID(KeyID(public))
	signatures = slices.DeleteFunc(signatures, func(s signature) bool { return s.key == id })
	all := []any{}
	for _, s := range append(signatures, signature{id, sig}) {
		all = append(all, map[string]any{"keyid": s.key, "sig": hex.EncodeToString(s.sig)})
	}
	return write(map[string]any{"signatures": all, "signed": jsontext.Value(signed.Raw)}), nil
}
