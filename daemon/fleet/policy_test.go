package fleet

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	forms "github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/tuf"
)

const day = 24 * time.Hour

func keyOf(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func signers(names ...string) tuf.Signers {
	s := tuf.Signers{Threshold: len(names)}
	for _, name := range names {
		s.Keys = append(s.Keys, keyOf(name).Public().(ed25519.PublicKey))
	}
	return s
}

func by(names ...string) []crypto.Signer {
	var all []crypto.Signer
	for _, name := range names {
		all = append(all, keyOf(name))
	}
	return all
}

// admin is what publishes the policies of a fleet with the groups dev and ops.
type admin struct {
	testing.TB
	tuf.Repository
	now     func() time.Time
	version map[string]uint64
}

func newAdmin(t testing.TB) *admin {
	t.Helper()
	a := &admin{TB: t, now: time.Now, version: map[string]uint64{}}
	roles := tuf.Roles{Root: signers("root a", "root b"), Timestamp: signers("timestamp"), Snapshot: signers("snapshot"), Targets: signers("targets")}
	a.must(a.AddRoot(roles, a.now().Add(365*day), by("root a", "root b")...))
	a.must(a.Delegate([]tuf.Group{{Name: "dev", Paths: []string{"dev/*"}, Signers: signers("dev")}, {Name: "ops", Paths: []string{"ops/*"}, Signers: signers("ops")}},
		a.now().Add(365*day), by("targets")...))
	a.publish("ops", func(*forms.Bundle) {})
	a.publish("dev", func(*forms.Bundle) {})
	return a
}

func (a *admin) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// publish publishes the next bundle of a group, and returns the publication for the group dev.
func (a *admin) publish(group string, change func(*forms.Bundle)) tuf.Update {
	a.Helper()
	a.version[group]++
	b := &forms.Bundle{V: forms.BundleVersion, Fleet: "acme", Group: group, Mode: forms.ModeFloor, Version: a.version[group], Values: forms.ValuesNone, Overflow: forms.OverflowRefuse}
	change(b)
	a.must(a.Publish(group, map[string][]byte{forms.BundlePath(group): b.Encode()}, a.now().Add(365*day), by(group)...))
	a.must(a.Collect(a.now().Add(60*day), by("snapshot")...))
	return a.confirm()
}

func (a *admin) confirm() tuf.Update {
	a.Helper()
	a.must(a.Confirm(a.now().Add(7*day), by("timestamp")...))
	return a.Update("dev", forms.BundlePath("dev"), 1)
}

func rules(text string) func(*forms.Bundle) { return func(b *forms.Bundle) { b.Rules = text } }

// machine is a machine that has joined the fleet of an admin.
type machine struct {
	testing.TB
	*Policy
	dir     string
	member  Member
	options PolicyOptions
	offset  atomic.Int64 // of its clock
	full    atomic.Bool  // nothing can be recorded

	mu      sync.Mutex
	inForce string // rules of the bundle in force; "-" if there is none, "damaged" if it is not known
	records []string
}

func (m *machine) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	if m.full.Load() {
		return errors.New("no space left on device")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = append(m.records, r.Verdict)
	return nil
}

func (m *machine) recorded() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.records, " ")
}

func (m *machine) use(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inForce = what
}

// rulesInForce returns which rules are in force.
func (m *machine) rulesInForce() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inForce
}

