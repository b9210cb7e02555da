package daemon

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/fleet"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	forms "github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/test/sshkey"
	"github.com/thoughtgate/thoughtgated/internal/tuf"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// publisher is a test fixture: it signs the policies of a fleet with one key.
type publisher struct {
	testing.TB
	tuf.Repository
	key     ed25519.PrivateKey
	mode    forms.Mode
	version uint64
}

func newPublisher(t testing.TB, mode forms.Mode) *publisher {
	seed := sha256.Sum256([]byte("fleet"))
	p := &publisher{TB: t, key: ed25519.NewKeyFromSeed(seed[:]), mode: mode}
	s := tuf.Signers{Keys: []ed25519.PublicKey{p.key.Public().(ed25519.PublicKey)}, Threshold: 1}
	year := time.Now().AddDate(1, 0, 0)
	p.must(p.AddRoot(tuf.Roles{Root: s, Timestamp: s, Snapshot: s, Targets: s}, year, p.key))
	p.must(p.Delegate([]tuf.Group{{Name: "dev", Paths: []string{"dev/*"}, Signers: s}}, year, p.key))
	return p
}

func (p *publisher) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *publisher) publish(rules string, cedar ...string) tuf.Update {
	p.Helper()
	p.version++
	b := &forms.Bundle{V: forms.BundleVersion, Fleet: "acme", Group: "dev", Mode: p.mode, Version: p.version, Rules: rules, Values: forms.ValuesNone, Overflow: forms.OverflowRefuse}
	for _, text := range cedar {
		b.Cedar = append(b.Cedar, forms.File{Name: "fleet.cedar", Text: text})
	}
	year := time.Now().AddDate(1, 0, 0)
	p.must(p.Publish("dev", map[string][]byte{"dev/bundle.json": b.Encode()}, year, p.key))
	p.must(p.Collect(year, p.key))
	p.must(p.Confirm(time.Now().AddDate(0, 0, 7), p.key))
	return p.Update("dev", "dev/bundle.json", 1)
}

func (p *publisher) member() fleet.Member {
	digest := sha256.Sum256(p.Roots[0])
	return fleet.Member{
		V: 1, Device: "U" + strings.Repeat("A", 55), Fleet: "acme", Group: "dev", Mode: p.mode, Engine: []string{"tls://engine.example:4222"},
		Root: hex.EncodeToString(digest[:]),
	}
}

