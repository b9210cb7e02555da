package fleet

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/tuf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// How long signed metadata count.
const (
	rootLife      = 365 * 24 * time.Hour
	targetsLife   = 365 * 24 * time.Hour
	snapshotLife  = 30 * 24 * time.Hour
	timestampLife = 7 * 24 * time.Hour
	// renewBefore is how long before they expire targets are signed again, when policies are confirmed.
	renewBefore = 90 * 24 * time.Hour
)

// keptVersions is the number of policies of a group that history shows.
const keptVersions = 20

// Names of the keys, each in a file of its own.
const (
	keyTargets   = "tuf-targets"
	keySnapshot  = "tuf-snapshot"
	keyTimestamp = "tuf-timestamp"
	rootKeys     = 3
	rootNeeded   = 2
)

func keyRoot(n int) string         { return fmt.Sprintf("tuf-root-%d", n) }
func keyGroup(group string) string { return "tuf-group-" + group }

// repository is what an administrator has signed: which keys count, and the policies of all groups. It lies
// in one file, which is replaced as a whole, and its keys beside it.
type repository struct {
	folder string

	Fleet    string           `json:"fleet"`
	NoEngine bool             `json:"no_engine,omitempty"` // what is signed is not sent anywhere
	TUF      tuf.Repository   `json:"tuf"`
	Groups   map[string]group `json:"groups"`
}

// group is a group and its policies.
type group struct {
	Mode      fleet.Mode `json:"mode"`
	Published []version  `json:"published"` // oldest first
}

// version is one policy of a group.
type version struct {
	At     time.Time `json:"at"`
	Bundle []byte    `json:"bundle"`
}

func repositoryFile(folder string) string { return filepath.Join(folder, "tuf.json") }

// newRepository makes the keys and the first root of a fleet in folder.
func newRepository(folder, name string, engine bool, now time.Time) error {
	r := &repository{folder: folder, Fleet: name, NoEngine: !engine, Groups: map[string]group{}}
	if _, err := os.Stat(repositoryFile(folder)); err == nil {
		return fmt.Errorf("%s has a fleet already", display.Text(folder))
	}
	var roots []crypto.Signer
	for n := range rootKeys {
		key, err := r.newKey(keyRoot(n + 1))
		if err != nil {
			return err
		}
		roots = append(roots, key)
	}
	roles := tuf.Roles{Root: tuf.Signers{Threshold: rootNeeded}}
	for _, key := range roots {
		roles.Root.Keys = append(roles.Root.Keys, publicOf(key))
	}
	for name, role := range map[string]*tuf.Signers{keyTargets: &roles.Targets, keySnapshot: &roles.Snapshot, keyTimestamp: &roles.Timestamp} {
		key, err := r.newKey(name)
		if err != nil {
			return err
		}
		*role = tuf.Signers{Keys: []ed25519.PublicKey{publicOf(key)}, Threshold: 1}
	}
	if err := r.TUF.AddRoot(roles, now.Add(rootLife), roots[:rootNeeded]...); err != nil {
		return err
	}
	return r.save()
}

func publicOf(key crypto.Signer) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// openRepository reads the repository in folder.
func openRepository(folder string) (*repository, error) {
	text, err := os.ReadFile(repositoryFile(folder))
	if errors.Is(err, os.ErrNotExist) {
		return nil, &ui.HintError{Err: fmt.Errorf("%s is not the folder of a fleet", display.Text(folder)), Hint: "Name the folder that tgctl fleet init has made."}
	}
	r := &repository{folder: folder}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("read the fleet in %s: %w", display.Text(folder), err)
	}
	return r, nil
}

// save replaces the file of the repository.
func (r *repository) save() error {
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = replaceFile(repositoryFile(r.folder), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the fleet in %s: %w", display.Text(r.folder), err)
	}
	return nil
}

