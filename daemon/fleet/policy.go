package fleet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	forms "github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/secret"
	"github.com/thoughtgate/thoughtgated/internal/tuf"
)

// Freshness says how long ago the fleet's policy was confirmed.
type Freshness string

const (
	Unconfirmed Freshness = ""        // no policy was installed yet
	Fresh       Freshness = "fresh"   // within 24 hours
	Stale       Freshness = "stale"   // within 7 days
	Old         Freshness = "old"     // within 30 days
	Expired     Freshness = "expired" // longer ago: what only the fleet forwards asks
)

const (
	freshFor = 24 * time.Hour
	staleFor = 7 * 24 * time.Hour
	oldFor   = 30 * 24 * time.Hour
)

// freshnessOf returns the freshness of what was confirmed so long ago.
func freshnessOf(age time.Duration) Freshness {
	switch {
	case age < freshFor:
		return Fresh
	case age < staleFor:
		return Stale
	case age < oldFor:
		return Old
	}
	return Expired
}

// PolicyOptions configures a Policy.
type PolicyOptions struct {
	Dir string // of its files
	// Check compiles a bundle. It returns what puts it in force, which must not fail. expired is
	// Policy.Expired.
	Check func(b *forms.Bundle, expired func() bool) (put func(), err error)
	// Remove takes the fleet's policy out of force.
	Remove func()
	// Damaged has every call denied, because the fleet's policy is not known.
	Damaged  func(why error)
	Recorder gate.Recorder
	Logger   *slog.Logger
	Now      func() time.Time  // the clock of the machine
	Step     func(name string) // nil except in tests
}

// Policy is the fleet's policy on this machine: what was verified, which bundle is in force, and
// how fresh it is. Its methods are safe for concurrent use.
//
// What is in force is on disk before, and is verified again by the next daemon. It stands until a
// newer one is verified: neither time nor anything that the engine does takes it away.
type Policy struct {
	o       PolicyOptions
	path    string
	looking func() // stops looking at the time

	expires atomic.Int64 // Unix time from which it is expired; 0: never

	changing sync.Mutex // held by Join, Leave and Install

	mu      sync.Mutex // guards the fields below
	member  Member
	trusted *tuf.Trusted  // nil unless joined
	bundle  *forms.Bundle // nil until one is in force
	kept    kept
	clock   *clock
	fresh   Freshness
	failure string
	damaged error
	changed chan struct{} // closed at the next change
	refused time.Time     // when a refusal was recorded
}

// kept is the content of the file of a Policy.
type kept struct {
	V     int        `json:"v"` // policyVersion
	Fleet string     `json:"fleet"`
	Group string     `json:"group"`
	Mode  forms.Mode `json:"mode"`
	Root  string     `json:"root"` // hex SHA-256 of the first root metadata
	// Confirmed is the Unix time at which the timestamp ConfirmedBy came, the newest one.
	Confirmed   int64      `json:"confirmed"`
	ConfirmedBy uint64     `json:"confirmed_by"`
	TUF         tuf.Stored `json:"tuf"`
}

const (
	policyVersion  = 1
	policyFile     = "policy.json"
	maxPolicyBytes = 64 << 20
	// tickEvery is how often the freshness is looked at.
	tickEvery = 5 * time.Minute
	// A refusal is recorded this long after the one before; the same one, after refusedEvery.
	refusedGap   = time.Minute
	refusedEvery = time.Hour
)

// NewPolicy returns a Policy with nothing in force. Close must be called.
func NewPolicy(o PolicyOptions) *Policy {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	p := &Policy{o: o, path: filepath.Join(o.Dir, policyFile), changed: make(chan struct{})}
	p.looking = runEvery(tickEvery, p.look)
	return p
}

// Start puts the policy in force that a previous daemon has left for a membership. If it can't be
// verified, every call is denied until the machine has left the fleet.
func (p *Policy) Start(member Member) {
	p.changing.Lock()
	defer p.changing.Unlock()
	if p.member = member; !member.Joins() {
		return
	}
	if err := p.load(); err != nil {
		p.mu.Lock()
		p.damaged = fmt.Errorf("the policy of the fleet %s is not known: %w; run tgctl fleet leave, and join again", member.Fleet, err)
		p.clock = nil
		p.mu.Unlock()
		p.o.Logger.Error("every call is denied", "component", "fleet", "err", p.damaged)
		p.o.Damaged(p.damaged)
	}
}