// A policy that is installed denies the next call, in a daemon with an agent attached, and a reload
// does not lose it.
func TestInstalledFloorDenies(t *testing.T) {
	v := newVerdicts(t, true)
	v.reads("src/main.go")
	p := newPublisher(t, forms.ModeFloor)
	d := v.daemon
	p.must(d.fleet.Join(context.Background(), p.member(), p.Roots[0], "a test", gate.LevelWatch))
	v.judge(t)
	next := func() gate.Verdict {
		v.seq++
		s := v.lines[0]
		s.Seq = v.seq
		v.attached.Submit(s)
		return v.last
	}
	if _, err := d.fleetPolicy.Install(context.Background(), p.publish("schema: 1\ngovernance: {rules: [{match: read_file, action: deny, description: \"no reading today\"}]}\n")); err != nil {
		t.Fatal(err)
	}
	if got := next(); got.Move != gate.Deny || !strings.Contains(string(got.Answer), "no reading today") || !strings.Contains(string(got.Answer), "of the fleet") {
		t.Errorf("%+v: %s", got.Move, got.Answer)
	}
	if _, _, err := d.policies.Reload(context.Background(), "a test"); err != nil {
		t.Fatal(err)
	}
	if got := next(); got.Move != gate.Deny {
		t.Errorf("after a reload: %v", got.Move)
	}
	if set := d.policies.Describe(); set.Fleet != "floor" {
		t.Errorf("%+v", set)
	}
	for name, lie := range map[string]string{"forward": "schema: 1\ngovernance: {rules: [{match: x, action: forward}]}", "not yaml": "{"} {
		if _, err := d.fleetPolicy.Install(context.Background(), p.publish(lie)); err == nil || !strings.Contains(err.Error(), "dev.yaml:") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := next(); got.Move != gate.Deny {
		t.Errorf("after refused policies: %v", got.Move)
	}
	p.must(d.fleet.Leave(context.Background(), "a test", gate.LevelWatch))
	if got := next(); got.Move != gate.Forward {
		t.Errorf("after leaving: %v", got.Move)
	}
	if set := d.policies.Describe(); set.Fleet != "" {
		t.Errorf("%+v", set)
	}
}

// Who publishes a policy hears of a workflow for colleagues whom nobody has named.
func TestValidateBundle(t *testing.T) {
	p := &policies{}
	b := &forms.Bundle{V: forms.BundleVersion, Fleet: "acme", Group: "dev", Mode: forms.ModeFloor, Version: 1, Values: forms.ValuesNone, Overflow: forms.OverflowRefuse, Rules: `schema: 1
governance: {rules: [{match: "drop_*", action: approve, approval: leads}]}
approval:
  leads: {surfaces: [colleague]}
`}
	for _, tt := range []struct {
		approvers []forms.Approver
		want      string
	}{
		{nil, `dev.yaml:4:3: warning: the workflow "leads" takes answers from colleagues, and the group dev has no approvers; name them: tgctl fleet policy publish FOLDER --group dev --approvers FILE`},
		{[]forms.Approver{{Name: "bob", SSH: sshkey.New(t).Line(), Age: "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"}}, ""},
	} {
		b.Approvers = tt.approvers
		var got []string
		for _, d := range p.ValidateBundle(b.Encode()) {
			got = append(got, d.String())
		}
		if strings.Join(got, "\n") != tt.want {
			t.Errorf("%d approvers: %q, want %q", len(tt.approvers), got, tt.want)
		}
	}
}

// Without a fleet's policy a verdict costs what it did; with one, little more.
//
//gotest:plain pools drop items at random under the race detector
func TestFloorAllocatesLittle(t *testing.T) {
	v := newVerdicts(t, false)
	v.reads("src/main.go")
	p := newPublisher(t, forms.ModeFloor)
	p.must(v.daemon.fleet.Join(context.Background(), p.member(), p.Roots[0], "a test", gate.LevelWatch))
	_, err := v.daemon.fleetPolicy.Install(context.Background(), p.publish("schema: 1\ngovernance: {rules: [{match: \"drop_*\", action: deny}]}\n"))
	p.must(err)
	call := func() {
		v.judge(t)
		v.outcome()
	}
	for range 64 {
		call()
	}
	if got := rig.Allocations(500, call); int(got) > mostAllocations+8 {
		t.Errorf("a verdict with a floor takes %.1f allocations", got)
	}
}

// Day by day without the engine, in both modes: what is forwarded, asked about and denied.
func TestVerdictsOfThirtyDays(t *testing.T) {
	own := func() *policy.Set {
		cfg, ds := config.Parse("/nowhere/thoughtgate.yaml", []byte(`schema: 1
governance:
  rules:
    - {match: read, action: forward}
    - {match: send, action: approve}
    - {match: "*", action: deny}
`), func(string) string { return "" })
		if cfg == nil {
			t.Fatal(ds)
		}
		set, ds := policy.Load(cfg)
		if set == nil {
			t.Fatal(ds)
		}
		return set
	}()
	for mode, want := range map[forms.Mode]struct{ rules, fresh, expired string }{
		forms.ModeFull:  {"schema: 1\ngovernance: {rules: [{match: drop, action: deny}], defaults: {action: forward}}\n", "read forward, send forward, post forward, drop deny", "read forward, send ask, post ask, drop deny"},
		forms.ModeFloor: {"schema: 1\ngovernance: {rules: [{match: read, action: approve}]}\n", "read ask, send ask, post deny, drop deny", "read ask, send ask, post deny, drop deny"},
	} {
		t.Run(string(mode), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				p := newPublisher(t, mode)
				judges := own
				rules := &policies{}
				f := fleet.NewPolicy(fleet.PolicyOptions{
					Dir: dir, Recorder: nowhere{}, Remove: func() {}, Damaged: func(err error) { t.Error(err) },
					Check: func(b *forms.Bundle, expired func() bool) (func(), error) {
						combine, err := rules.combine(b, expired)
						return func() { judges = combine(own) }, err
					},
				})
				defer f.Close()
				p.must(f.Join(p.member(), p.Roots[0]))
				_, err := f.Install(context.Background(), p.publish(want.rules))
				p.must(err)
				for day := range 32 {
					expected := want.fresh
					if day >= 30 {
						expected = want.expired
					}
					if got := verdictsOf(t, judges, "read", "send", "post", "drop"); got != expected {
						t.Errorf("day %d: %s, want %s", day, got, expected)
					}
					time.Sleep(24 * time.Hour)
				}
				_, err = f.Install(context.Background(), p.publish(want.rules+"# again\n"))
				p.must(err)
				if got := verdictsOf(t, judges, "read", "send", "post", "drop"); got != want.fresh {
					t.Errorf("with the engine again: %s, want %s", got, want.fresh)
				}
			})
		})
	}
}

// toolCall returns a call of a tool.
func toolCall(t *testing.T, tool string) *gate.Call {
	t.Helper()
	c := &gate.Call{
		Message: gate.Message{Received: time.Now(), Side: wire.FromAgent, Method: "tools/call", Subject: tool, Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q}}`, tool)},
		Case:    gate.Case{Agent: "claude-code", Server: "x", Profile: gate.Production},
	}
	if err := wire.Read(c.Line, wire.FromAgent, &c.Envelope); err != nil {
		t.Fatal(err)
	}
	return c
}

// verdictsOf judges calls of tools, and returns the moves.
func verdictsOf(t *testing.T, set *policy.Set, tools ...string) string {
	t.Helper()
	var all []string
	for _, tool := range tools {
		r, err := set.Rule(context.Background(), toolCall(t, tool), nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tool+" "+r.Move.String())
	}
	return strings.Join(all, ", ")
}