// replaceFile replaces a file as a whole, or leaves it as it is.
func replaceFile(path string, text []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func (r *repository) keyFile(name string) string {
	return filepath.Join(r.folder, "keys", name+".pem")
}

// newKey makes a key. It fails if there is one of that name.
func (r *repository) newKey(name string) (crypto.Signer, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(r.folder, "keys"), 0o700); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	f, err := os.OpenFile(r.keyFile(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	if err := errors.Join(pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der}), f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	return key, nil
}

// readKey reads a key from a file.
func readKey(path string) (crypto.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read a key: %w", err)
	}
	defer clear(text)
	block, rest := pem.Decode(text)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("%s has no key in PEM", display.Text(path))
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if signer, ok := key.(ed25519.PrivateKey); ok {
		return signer, nil
	}
	return nil, errors.Join(fmt.Errorf("%s has no ed25519 key", display.Text(path)), err)
}

// rootDigest returns the hex SHA-256 of the first root, which tokens carry.
func (r *repository) rootDigest() string {
	return fleet.Digest(r.TUF.Roots[0])
}

// find returns a group.
func (r *repository) find(name string) (group, error) {
	g, ok := r.Groups[name]
	if !ok {
		return group{}, &ui.HintError{Err: fmt.Errorf("the fleet has no group %s", display.Name(name)), Hint: "To add it: tgctl fleet group " + ui.Word(r.folder) + " " + ui.Word(name) + " --mode floor"}
	}
	return g, nil
}

// addGroup adds a group with an empty policy.
func (r *repository) addGroup(name string, mode fleet.Mode, now time.Time) error {
	if err := fleet.CheckName(name); err != nil {
		return err
	}
	if mode != fleet.ModeFloor && mode != fleet.ModeFull {
		return ui.Misuse("--mode must be floor or full, not %q", mode)
	}
	if _, ok := r.Groups[name]; ok {
		return fmt.Errorf("there is a group %s already", display.Name(name))
	}
	if _, err := r.newKey(keyGroup(name)); err != nil {
		return err
	}
	r.Groups[name] = group{Mode: mode}
	if err := r.delegate(now); err != nil {
		return err
	}
	return r.publish(name, fleet.Bundle{Values: fleet.ValuesNone, Overflow: fleet.OverflowRefuse}, now)
}

// delegate signs which groups there are, and by which keys their policies are signed.
func (r *repository) delegate(now time.Time) error {
	var groups []tuf.Group
	for _, name := range r.names() {
		key, err := readKey(r.keyFile(keyGroup(name)))
		if err != nil {
			return err
		}
		groups = append(groups, tuf.Group{Name: name, Paths: []string{name + "/*"}, Signers: tuf.Signers{Keys: []ed25519.PublicKey{publicOf(key)}, Threshold: 1}})
	}
	key, err := readKey(r.keyFile(keyTargets))
	if err != nil {
		return err
	}
	return r.TUF.Delegate(groups, now.Add(targetsLife), key)
}

