package tuf

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// Sizes of what is read, in bytes. A role with much to say is the snapshot, which names every
// group.
const (
	MaxRootBytes      = 64 << 10
	MaxTimestampBytes = 16 << 10
	MaxSnapshotBytes  = 512 << 10
	MaxTargetsBytes   = 512 << 10
	MaxTargetBytes    = 1 << 20
)

const (
	maxKeys       = 128 // in one table, or of one role
	maxSignatures = 128
	maxPaths      = 64                  // of one delegation, or targets of one role
	maxGroups     = 4096                // delegations, and metadata that a snapshot names
	maxDepth      = 16                  // levels of brackets
	maxVersion    = 999_999_999_999_999 // what isWhole accepts
	maxName       = 128                 // of a role or a path
)

// Names of the top-level roles, which are the types of metadata as well.
const (
	roleRoot      = "root"
	roleTimestamp = "timestamp"
	roleSnapshot  = "snapshot"
	roleTargets   = "targets"
)

// specVersion is written into what is signed. Any version 1 is read.
const specVersion = "1.0.31"

// keyID identifies a key in metadata.
type keyID string

// role says who signs metadata.
type role struct {
	keys      map[keyID]ed25519.PublicKey
	threshold uint64
}

// equal reports whether the same keys, and as many of them, must sign.
func (r role) equal(other role) bool {
	if r.threshold != other.threshold || len(r.keys) != len(other.keys) {
		return false
	}
	for id := range r.keys { // an id is computed from its key
		if other.keys[id] == nil {
			return false
		}
	}
	return true
}

// signature is one signature of metadata.
type signature struct {
	key keyID
	sig []byte
}

// metadata is what all types have in common.
type metadata struct {
	raw        []byte
	signed     rawjson.Object
	body       []byte // what is signed: the canonical form of signed
	signatures []signature
	version    uint64
	expires    time.Time
}

// signedBy returns an error unless enough keys of r have signed m. A signature by another key,
// or one that is wrong, does not count.
func (m *metadata) signedBy(r role) error {
	var n uint64
	for _, s := range m.signatures { // of different keys
		if key := r.keys[s.key]; key != nil && ed25519.Verify(key, m.body, s.sig) {
			n++
		}
	}
	if n < r.threshold || n == 0 {
		return fmt.Errorf("%d of its keys have signed it; %d must", n, r.threshold)
	}
	return nil
}