func newMachine(t testing.TB, a *admin) *machine {
	t.Helper()
	digest := sha256.Sum256(a.Roots[0])
	m := &machine{TB: t, dir: t.TempDir(), member: Member{V: 1, Device: "U", Fleet: "acme", Group: "dev", Mode: forms.ModeFloor, Root: hex.EncodeToString(digest[:])}}
	m.options = PolicyOptions{
		Dir: m.dir, Recorder: m, Now: func() time.Time { return time.Now().Add(time.Duration(m.offset.Load())) },
		Check: func(b *forms.Bundle, _ func() bool) (func(), error) {
			if b.Rules == "broken" {
				return nil, errors.New("dev.yaml:1:1: broken")
			}
			return func() { m.use(b.Rules) }, nil
		},
		Remove:  func() { m.use("-") },
		Damaged: func(error) { m.use("damaged") },
	}
	m.inForce = "-"
	m.Policy = openPolicy(m.options, Member{})
	if err := m.Join(m.member, a.Roots[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// restart replaces the daemon by the next one.
func (m *machine) restart() {
	m.Close()
	m.use("-")
	m.Policy = openPolicy(m.options, m.member)
}

func openPolicy(o PolicyOptions, member Member) *Policy {
	p := NewPolicy(o)
	p.Start(member)
	return p
}

func (m *machine) install(u tuf.Update) error {
	_, err := m.Install(context.Background(), u)
	return err
}

func TestInstall(t *testing.T) {
	a := newAdmin(t)
	m := newMachine(t, a)
	if s := m.State(); s.Version != 0 || s.Freshness != Unconfirmed || s.Root != 1 || m.Expired() {
		t.Errorf("before a policy came: %+v", s)
	}
	u := a.publish("dev", func(b *forms.Bundle) {
		b.Rules, b.Values, b.Overflow = "one", forms.ValuesPreviews, forms.OverflowDrop
	})
	changed := m.Changed()
	if installed, err := m.Install(context.Background(), u); !installed || err != nil {
		t.Fatalf("%v, %v", installed, err)
	}
	<-changed
	if s := m.State(); m.rulesInForce() != "one" || s.Version != 2 || s.Freshness != Fresh || s.Digest != forms.Digest(u.Target) || s.Timestamp != 3 || !m.SendsValues() || !m.Drops() {
		t.Errorf("%s, %+v", m.rulesInForce(), s)
	}
	if installed, err := m.Install(context.Background(), u); installed || err != nil {
		t.Errorf("the same again: %v, %v", installed, err)
	}
	m.restart()
	if s := m.State(); m.rulesInForce() != "one" || s.Version != 2 || s.Freshness != Fresh || !m.SendsValues() {
		t.Errorf("after a restart: %s, %+v", m.rulesInForce(), s)
	}
	if err := m.Leave(); err != nil || m.rulesInForce() != "-" || m.State() != (PolicyState{}) || m.SendsValues() {
		t.Errorf("after leaving: %v, %s, %+v", err, m.rulesInForce(), m.State())
	}
	if left, err := os.ReadDir(m.dir); err != nil || len(left) != 0 {
		t.Errorf("what is left: %v, %v", left, err)
	}
	if err := m.install(u); !errors.Is(err, gate.ErrNoFleet) {
		t.Errorf("a policy without a fleet: %v", err)
	}
	if got := m.recorded(); got != "installed" {
		t.Errorf("records: %s", got)
	}
}

// Whatever the engine does with what it carries, the policy stays as it is.
func TestLyingEngine(t *testing.T) {
	tests := []struct {
		name string
		lie  func(a *admin, old, u *tuf.Update)
		want string
	}{
		{"replayed", func(_ *admin, old, u *tuf.Update) { *u = *old }, "verified before"},
		{"reordered", func(_ *admin, old, u *tuf.Update) { u.Snapshot, u.Targets = u.Targets, u.Snapshot }, "snapshot"},
		{"rolled back snapshot", func(_ *admin, old, u *tuf.Update) { u.Snapshot = old.Snapshot }, "SHA-256"},
		{"rolled back targets", func(_ *admin, old, u *tuf.Update) { u.Delegated, u.Target = old.Delegated, old.Target }, "snapshot names version"},
		{"rolled back bundle", func(_ *admin, old, u *tuf.Update) { u.Target = old.Target }, "were signed"},
		{"mixed", func(a *admin, old, u *tuf.Update) {
			later := a.publish("dev", rules("three"))
			u.Timestamp, u.Snapshot = later.Timestamp, later.Snapshot
		}, "snapshot names version"},
		{"forged by nobody", func(_ *admin, old, u *tuf.Update) {
			u.Delegated = bytes.Replace(u.Delegated, []byte(`"version":`), []byte(`"version":9`), 1)
		}, "0 of its keys"},
		{"forged by another fleet", func(_ *admin, old, u *tuf.Update) {
			thief := &admin{TB: t, now: time.Now, version: map[string]uint64{"dev": 9}}
			thief.must(thief.AddRoot(tuf.Roles{Root: signers("x"), Timestamp: signers("x"), Snapshot: signers("x"), Targets: signers("x")}, thief.now().Add(day), by("x")...))
			thief.must(thief.Delegate([]tuf.Group{{Name: "dev", Paths: []string{"dev/*"}, Signers: signers("dev")}}, thief.now().Add(day), by("x")...))
			thief.must(thief.Publish("dev", map[string][]byte{forms.BundlePath("dev"): []byte("{}")}, thief.now().Add(day), by("dev")...))
			thief.must(thief.Collect(thief.now().Add(day), by("x")...))
			thief.must(thief.Confirm(thief.now().Add(day), by("x")...))
			*u = thief.Update("dev", forms.BundlePath("dev"), 0)
		}, "root"},
		{"truncated timestamp", func(_ *admin, old, u *tuf.Update) { u.Timestamp = u.Timestamp[:len(u.Timestamp)/2] }, "timestamp"},
		{"truncated bundle", func(_ *admin, old, u *tuf.Update) { u.Target = u.Target[:len(u.Target)/2] }, "bytes"},
		{"oversized snapshot", func(_ *admin, old, u *tuf.Update) {
			u.Snapshot = append(bytes.Clone(u.Snapshot), bytes.Repeat([]byte(" "), tuf.MaxSnapshotBytes)...)
		}, "bytes"},
		{"oversized bundle", func(_ *admin, old, u *tuf.Update) { u.Target = make([]byte, tuf.MaxTargetBytes+1) }, "maximum"},
		{"bundle of another group", func(a *admin, old, u *tuf.Update) {
			u.Delegated, u.Target = a.Groups["ops"], a.Files["ops"][forms.BundlePath("ops")]
		}, "0 of its keys"},
		{"bundle that is signed, of another group", func(a *admin, old, u *tuf.Update) {
			*u = a.publish("dev", func(b *forms.Bundle) { b.Group = "ops" })
		}, "the bundle is for ops"},
		{"bundle that is signed, of another fleet", func(a *admin, old, u *tuf.Update) {
			*u = a.publish("dev", func(b *forms.Bundle) { b.Fleet = "other" })
		}, "of the fleet other"},
		{"bundle that is signed, of another mode", func(a *admin, old, u *tuf.Update) {
			*u = a.publish("dev", func(b *forms.Bundle) { b.Mode = forms.ModeFull })
		}, "has mode full"},
		{"bundle that is signed, with rules that don't compile", func(a *admin, old, u *tuf.Update) {
			*u = a.publish("dev", rules("broken"))
		}, "broken"},
		{"empty", func(_ *admin, old, u *tuf.Update) { *u = tuf.Update{Target: []byte{}} }, "bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAdmin(t)
			m := newMachine(t, a)
			old := a.publish("dev", rules("one"))
			a.must(m.install(old))
			u := a.publish("dev", rules("two"))
			a.must(m.install(u))
			confirmed := m.State().Confirmed
			fresh := a.publish("dev", rules("never"))
			u = fresh
			tt.lie(a, &old, &u)
			err := m.install(u)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, gate.ErrInvalid) {
				t.Errorf("got the error %v, want one with %q", err, tt.want)
			}
			if s := m.State(); m.rulesInForce() != "two" || s.Version != 3 || s.Failure == "" || !s.Confirmed.Equal(confirmed) {
				t.Errorf("%s is in force: %+v", m.rulesInForce(), s)
			}
			m.restart()
			if s := m.State(); m.rulesInForce() != "two" || s.Version != 3 {
				t.Errorf("after a restart, %s is in force: %+v", m.rulesInForce(), s)
			}
			if got := m.recorded(); got != "installed installed refused" {
				t.Errorf("records: %s", got)
			}
			// The truth still arrives.
			if err := m.install(a.publish("dev", rules("three"))); err != nil || m.rulesInForce() != "three" || m.State().Failure != "" {
				t.Errorf("%v, %s", err, m.rulesInForce())
			}
		})
	}
}

// What was verified of a refused policy forbids older ones, also after a restart.
func TestRefusedRaisesVersions(t *testing.T) {
	a := newAdmin(t)
	m := newMachine(t, a)
	a.must(m.install(a.publish("dev", rules("one"))))
	second := a.publish("dev", rules("two"))
	third := a.publish("dev", rules("three"))
	third.Target = []byte("lost")
	if m.install(third) == nil {
		t.Fatal("it is installed")
	}
	m.restart()
	if m.install(second) == nil || m.rulesInForce() != "one" {
		t.Errorf("%s is in force after the timestamp of a later one was verified", m.rulesInForce())
	}
}

// What can't be recorded is not in force.
func TestUnrecordedPolicy(t *testing.T) {
	a := newAdmin(t)
	m := newMachine(t, a)
	u := a.publish("dev", rules("one"))
	m.full.Store(true)
	if err := m.install(u); err == nil || m.rulesInForce() != "-" {
		t.Errorf("%v, %s", err, m.rulesInForce())
	}
	m.full.Store(false)
	if err := m.install(u); err != nil || m.rulesInForce() != "one" {
		t.Errorf("%v, %s", err, m.rulesInForce())
	}
}

// A courier that repeats a lie does not fill the log.
func TestRefusalsAreRecordedOnce(t *testing.T) {
	a := newAdmin(t)
	m := newMachine(t, a)
	u := a.publish("dev", rules("one"))
	for i := range 100 {
		u.Target = []byte{byte(i)}
		if m.install(u) == nil {
			t.Fatal("it is installed")
		}
	}
	if got := m.recorded(); got != "refused" {
		t.Errorf("records: %s", got)
	}
}

// An engine that has nothing new, or says so, leaves the policy to age: day by day, what the page
// of the fleet promises.
func TestThirtyDaysWithoutEngine(t *testing.T) {
	for _, engine := range []string{"gone", "frozen", "expired metadata"} {
		t.Run(engine, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAdmin(t)
				m := newMachine(t, a)
				u := a.publish("dev", rules("one"))
				a.must(m.install(u))
				start := time.Now()
				for d := range 32 {
					time.Sleep(time.Until(start.Add(time.Duration(d)*day + tickEvery)))
					synctest.Wait()
					switch {
					case engine == "frozen": // the same again, as long as it counts
						if err := m.install(u); (err == nil) != (d < 7) {
							t.Errorf("day %d: %v", d, err)
						}
					case engine == "expired metadata" && d == 10: // a timestamp that was kept back until it expired
						a.now = func() time.Time { return start.Add(day) }
						if m.install(a.confirm()) == nil {
							t.Error("an expired timestamp confirms")
						}
						a.now = time.Now
					}
					want := Fresh
					switch {
					case d >= 30:
						want = Expired
					case d >= 7:
						want = Old
					case d >= 1:
						want = Stale
					}
					if s := m.State(); s.Freshness != want || m.Expired() != (want == Expired) || m.rulesInForce() != "one" || s.Version != 2 {
						t.Errorf("day %d: %s, want %s; expired %v, %s in force", d, s.Freshness, want, m.Expired(), m.rulesInForce())
					}
					if d%5 == 4 {
						m.restart()
						if s := m.State(); s.Freshness != want || m.rulesInForce() != "one" {
							t.Errorf("day %d, after a restart: %s, %s in force", d, s.Freshness, m.rulesInForce())
						}
					}
				}
				if n := strings.Count(m.recorded(), "expired"); n != 1 {
					t.Errorf("it is recorded %d times that it has expired", n)
				}
				// The engine is back, and so is the policy.
				a.must(m.install(a.publish("dev", rules("two"))))
				if s := m.State(); s.Freshness != Fresh || m.Expired() || m.rulesInForce() != "two" {
					t.Errorf("afterwards: %+v", s)
				}
				m.Close()
				m.Policy = openPolicy(m.options, Member{}) // for the cleanup
			})
		})
	}
}