// names returns the names of the groups in order.
func (r *repository) names() []string {
	var all []string
	for name := range r.Groups {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// latest returns the newest policy of a group.
func (r *repository) latest(name string) (*fleet.Bundle, error) {
	g, err := r.find(name)
	if err != nil {
		return nil, err
	}
	return fleet.ParseBundle(g.Published[len(g.Published)-1].Bundle)
}

// publish makes b the policy of a group, as its next version.
func (r *repository) publish(name string, b fleet.Bundle, now time.Time) error {
	g, err := r.find(name)
	if err != nil {
		return err
	}
	b.V, b.Fleet, b.Group, b.Mode, b.Version = fleet.BundleVersion, r.Fleet, name, g.Mode, 1
	if len(g.Published) > 0 {
		last, err := r.latest(name)
		if err != nil {
			return err
		}
		b.Version = last.Version + 1
	}
	if err := b.Check(); err != nil {
		return fmt.Errorf("the policy of %s: %w", display.Name(name), err)
	}
	text := b.Encode()
	if err := r.signPolicy(name, text, now); err != nil {
		return err
	}
	g.Published = append(g.Published, version{At: now.UTC(), Bundle: text})
	g.Published = g.Published[max(0, len(g.Published)-keptVersions):]
	r.Groups[name] = g
	return r.confirm(now)
}

// signPolicy signs the policy of a group for targetsLife.
func (r *repository) signPolicy(name string, text []byte, now time.Time) error {
	key, err := readKey(r.keyFile(keyGroup(name)))
	if err != nil {
		return err
	}
	return r.TUF.Publish(name, map[string][]byte{fleet.BundlePath(name): text}, now.Add(targetsLife), key)
}

// renewTargets signs again what expires within renewBefore: which groups there are, and the policy of a
// group that nobody has changed for long.
func (r *repository) renewTargets(now time.Time) error {
	if len(r.Groups) == 0 {
		return nil // nothing is signed yet
	}
	for _, name := range append([]string{""}, r.names()...) {
		expires, err := r.TUF.TargetsExpire(name)
		switch {
		case err != nil:
			return err
		case expires.Sub(now) > renewBefore:
			continue
		case name == "":
			err = r.delegate(now)
		default:
			err = r.signPolicy(name, r.TUF.Files[name][fleet.BundlePath(name)], now)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// confirm signs that the policies of all groups are the newest ones.
func (r *repository) confirm(now time.Time) error {
	if err := r.renewTargets(now); err != nil {
		return err
	}
	snapshot, err := readKey(r.keyFile(keySnapshot))
	if err != nil {
		return err
	}
	timestamp, err := readKey(r.keyFile(keyTimestamp))
	if err != nil {
		return err
	}
	if err := r.TUF.Collect(now.Add(snapshotLife), snapshot); err != nil {
		return err
	}
	return r.TUF.Confirm(now.Add(timestampLife), timestamp)
}

// export writes what was signed into the folder of a web server. A file with a version or a digest in its
// name never changes, and stays when there are newer ones.
func (r *repository) export(to string) error {
	files, err := r.TUF.Directory()
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(to, filepath.FromSlash(f.Name))
		before, err := os.ReadFile(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		case err == nil && bytes.Equal(before, f.Content):
			continue
		case err == nil:
			err = r.mayReplace(f, before)
		}
		if err == nil {
			err = replaceFile(path, f.Content, 0o644)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", display.Text(path), err)
		}
	}
	return nil
}

// mayReplace returns an error unless a file of a web server's folder may be replaced by f.
func (r *repository) mayReplace(f tuf.File, before []byte) error {
	hint := "The folder is of another fleet, or what is in it was made with another copy of " + ui.Word(r.folder) + "."
	if f.Name != tuf.TimestampFile {
		return &ui.HintError{Err: errors.New("it is there already, with another content"), Hint: hint}
	}
	was, err := tuf.TimestampVersion(before)
	if err != nil {
		return nil // it is no timestamp, so nobody has believed it
	}
	is, err := tuf.TimestampVersion(f.Content)
	if err == nil && is <= was {
		err = &ui.HintError{Err: fmt.Errorf("version %d is there, and this is version %d; machines refuse to go back", was, is), Hint: hint}
	}
	return err
}

// renewRoot signs the root for another year, with root keys from files.
func (r *repository) renewRoot(files []string, now time.Time) error {
	var keys []crypto.Signer
	for _, file := range files {
		key, err := readKey(file)
		if err != nil {
			return err
		}
		keys = append(keys, key)
	}
	return r.TUF.RenewRoot(now.Add(rootLife), keys...)
}

// request returns what tg-fleet sends as the policy of a group, with all roots.
func (r *repository) request(name string) []byte {
	u := r.TUF.Update(name, fleet.BundlePath(name), 0)
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pb.InstallPolicyRequest{
		Roots: u.Roots, Timestamp: u.Timestamp, Snapshot: u.Snapshot, Targets: u.Targets, Delegated: u.Delegated, Bundle: u.Target,
	})
	if err != nil {
		panic("fleet: encode a request of bytes: " + err.Error())
	}
	return text
}