// expired returns an error if m may no longer be used at now.
func (m *metadata) expired(now time.Time) error {
	if now.Before(m.expires) {
		return nil
	}
	return fmt.Errorf("it expired at %s, and it is %s here", m.expires.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
}

// file is what metadata say of other metadata, or of a target.
type file struct {
	version uint64 // 0 of a target
	length  uint64
	bounded bool // length is set
	sum     []byte
}

// check returns an error unless content is what f describes.
func (f file) check(content []byte) error {
	if f.bounded && uint64(len(content)) != f.length {
		return fmt.Errorf("it has %d bytes; %d were signed", len(content), f.length)
	}
	if sum := sha256.Sum256(content); f.sum != nil && !bytes.Equal(sum[:], f.sum) {
		return errors.New("it is not what was signed: its SHA-256 differs")
	}
	return nil
}

type root struct {
	metadata
	roles map[string]role
}

type timestamp struct {
	metadata
	snapshot file
}

type snapshot struct {
	metadata
	meta map[string]file
}

type targets struct {
	metadata
	targets     map[string]file
	delegations []delegation
}

type delegation struct {
	role
	name  string
	paths []string
}

// covers reports whether path is one that the role may have a target at. A pattern is a path, or
// one whose last part is *.
func (d *delegation) covers(path string) bool {
	return slices.ContainsFunc(d.paths, func(pattern string) bool {
		folder, all := strings.CutSuffix(pattern, "*")
		rest, below := strings.CutPrefix(path, folder)
		return path == pattern || all && below && rest != "" && !strings.Contains(rest, "/")
	})
}

// read reads what all metadata of a type have in common.
func read(kind string, raw []byte, limit int) (metadata, error) {
	if len(raw) > limit {
		return metadata{}, fmt.Errorf("it has %d bytes; the maximum is %d", len(raw), limit)
	}
	o := rawjson.Read(raw)
	m := metadata{raw: raw, signed: object(o, "signed")}
	m.signatures = readSignatures(o)
	if is := m.signed.Text("_type"); is != kind {
		o.Fail("it is of the type %.40q", is)
	}
	if spec := m.signed.Text("spec_version"); !strings.HasPrefix(spec, "1.") {
		o.Fail("its spec_version is %.40q; this program reads version 1", spec)
	}
	m.version = positive(m.signed, "version")
	m.expires = readTime(m.signed, "expires")
	if err := o.Err(); err != nil {
		return metadata{}, err
	}
	var err error
	m.body, err = canonical(nil, o.Get("signed"), maxDepth)
	return m, err
}

// object returns a member that is an object and must be present.
func object(o rawjson.Object, name string) rawjson.Object {
	if !o.Has(name) {
		o.Fail("there is no %s", name)
	}
	return o.Object(name)
}

// positive reads a member that is a number from 1.
func positive(o rawjson.Object, name string) uint64 {
	n := o.Number(name, 0)
	if n == 0 || n > maxVersion {
		o.Fail("%s is not a number from 1 to %d", name, uint64(maxVersion))
	}
	return n
}

// timeForm is the only form of a time that the specification knows.
const timeForm = "2006-01-02T15:04:05Z"

func readTime(o rawjson.Object, name string) time.Time {
	text := o.Text(name)
	t, err := time.Parse(timeForm, text)
	if err != nil || t.Format(timeForm) != text {
		o.Fail("%s is not a time as in %s", name, timeForm)
	}
	return t
}

// readHex reads a text of size bytes in lower-case hexadecimal.
func readHex(o rawjson.Object, name string, size int) []byte {
	text := o.Text(name)
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != size || text != hex.EncodeToString(b) {
		o.Fail("%s is not %d bytes in lower-case hexadecimal", name, size)
	}
	return b
}

func readSignatures(o rawjson.Object) []signature {
	raws := o.List("signatures")
	if len(raws) > maxSignatures {
		o.Fail("it has %d signatures; the maximum is %d", len(raws), maxSignatures)
		return nil
	}
	var all []signature
	for _, s := range o.Objects("signatures") {
		one := signature{key: keyID(s.Text("keyid"))}
		if s.OptionalText("sig") != "" { // empty: somebody has still to sign
			one.sig = readHex(s, "sig", ed25519.SignatureSize)
		}
		if slices.ContainsFunc(all, func(other signature) bool { return other.key == one.key }) {
			o.Fail("the key %.80q has signed it twice", one.key)
		}
		all = append(all, one)
	}
	return all
}

// readKeys reads a table of keys.
func readKeys(o rawjson.Object) map[keyID]ed25519.PublicKey {
	if len(o.Members) > maxKeys {
		o.Fail("it has %d keys; the maximum is %d", len(o.Members), maxKeys)
		return nil
	}
	all, ids := map[keyID]ed25519.PublicKey{}, map[string]keyID{}
	for _, m := range o.Members {
		k, id := o.Object(m.Name), keyID(m.Name)
		if kind, scheme := k.Text("keytype"), k.Text("scheme"); kind != "ed25519" || scheme != "ed25519" {
			o.Fail("the key %.80q is of the type %.40q; this program reads ed25519", id, kind)
			return nil
		}
		public := readHex(k.Object("keyval"), "public", ed25519.PublicKeySize)
		body, err := canonical(nil, m.Value, maxDepth)
		sum := sha256.Sum256(body)
		switch {
		case o.Err() != nil:
		case err != nil || id != keyID(hex.EncodeToString(sum[:])):
			o.Fail("the id of the key %.80q is not computed from it", id)
		case ids[string(public)] != "": // it could sign twice
			o.Fail("the keys %.80q and %.80q are the same", ids[string(public)], id)
		}
		all[id], ids[string(public)] = public, id
	}
	return all
}

// readRole reads who signs, out of the keys of a table.
func readRole(o rawjson.Object, keys map[keyID]ed25519.PublicKey) role {
	r := role{keys: map[keyID]ed25519.PublicKey{}, threshold: positive(o, "threshold")}
	ids := o.Texts("keyids")
	if len(ids) > maxKeys {
		o.Fail("a role has %d keys; the maximum is %d", len(ids), maxKeys)
		return role{}
	}
	for _, id := range ids {
		key := keys[keyID(id)]
		if key == nil || r.keys[keyID(id)] != nil {
			o.Fail("the key %.80q of a role is unknown, or is named twice", id)
		}
		r.keys[keyID(id)] = key
	}
	if r.threshold > uint64(len(r.keys)) {
		o.Fail("a role has %d keys, and %d must sign", len(r.keys), r.threshold)
	}
	return r
}

// readFile reads the description of a file.
func readFile(o rawjson.Object) file {
	f := file{bounded: o.Has("length"), length: o.Number("length", 0)}
	if o.Has("hashes") {
		f.sum = readHex(o.Object("hashes"), "sha256", sha256.Size)
	}
	return f
}

func readRoot(raw []byte) (*root, error) {
	m, err := read(roleRoot, raw, MaxRootBytes)
	if err != nil {
		return nil, err
	}
	r, o := &root{metadata: m, roles: map[string]role{}}, m.signed
	if !o.True("consistent_snapshot") {
		o.Fail("it is not for consistent snapshots")
	}
	keys := readKeys(object(o, "keys"))
	roles := object(o, "roles")
	for _, name := range []string{roleRoot, roleTimestamp, roleSnapshot, roleTargets} {
		r.roles[name] = readRole(roles.Object(name), keys)
	}
	return r, o.Err()
}

func readTimestamp(raw []byte) (*timestamp, error) {
	m, err := read(roleTimestamp, raw, MaxTimestampBytes)
	if err != nil {
		return nil, err
	}
	t, meta := &timestamp{metadata: m}, object(m.signed, "meta")
	if len(meta.Members) != 1 {
		meta.Fail("it names %d files instead of one snapshot", len(meta.Members))
	}
	is := meta.Object("snapshot.json")
	t.snapshot = readFile(is)
	t.snapshot.version = positive(is, "version")
	return t, meta.Err()
}

func readSnapshot(raw []byte) (*snapshot, error) {
	m, err := read(roleSnapshot, raw, MaxSnapshotBytes)
	if err != nil {
		return nil, err
	}
	s, meta := &snapshot{metadata: m, meta: map[string]file{}}, object(m.signed, "meta")
	if len(meta.Members) > maxGroups {
		meta.Fail("it names %d files; the maximum is %d", len(meta.Members), maxGroups)
		return nil, meta.Err()
	}
	for _, member := range meta.Members {
		name, ok := strings.CutSuffix(member.Name, ".json")
		if !ok || !isRole(name) {
			meta.Fail("%.80q is not the name of metadata", member.Name)
			break
		}
		is := meta.Object(member.Name)
		f := readFile(is)
		f.version = positive(is, "version")
		s.meta[name] = f
	}
	return s, meta.Err()
}

// isRole reports whether name can be that of a role with targets. It is a part of a file's name.
func isRole(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '-' || r == '_')
	}) && !slices.Contains([]string{roleRoot, roleTimestamp, roleSnapshot}, name)
}