// Each confirmation makes it fresh, and needs no new bundle.
func TestConfirmations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t)
		m := newMachine(t, a)
		a.must(m.install(a.publish("dev", rules("one"))))
		for range 40 {
			time.Sleep(20 * time.Hour)
			if installed, err := m.Install(context.Background(), tuf.Update{Timestamp: a.confirm().Timestamp}); installed || err != nil {
				t.Fatalf("%v, %v", installed, err)
			}
			if s := m.State(); s.Freshness != Fresh || m.rulesInForce() != "one" {
				t.Fatalf("%+v", s)
			}
		}
	})
}

// A clock that is set back makes nothing fresh, whether the daemon runs or not.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmin(t)
		m := newMachine(t, a)
		u := a.publish("dev", rules("one"))
		a.must(m.install(u))
		time.Sleep(31 * day)
		synctest.Wait()
		m.offset.Store(int64(-31 * day))
		if !m.Expired() || m.State().Freshness != Expired {
			t.Error("while the daemon runs, it is no longer expired")
		}
		time.Sleep(time.Hour)
		if m.install(u) == nil || m.State().Freshness != Expired {
			t.Error("what has expired confirms")
		}
		m.restart()
		if !m.Expired() || m.State().Freshness != Expired {
			t.Errorf("after a restart: %s", m.State().Freshness)
		}
		if m.install(u) == nil {
			t.Error("after a restart, what has expired confirms")
		}
		// Set back at every moment, time still passes.
		b := newMachine(t, a)
		a.must(b.install(a.confirm()))
		for range 31 {
			time.Sleep(day)
			b.offset.Add(int64(-day))
		}
		synctest.Wait()
		if b.State().Freshness != Expired {
			t.Errorf("a clock that stands still: %s", b.State().Freshness)
		}
	})
}