// Close stops looking at the time, and returns when that has ended.
func (p *Policy) Close() { p.looking() }

// runEvery calls do at intervals in a goroutine, until the returned function is called, which waits
// for it.
func runEvery(interval time.Duration, do func()) (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
				do()
			}
		}
	}()
	return func() {
		close(end)
		<-done
	}
}

// look looks how fresh the policy is.
func (p *Policy) look() {
	p.mu.Lock()
	if p.clock == nil {
		p.mu.Unlock()
		return
	}
	before := p.fresh
	p.judge(p.clock.now())
	if err := p.clock.save(); err != nil {
		p.o.Logger.Error("a clock that is set back may go unnoticed", "component", "fleet", "err", err)
	}
	now, r := p.fresh, p.record("expired", "the policy was not confirmed for 30 days: what only the fleet forwards asks")
	p.mu.Unlock()
	if now == Expired && before != Expired {
		p.note(context.Background(), r)
	}
}

// judge sets how fresh the policy is at now. p.mu must be held.
func (p *Policy) judge(now time.Time) {
	fresh, expires := Unconfirmed, int64(0)
	if p.bundle != nil {
		confirmed := time.Unix(p.kept.Confirmed, 0)
		if fresh, expires = freshnessOf(now.Sub(confirmed)), confirmed.Add(oldFor).Unix(); fresh == Expired {
			expires = 1 // whatever the machine's clock says
		}
	}
	p.expires.Store(expires)
	if fresh != p.fresh {
		p.fresh = fresh
		p.notify()
	}
}

// notify tells everybody who waits for a change. p.mu must be held.
func (p *Policy) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Expired reports whether the policy was not confirmed for 30 days. It is fast.
func (p *Policy) Expired() bool {
	at := p.expires.Load()
	return at > 0 && (at == 1 || p.o.Now().Unix() >= at)
}

// load reads and verifies what a previous daemon has left, and puts it in force. p.changing must be
// held.
func (p *Policy) load() error {
	clock, err := newClock(p.o.Dir, p.o.Now)
	if err != nil {
		return err
	}
	text, err := readFile(p.path, maxPolicyBytes)
	if err != nil {
		return err
	}
	var is kept
	if err := forms.Decode(text, maxPolicyBytes, &is); err != nil {
		return fmt.Errorf("read %s: %w", p.path, err)
	}
	m := &p.member
	switch {
	case is.V != policyVersion:
		return fmt.Errorf("read %s: it has version %d; this daemon knows version %d", p.path, is.V, policyVersion)
	case is.Fleet != m.Fleet || is.Group != m.Group || is.Mode != m.Mode || is.Root != m.Root:
		return fmt.Errorf("read %s: it is of another membership", p.path)
	}
	digest, err := rootDigest(is.Root)
	if err != nil {
		return err
	}
	trusted, err := tuf.Load(is.TUF, digest, m.Group, forms.BundlePath(m.Group))
	if err != nil {
		return fmt.Errorf("verify what was in force, %s: %w", p.path, err)
	}
	var bundle *forms.Bundle
	put := func() {}
	if trusted.Target() != nil {
		if bundle, put, err = p.check(trusted); err != nil {
			return fmt.Errorf("use what was in force: %w", err)
		}
	}
	if confirmed := time.Unix(is.Confirmed, 0); clock.seen.Before(confirmed) {
		clock.seen = confirmed
	}
	p.mu.Lock()
	p.trusted, p.kept, p.bundle, p.clock = trusted, is, bundle, clock
	p.judge(clock.now())
	p.mu.Unlock()
	put()
	return nil
}

// readFile reads a file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was opened for reading
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return text, err
}

func rootDigest(text string) (digest [32]byte, err error) {
	if err := forms.CheckHash(text); err != nil {
		return digest, fmt.Errorf("the root of the fleet: %w", err)
	}
	_, err = hex.Decode(digest[:], []byte(text))
	return digest, err
}

