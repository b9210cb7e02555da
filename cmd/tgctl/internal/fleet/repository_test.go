package fleet

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/tuf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

var now = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// newFleet makes a fleet with the groups.
func newFleet(t *testing.T, groups ...string) *repository {
	t.Helper()
	folder := t.TempDir()
	if err := newRepository(folder, "acme", true, now); err != nil {
		t.Fatal(err)
	}
	r := reopen(t, folder)
	for _, group := range groups {
		if err := r.addGroup(group, fleet.ModeFloor, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	return r
}

func reopen(t *testing.T, folder string) *repository {
	t.Helper()
	r, err := openRepository(folder)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// member is a machine that verifies what a fleet publishes.
type member struct {
	t       *testing.T
	group   string
	trusted *tuf.Trusted
}

func (r *repository) member(t *testing.T, group string) *member {
	t.Helper()
	trusted, err := tuf.Begin(r.TUF.Roots[0], sha256.Sum256(r.TUF.Roots[0]), group, fleet.BundlePath(group))
	if err != nil {
		t.Fatal(err)
	}
	return &member{t, group, trusted}
}

// install installs what r publishes, and returns the bundle in force.
func (m *member) install(r *repository, at time.Time) (*fleet.Bundle, error) {
	var req pb.InstallPolicyRequest
	if err := proto.Unmarshal(r.request(m.group), &req); err != nil {
		m.t.Fatal(err)
	}
	next, err := m.trusted.Update(tuf.Update{
		Roots: req.GetRoots()[m.trusted.RootVersion():], Timestamp: req.GetTimestamp(), Snapshot: req.GetSnapshot(), Targets: req.GetTargets(), Delegated: req.GetDelegated(), Target: req.GetBundle(),
	}, at)
	if err != nil {
		return nil, err
	}
	m.trusted = next
	return fleet.ParseBundle(next.Target())
}

func (m *member) mustInstall(r *repository, at time.Time) *fleet.Bundle {
	m.t.Helper()
	b, err := m.install(r, at)
	if err != nil {
		m.t.Fatal(err)
	}
	return b
}

// What an administrator signs, a machine verifies: policies by group, newer versions, confirmations.
func TestPublish(t *testing.T) {
	r := newFleet(t, "canary", "dev")
	dev, canary := r.member(t, "dev"), r.member(t, "canary")
	if b := dev.mustInstall(r, now); b.Version != 1 || b.Rules != "" || b.Mode != fleet.ModeFloor || b.Fleet != "acme" || b.Group != "dev" {
		t.Errorf("the first policy is %+v", b)
	}
	for i, rules := range []string{"schema: 1\n", "schema: 1\n# two\n"} {
		b, err := r.latest("dev")
		if err != nil {
			t.Fatal(err)
		}
		b.Rules = rules
		if err := r.publish("dev", *b, now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		r = reopen(t, saved(t, r))
		if b := dev.mustInstall(r, now.Add(time.Hour)); b.Rules != rules || b.Version != uint64(i+2) {
			t.Errorf("version %d has the rules %q", b.Version, b.Rules)
		}
	}
	if b := canary.mustInstall(r, now); b.Rules != "" {
		t.Errorf("another group got %q", b.Rules)
	}
	late := now.Add(8 * 24 * time.Hour)
	if _, err := dev.install(r, late); err == nil {
		t.Error("what was confirmed 8 days ago was taken")
	}
	if err := r.confirm(late); err != nil {
		t.Fatal(err)
	}
	if b := dev.mustInstall(r, late); b.Version != 3 {
		t.Errorf("after it was confirmed, the version is %d", b.Version)
	}
	if got := len(reopen(t, saved(t, r)).Groups["dev"].Published); got != 3 {
		t.Errorf("the history has %d versions", got)
	}
}

func saved(t *testing.T, r *repository) string {
	t.Helper()
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	return r.folder
}

// Who confirms his policies and changes none for years keeps a fleet whose machines take them.
func TestConfirmForYears(t *testing.T) {
	r := newFleet(t, "dev")
	m := r.member(t, "dev")
	for at := now; at.Before(now.Add(3 * targetsLife)); at = at.Add(30 * 24 * time.Hour) {
		if err := r.renewRoot([]string{r.keyFile(keyRoot(1)), r.keyFile(keyRoot(2))}, at); err != nil {
			t.Fatal(err)
		}
		if err := r.confirm(at); err != nil {
			t.Fatal(err)
		}
		if b := m.mustInstall(r, at.Add(6*24*time.Hour)); b.Version != 1 {
			t.Fatalf("version %d is in force; want 1", b.Version)
		}
	}
	if err := r.addGroup("ops", fleet.ModeFloor, now.Add(3*targetsLife)); err != nil {
		t.Fatal(err)
	}
	r.member(t, "ops").mustInstall(r, now.Add(3*targetsLife))
}

// Whoever changes a fleet is told before its root expires.
func TestRootExpires(t *testing.T) {
	a, out := shown()
	folder := t.TempDir()
	if err := newRepository(folder, "acme", false, now.Add(10*24*time.Hour-rootLife)); err != nil {
		t.Fatal(err)
	}
	if err := a.change(t.Context(), folder, func(r *repository) ([]string, error) { return nil, r.addGroup("dev", fleet.ModeFloor, now) }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "The root expires on 2026-11-30") {
		t.Errorf("it says %q", out)
	}
	out.Reset()
	if err := a.change(t.Context(), newFleet(t, "dev").folder, func(r *repository) ([]string, error) { r.NoEngine = true; return nil, nil }); err != nil || strings.Contains(out.String(), "expires") {
		t.Errorf("of a new fleet it says %q, %v", out, err)
	}
}

// The root is renewed by two of its three keys, and not by one.
func TestRenewRoot(t *testing.T) {
	r := newFleet(t, "dev")
	m := r.member(t, "dev")
	m.mustInstall(r, now)
	late := now.Add(366 * 24 * time.Hour)
	if err := r.confirm(late); err != nil {
		t.Fatal(err)
	}
	if _, err := m.install(r, late); err == nil {
		t.Error("metadata were taken after the root had expired")
	}
	if err := r.renewRoot([]string{r.keyFile(keyRoot(3))}, late); err == nil {
		t.Error("one key has renewed the root")
	}
	if err := r.renewRoot([]string{r.keyFile(keyRoot(3)), r.keyFile(keyTargets)}, late); err == nil {
		t.Error("a key of another role has renewed the root")
	}
	if err := r.renewRoot([]string{r.keyFile(keyRoot(3)), r.keyFile(keyRoot(1))}, late); err != nil {
		t.Fatal(err)
	}
	if err := r.publish("dev", fleet.Bundle{Values: fleet.ValuesNone, Overflow: fleet.OverflowDrop}, late); err != nil {
		t.Fatal(err)
	}
	if b := m.mustInstall(r, late); b.Version != 2 {
		t.Errorf("after the root was renewed, version %d is in force; want 2", b.Version)
	}
}

// What a web server hands out is what was signed; it grows, and goes back to nothing older and to no other fleet.
func TestExport(t *testing.T) {
	r, dir := newFleet(t, "dev"), filepath.Join(t.TempDir(), "www")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	for range 2 { // the second one changes nothing
		if err := r.export(dir); err != nil {
			t.Fatal(err)
		}
	}
	old := reopen(t, r.folder)
	if err := r.publish("dev", fleet.Bundle{Rules: "schema: 1\n", Values: fleet.ValuesNone, Overflow: fleet.OverflowRefuse}, now); err != nil {
		t.Fatal(err)
	}
	if err := r.export(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{
		"1.root.json": r.TUF.Roots[0], "timestamp.json": r.TUF.Timestamp, "2.snapshot.json": r.TUF.Snapshot, "1.snapshot.json": old.TUF.Snapshot, "1.targets.json": r.TUF.Targets,
		"1.dev.json": old.TUF.Groups["dev"], "2.dev.json": r.TUF.Groups["dev"],
		"dev/" + fleet.Digest(r.TUF.Files["dev"]["dev/bundle.json"]) + ".bundle.json": r.TUF.Files["dev"]["dev/bundle.json"],
	} {
		if got := read(name); got != string(want) {
			t.Errorf("%s: %s", name, got)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().Perm() != 0o644 {
			t.Errorf("%s: mode %v", name, info.Mode())
		}
	}
	if all, err := filepath.Glob(filepath.Join(dir, "dev", "*")); err != nil || len(all) != 2 {
		t.Errorf("bundles: %v, %v", all, err)
	}
	if err := old.export(dir); err == nil || !strings.Contains(err.Error(), "machines refuse to go back") || read("timestamp.json") != string(r.TUF.Timestamp) {
		t.Errorf("an older copy: %v", err)
	}
	if err := newFleet(t, "dev").export(dir); err == nil || !strings.Contains(err.Error(), "1.root.json") {
		t.Errorf("another fleet: %v", err)
	}
}

// Keys are readable by their owner alone, and are never replaced.
func TestKeys(t *testing.T) {
	r := newFleet(t, "dev")
	all, err := filepath.Glob(filepath.Join(r.folder, "keys", "tuf-*.pem"))
	if err != nil || len(all) != 7 {
		t.Errorf("there are the keys %v (%v)", all, err)
	}
	for _, path := range append(all, repositoryFile(r.folder)) {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if err := newRepository(r.folder, "acme", true, now); err == nil {
		t.Error("a second fleet was made in the folder")
	}
	if err := r.addGroup("dev", fleet.ModeFull, now); err == nil || r.Groups["dev"].Mode != fleet.ModeFloor {
		t.Errorf("a group was added twice: %v", err)
	}
}

func TestParseApprovers(t *testing.T) {
	text := "# leads\n\nalice ssh-ed25519 AAAA age1x\n bob  sk-ssh-ed25519@openssh.com BBBB age1y UDEVICE\n"
	all, err := parseApprovers("leads.txt", text)
	if err != nil || len(all) != 2 || all[1].SSH != "sk-ssh-ed25519@openssh.com BBBB" || len(all[1].Devices) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if line := approverLine(all[1]); line != "bob sk-ssh-ed25519@openssh.com BBBB age1y UDEVICE" {
		t.Errorf("the line is %q", line)
	}
	if _, err := parseApprovers("leads.txt", "\nalice ssh-ed25519 AAAA\n"); err == nil || !strings.Contains(err.Error(), "leads.txt:2") {
		t.Errorf("a short line: %v", err)
	}
}