// A machine that does not know its fleet's policy denies everything, and says what to do.
func TestDamaged(t *testing.T) {
	tests := map[string]func(path string) error{
		"gone":    os.Remove,
		"cut off": func(path string) error { return os.Truncate(path, 100) },
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"altered": func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, bytes.Replace(text, []byte(`"Target":"ey`), []byte(`"Target":"eX`), 1), 0o600))
		},
		"another version": func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, bytes.Replace(text, []byte(`{"v":1`), []byte(`{"v":2`), 1), 0o600))
		},
		"another group": func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, bytes.Replace(text, []byte(`"group":"dev"`), []byte(`"group":"ops"`), 1), 0o600))
		},
		"clock": func(path string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(path), clockFile), []byte("{}"), 0o600)
		},
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAdmin(t)
			m := newMachine(t, a)
			u := a.publish("dev", rules("one"))
			a.must(m.install(u))
			a.must(damage(filepath.Join(m.dir, policyFile)))
			m.restart()
			if m.rulesInForce() != "damaged" {
				t.Fatalf("%q is in force", m.rulesInForce())
			}
			if s := m.State(); !strings.Contains(s.Failure, "tgctl fleet leave") {
				t.Errorf("it does not say what to do: %q", s.Failure)
			}
			if m.install(u) == nil || m.rulesInForce() != "damaged" {
				t.Error("the engine mends it, which forgets what was verified")
			}
			a.must(m.Leave())
			a.must(m.Join(m.member, a.Roots[0]))
			if err := m.install(u); err != nil || m.rulesInForce() != "one" {
				t.Errorf("after joining again: %v, %s", err, m.rulesInForce())
			}
		})
	}
}