// check reads the verified bundle, and compiles it.
func (p *Policy) check(t *tuf.Trusted) (*forms.Bundle, func(), error) {
	b, err := forms.ParseBundle(t.Target())
	if err != nil {
		return nil, nil, err
	}
	switch m := &p.member; {
	case b.Fleet != m.Fleet || b.Group != m.Group:
		return nil, nil, fmt.Errorf("the bundle is for %s of the fleet %s, and this machine is in %s of %s", b.Group, b.Fleet, m.Group, m.Fleet)
	case b.Mode != m.Mode:
		return nil, nil, fmt.Errorf("the bundle has mode %s, and this machine has joined with mode %s; to change it, leave and join again", b.Mode, m.Mode)
	}
	put, err := p.o.Check(b, p.Expired)
	return b, put, err
}

// Join begins to trust the fleet of a membership that has not begun yet: root is its first root
// metadata. The membership must be saved after it.
func (p *Policy) Join(member Member, root []byte) error {
	p.changing.Lock()
	defer p.changing.Unlock()
	digest, err := rootDigest(member.Root)
	if err != nil {
		return fmt.Errorf("join a fleet: %w: %w", err, gate.ErrInvalid)
	}
	trusted, err := tuf.Begin(root, digest, member.Group, forms.BundlePath(member.Group))
	if err != nil {
		return fmt.Errorf("join a fleet: %w: %w", err, gate.ErrInvalid)
	}
	if err := remove(filepath.Join(p.o.Dir, clockFile)); err != nil { // of a membership before
		return fmt.Errorf("join a fleet: %w", err)
	}
	c, err := newClock(p.o.Dir, p.o.Now)
	if err != nil {
		return fmt.Errorf("join a fleet: %w", err)
	}
	is := kept{V: policyVersion, Fleet: member.Fleet, Group: member.Group, Mode: member.Mode, Root: member.Root, TUF: trusted.Stored()}
	if err := secret.WriteFile(p.path, forms.Encode(&is)); err != nil {
		return fmt.Errorf("join a fleet: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.member, p.trusted, p.kept, p.bundle, p.clock, p.failure, p.damaged = member, trusted, is, nil, c, "", nil
	p.judge(c.now())
	p.notify()
	return nil
}

// Leave takes the fleet's policy out of force, after the membership has ended.
func (p *Policy) Leave() error {
	p.changing.Lock()
	defer p.changing.Unlock()
	p.mu.Lock()
	p.member, p.trusted, p.kept, p.bundle, p.clock, p.failure, p.damaged = Member{}, nil, kept{}, nil, nil, "", nil
	p.judge(time.Time{})
	p.notify()
	p.mu.Unlock()
	p.o.Remove()
	if err := errors.Join(remove(p.path), remove(filepath.Join(p.o.Dir, clockFile))); err != nil {
		return fmt.Errorf("leave a fleet: remove its policy: %w", err)
	}
	return nil
}

// Install verifies what was published, and puts the bundle in force if it is another one. What is
// not verified changes nothing, but for versions below which nothing is accepted any more.
func (p *Policy) Install(ctx context.Context, u tuf.Update) (installed bool, err error) {
	p.changing.Lock()
	defer p.changing.Unlock()
	p.mu.Lock()
	before, is, damaged := p.trusted, p.kept, p.damaged
	var now time.Time
	if p.clock != nil {
		now = p.clock.now()
	}
	p.mu.Unlock()
	switch {
	case damaged != nil:
		return false, damaged
	case before == nil:
		return false, fmt.Errorf("install a policy: %w", gate.ErrNoFleet)
	}
	next, err := before.Update(u, now)
	var bundle *forms.Bundle
	put := func() {}
	if err == nil {
		bundle, put, err = p.check(next)
	}
	if err != nil {
		return false, p.refuse(ctx, next.Keeping(before), err)
	}
	installed = !bytes.Equal(next.Target(), before.Target())
	if by := next.TimestampVersion(); by != is.ConfirmedBy || is.Confirmed == 0 {
		is.Confirmed, is.ConfirmedBy = now.Unix(), by // the same one again says nothing new
	}
	p.o.Step("verified")
	if err := p.save(ctx, next, is, bundle, installed); err != nil {
		return false, p.refuse(ctx, before, fmt.Errorf("the one before stays in force: %w", err))
	}
	if installed {
		put()
	}
	p.o.Step("in force")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bundle, p.failure = bundle, ""
	p.judge(now)
	p.notify()
	return installed, nil
}

// save records and writes what is about to be in force.
func (p *Policy) save(ctx context.Context, next *tuf.Trusted, is kept, bundle *forms.Bundle, installed bool) error {
	if installed {
		r := p.record("installed", fmt.Sprintf("version %d of the policy", bundle.Version))
		r.Digest = forms.Digest(next.Target())
		if err := p.o.Recorder.Record(context.WithoutCancel(ctx), r, nil, nil); err != nil {
			return fmt.Errorf("record it: %w", err)
		}
	}
	p.o.Step("recorded")
	if err := p.write(next, is); err != nil {
		return err
	}
	p.o.Step("written")
	return nil
}

// write writes what is trusted, if that has changed.
func (p *Policy) write(next *tuf.Trusted, is kept) error {
	is.TUF = next.Stored()
	text := forms.Encode(&is)
	if len(text) > maxPolicyBytes {
		return fmt.Errorf("what must be kept has %d bytes; the maximum is %d", len(text), maxPolicyBytes)
	}
	if !bytes.Equal(text, forms.Encode(&p.kept)) {
		if err := secret.WriteFile(p.path, text); err != nil {
			return fmt.Errorf("write %s: %w", p.path, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trusted, p.kept = next, is
	return nil
}

// refuse keeps what was verified of a refused policy, and says why it was refused.
func (p *Policy) refuse(ctx context.Context, next *tuf.Trusted, why error) error {
	if err := p.write(next, p.kept); err != nil {
		why = errors.Join(why, err)
	}
	p.mu.Lock()
	now := p.clock.now()
	again := p.failure == why.Error() && now.Sub(p.refused) < refusedEvery || now.Sub(p.refused) < refusedGap
	if p.failure = why.Error(); !again {
		p.refused = now
	}
	r := p.record("refused", why.Error())
	p.notify()
	p.mu.Unlock()
	if !again {
		p.note(ctx, r)
	}
	return fmt.Errorf("install a policy: %w: %w", why, gate.ErrInvalid)
}

// record returns a record of the policy. p.mu or p.changing must be held.
func (p *Policy) record(verdict, reason string) *record.Record {
	decider := "engine"
	if p.member.Policy != "" {
		decider = p.member.Policy
	}
	return &record.Record{
		Kind: record.KindFleet, Verdict: verdict, Decider: decider,
		Reason: fmt.Sprintf("fleet %s, group %s, mode %s: %s", p.member.Fleet, p.member.Group, p.member.Mode, reason),
	}
}

// note records what has happened already.
func (p *Policy) note(ctx context.Context, r *record.Record) {
	if err := p.o.Recorder.Record(context.WithoutCancel(ctx), r, nil, nil); err != nil {
		p.o.Logger.Error("record the policy of the fleet", "component", "fleet", "verdict", r.Verdict, "err", err)
	}
}

// PolicyState is what people and the courier are told of the policy.
type PolicyState struct {
	Version   uint64 // of the bundle in force; 0: there is none yet
	Digest    string
	Timestamp uint64 // the highest version that was verified
	Root      uint64
	Confirmed time.Time
	Freshness Freshness
	Failure   string // why the last policy was refused
	Overflow  forms.Overflow
}

// State returns the state now.
func (p *Policy) State() PolicyState {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := PolicyState{Freshness: p.fresh, Failure: p.failure}
	if p.damaged != nil {
		s.Failure = p.damaged.Error()
	}
	if p.trusted != nil {
		s.Timestamp, s.Root = p.trusted.TimestampVersion(), p.trusted.RootVersion()
	}
	if p.bundle != nil {
		s.Version, s.Digest, s.Overflow = p.bundle.Version, forms.Digest(p.trusted.Target()), p.bundle.Overflow
		s.Confirmed = time.Unix(p.kept.Confirmed, 0)
	}
	return s
}

// inForce returns the bundle in force, or an empty one.
func (p *Policy) inForce() *forms.Bundle {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bundle == nil {
		return &forms.Bundle{}
	}
	return p.bundle
}

var _ Rules = (*Policy)(nil)

// Approvers implements Rules.
func (p *Policy) Approvers() []forms.Approver { return p.inForce().Approvers }

// SendsValues implements Rules.
func (p *Policy) SendsValues() bool { return p.inForce().Values == forms.ValuesPreviews }

// Drops reports whether records that were not sent are dropped when the log is full.
func (p *Policy) Drops() bool { return p.inForce().Overflow == forms.OverflowDrop }

// Changed implements Rules. The channel is closed when the freshness changes, too.
func (p *Policy) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}