// isPath reports whether path can be that of a target, or a pattern of such paths.
func isPath(path string, pattern bool) bool {
	if pattern {
		path = strings.TrimSuffix(path, "*") + "x"
	}
	return len(path) <= maxName && !strings.ContainsAny(path, `*?[]\`) &&
		!slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return part == "" || part == "." || part == ".." })
}

func readTargets(raw []byte) (*targets, error) {
	m, err := read(roleTargets, raw, MaxTargetsBytes)
	if err != nil {
		return nil, err
	}
	t, list := &targets{metadata: m, targets: map[string]file{}}, object(m.signed, "targets")
	if len(list.Members) > maxPaths {
		list.Fail("it has %d targets; the maximum is %d", len(list.Members), maxPaths)
		return nil, list.Err()
	}
	for _, member := range list.Members {
		f := readFile(list.Object(member.Name))
		if !isPath(member.Name, false) || !f.bounded || f.sum == nil {
			list.Fail("the target %.80q has no proper path, no length or no SHA-256", member.Name)
		}
		t.targets[member.Name] = f
	}
	if m.signed.Has("delegations") {
		t.delegations = readDelegations(m.signed.Object("delegations"))
	}
	return t, list.Err()
}

func readDelegations(o rawjson.Object) []delegation {
	if o.Has("succinct_roles") {
		o.Fail("it delegates by hashes, which this program does not read")
	}
	keys, roles := readKeys(object(o, "keys")), o.Objects("roles")
	if len(roles) > maxGroups {
		o.Fail("it has %d roles; the maximum is %d", len(roles), maxGroups)
		return nil
	}
	var all []delegation
	names := map[string]bool{}
	for _, r := range roles {
		d := delegation{role: readRole(r, keys), name: r.Text("name"), paths: r.Texts("paths")}
		r.True("terminating") // one path is never delegated twice, so it does not matter
		switch {
		case r.Has("path_hash_prefixes"):
			o.Fail("it delegates by hashes, which this program does not read")
		case !isRole(d.name) || d.name == roleTargets || names[d.name]:
			o.Fail("%.80q is not the name of a role, or the name of two", d.name)
		case len(d.paths) == 0 || len(d.paths) > maxPaths || !allPatterns(d.paths):
			o.Fail("the role %.80q has no paths, too many, or one that this program does not read", d.name)
		}
		names[d.name] = true
		all = append(all, d)
	}
	return all
}

func allPatterns(paths []string) bool {
	return !slices.ContainsFunc(paths, func(path string) bool { return !isPath(path, true) })
}

// canonical appends the canonical form of a JSON value to dst, as signatures and ids of keys
// need it: members sorted by name, no white space, no escapes in texts but of " and \, and no
// numbers but whole ones.
func canonical(dst, raw []byte, depth int) ([]byte, error) {
	if depth == 0 {
		return nil, fmt.Errorf("it has more than %d levels of brackets", maxDepth)
	}
	switch jsontext.Value(raw).Kind() {
	case '{':
		members, err := rawjson.Members(raw)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(members, func(a, b rawjson.Member) int { return strings.Compare(a.Name, b.Name) })
		dst = append(dst, '{')
		for i, m := range members {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = canonical(append(appendText(dst, m.Name), ':'), m.Value, depth-1); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case '[':
		elements, err := rawjson.Elements(raw)
		dst = append(dst, '[')
		for i := 0; i < len(elements) && err == nil; i++ {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst, err = canonical(dst, elements[i], depth-1)
		}
		return append(dst, ']'), err
	case '"':
		text, err := rawjson.Text(raw)
		return appendText(dst, text), err
	case '0':
		if !isWhole(raw) {
			return nil, fmt.Errorf("%.40q is not a whole number of at most 15 digits", raw)
		}
	}
	return append(dst, raw...), nil
}

// isWhole reports whether every reader takes the JSON number raw for the same whole number.
func isWhole(raw []byte) bool {
	digits := bytes.TrimPrefix(raw, []byte("-"))
	return len(digits) <= 15 && len(bytes.Trim(digits, "0123456789")) == 0 && string(raw) != "-0"
}

// appendText appends text in quotes.
func appendText(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for i := range len(text) {
		if text[i] == '"' || text[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, text[i])
	}
	return append(dst, '"')
}