func TestJoinWantsTheRootOfTheToken(t *testing.T) {
	a := newAdmin(t)
	m := newMachine(t, a)
	a.must(m.Leave())
	if err := m.Join(m.member, append(bytes.Clone(a.Roots[0]), ' ')); !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// A daemon that is killed at any moment of an install leaves the policy before or the new one, in
// force and on disk, and never accepts the older one afterwards.
func TestKilledInstalls(t *testing.T) {
	if step := os.Getenv("FLEET_KILLED_AT"); step != "" {
		killedAt(t, step)
	}
	for _, step := range []string{"verified", "recorded", "written", "in force"} {
		t.Run(step, func(t *testing.T) {
			a := newAdmin(t)
			m := newMachine(t, a)
			old := a.publish("dev", rules("one"))
			a.must(m.install(old))
			u := a.publish("dev", rules("two"))
			m.Close()
			a.must(os.WriteFile(filepath.Join(m.dir, "member"), forms.Encode(&m.member), 0o600))
			a.must(os.WriteFile(filepath.Join(m.dir, "update"), forms.Encode(&u), 0o600))
			cmd := exec.Command(os.Args[0], "-test.run=^TestKilledInstalls$")
			cmd.Env = append(os.Environ(), "FLEET_KILLED_AT="+step, "FLEET_DIR="+m.dir)
			if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != -1 {
				t.Fatalf("it was not killed: %v\n%s", err, out)
			}
			m.use("-")
			m.Policy = openPolicy(m.options, m.member)
			want := map[string]string{"verified": "one", "recorded": "one", "written": "two", "in force": "two"}[step]
			if got := m.rulesInForce(); got != want {
				t.Errorf("%s is in force, want %s", got, want)
			}
			if err := m.install(u); err != nil || m.rulesInForce() != "two" {
				t.Errorf("%v, %s", err, m.rulesInForce())
			}
			if m.install(old) == nil || m.rulesInForce() != "two" {
				t.Error("the older one is accepted")
			}
		})
	}
}

// killedAt installs a policy and is killed at a step.
func killedAt(t *testing.T, step string) {
	m := &machine{TB: t, dir: os.Getenv("FLEET_DIR")}
	read := func(name string, into any) {
		text, err := os.ReadFile(filepath.Join(m.dir, name))
		if err == nil {
			err = forms.Decode(text, 1<<20, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var u tuf.Update
	read("member", &m.member)
	read("update", &u)
	m.options = PolicyOptions{
		Dir: m.dir, Recorder: m, Check: func(b *forms.Bundle, _ func() bool) (func(), error) { return func() { m.use(b.Rules) }, nil },
		Step: func(name string) {
			if name == step {
				self, err := os.FindProcess(os.Getpid())
				if err := errors.Join(err, self.Kill()); err != nil {
					t.Error(err)
				}
				select {}
			}
		},
	}
	p := openPolicy(m.options, m.member)
	_, err := p.Install(context.Background(), u)
	t.Fatalf("installed: %v", err)
}
