// Package fleet is this machine's membership in a fleet: who it is there, which of its records
// leave, and the questions that colleagues answer, on this machine and on others.
//
// Nothing that comes from the engine or its courier is believed for where it comes from. A
// decision counts by the signature of an approver whom the policy in force names, over exactly
// the question that was asked.
package fleet

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	forms "github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/secret"
)

// Member is what this machine is in a fleet. The zero Member is in none.
type Member struct {
	V      int        `json:"v"`      // memberVersion
	Device string     `json:"device"` // its public key there, an NKEY
	Fleet  string     `json:"fleet"`
	Group  string     `json:"group"`
	Mode   forms.Mode `json:"mode"`
	Engine []string   `json:"engine,omitempty"` // addresses
	Policy string     `json:"policy,omitempty"` // instead of an engine: the address from which the policy comes
	OTLP   string     `json:"otlp,omitempty"`   // likewise: the address that records go to; empty: they stay
	Root   string     `json:"root"`             // hex SHA-256 of the first root metadata
	Values bool       `json:"values"`           // the user has agreed that records leave with values
	Joined int64      `json:"joined"`           // Unix time
	Log    string     `json:"log"`              // the audit log in which the join is
	Since  uint64     `json:"since"`            // its record; no earlier one leaves
	Label  string     `json:"label"`            // user and machine, as approvers are shown them
}

const (
	memberVersion = 1
	memberFile    = "member.json"
)

// Joins reports whether the machine is in a fleet.
func (m *Member) Joins() bool { return m.Device != "" }

// Sends reports whether records leave this machine.
func (m *Member) Sends() bool { return len(m.Engine) > 0 || m.OTLP != "" }

// Check returns an error unless m can be a membership.
func (m *Member) Check() error {
	if m.Mode != forms.ModeFloor && m.Mode != forms.ModeFull {
		return errors.New("the mode is neither floor nor full")
	}
	return cmp.Or(forms.CheckDevice(m.Device), forms.CheckName(m.Fleet), forms.CheckName(m.Group), forms.CheckPlaces(m.Engine, m.Policy, m.OTLP), forms.CheckHash(m.Root))
}

// Rules is what the policy of the fleet that is in force says to a membership.
type Rules interface {
	// Approvers returns who may answer questions of this machine.
	Approvers() []forms.Approver
	// SendsValues reports whether records leave with values, if the user has agreed.
	SendsValues() bool
	// Changed returns a channel that is closed when another policy is in force.
	Changed() <-chan struct{}
	// Join makes the root metadata, which have the digest of m, those by which policies are verified.
	// It is called before the machine is a member.
	Join(m Member, root []byte) error
	// Leave removes the policy and what it was verified with.
	Leave() error
}

// Queue holds the questions of the daemon.
type Queue interface {
	Watch(ctx context.Context) iter.Seq2[store.Question, error]
	StatementOf(ctx context.Context, id string) ([]byte, error)
	DecideSigned(ctx context.Context, s gate.Signed) (store.Question, error)
	AskForeign(ctx context.Context, asked store.Question) (store.Question, error)
}

// Options configures a Membership.
type Options struct {
	Dir      string // of its files
	Recorder gate.Recorder
	Logger   *slog.Logger
	Now      func() time.Time
	Label    string // the user and the machine, as approvers are shown them
	// Head returns the end of the audit log.
	Head func() record.Head
	// Redact returns a text, and JSON, without the secrets recognized in it.
	Redact     func(text string) string
	RedactJSON func(params []byte) []byte
	// Presence reports whether a secret proves presence on this machine.
	Presence gate.Presence
	// Foreign returns how the people of this machine are asked the questions of others.
	Foreign func() Asking
}

// Asking is how the people of this machine are asked about calls of others: the settings of a
// workflow.
type Asking struct {
	Workflow string
	Surfaces []string // where an approval may come from; empty: anywhere
	Level    gate.Level
}

// Membership is the membership of this machine. Its methods are safe for concurrent use.
type Membership struct {
	o    Options
	path string

	rules Rules // set by Use, as queue; nil: there are none
	queue Queue

	changing sync.Mutex // held by Join and Leave

	mu      sync.Mutex // guards the fields below
	member  Member
	changed chan struct{} // closed at the next change
	reaches int           // couriers that watch questions
	sent    record.Head   // what the engine has stored, as the courier says; of Log
	refused refusals
}

// Open reads the membership that a previous daemon left. A file that can't be read is an error: a
// daemon without the policy of its fleet would be looser than the user and the organization think.
func Open(o Options) (*Membership, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	m := &Membership{o: o, path: filepath.Join(o.Dir, memberFile), changed: make(chan struct{})}
	text, err := secret.ReadFile(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = forms.Decode([]byte(text), secret.MaxFileBytes, &m.member)
	}
	if err == nil && m.member.V != memberVersion {
		err = fmt.Errorf("%w: %d; this daemon knows version %d", gate.ErrVersion, m.member.V, memberVersion)
	}
	if err == nil {
		err = m.member.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("read the membership in a fleet, %s: %w; restore the file, or remove it and join again", m.path, err)
	}
	return m, nil
}

// Use sets the queue and the policy, before the first call.
func (m *Membership) Use(queue Queue, rules Rules) { m.queue, m.rules = queue, rules }

// Member returns the membership now, and a channel that is closed when it changes.
func (m *Membership) Member() (Member, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.member, m.changed
}

// joined returns the membership, or gate.ErrNoFleet.
func (m *Membership) joined() (Member, error) {
	member, _ := m.Member()
	if !member.Joins() {
		return Member{}, gate.ErrNoFleet
	}
	return member, nil
}

// set puts a membership in force. m.changing must be held.
func (m *Membership) set(member Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.member, m.sent = member, record.Head{}
	close(m.changed)
	m.changed = make(chan struct{})
}

// Join makes this machine a member, with the root metadata by which policies are verified. by is
// who does it, as the kernel showed it, and level what they have proved. Nothing is joined that is
// not on record.
func (m *Membership) Join(ctx context.Context, as Member, root []byte, by string, level gate.Level) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	if now, _ := m.Member(); now.Joins() {
		return fmt.Errorf("join a fleet: this machine is in the fleet %s already; leave it first: %w", now.Fleet, gate.ErrDecided)
	}
	if err := as.Check(); err != nil {
		return fmt.Errorf("join a fleet: %w: %w", err, gate.ErrInvalid)
	}
	if forms.Digest(root) != as.Root {
		return fmt.Errorf("join a fleet: the root metadata are not those that the token names: %w", gate.ErrForbidden)
	}
	ctx = context.WithoutCancel(ctx)
	if m.rules != nil {
		if err := m.rules.Join(as, root); err != nil {
			return fmt.Errorf("join a fleet: %w", err)
		}
	}
	r := m.recordMembership(&as, "joined", by, level)
	if err := m.o.Recorder.Record(ctx, r, nil, nil); err != nil {
		return errors.Join(fmt.Errorf("join a fleet: record it: %w", err), m.forgetRules())
	}
	as.V, as.Joined, as.Log, as.Since, as.Label = memberVersion, m.o.Now().Unix(), m.o.Head().Log, r.Seq, clip(m.o.Label, maxLabel)
	if err := secret.WriteFile(m.path, forms.Encode(&as)); err != nil {
		left := m.recordMembership(&as, "left", by, level)
		left.Reason += "; the join could not be saved"
		return errors.Join(fmt.Errorf("join a fleet: %w", err), m.o.Recorder.Record(ctx, left, nil, nil), m.forgetRules())
	}
	m.set(as)
	return nil
}

// forgetRules removes the policy of a fleet in which this machine is not, or no longer.
func (m *Membership) forgetRules() error {
	if m.rules == nil {
		return nil
	}
	return m.rules.Leave()
}

// Leave ends the membership. What the fleet has asked of this machine ends with it.
func (m *Membership) Leave(ctx context.Context, by string, level gate.Level) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	now, err := m.joined()
	if err != nil {
		return fmt.Errorf("leave a fleet: %w", err)
	}
	ctx = context.WithoutCancel(ctx)
	if err := m.o.Recorder.Record(ctx, m.recordMembership(&now, "left", by, level), nil, nil); err != nil {
		return fmt.Errorf("leave a fleet: record it: %w", err)
	}
	if err := remove(m.path); err != nil {
		return fmt.Errorf("leave a fleet: %w", err)
	}
	m.set(Member{})
	if err := m.forgetRules(); err != nil {
		return fmt.Errorf("left the fleet; its policy is still there: %w", err)
	}
	return nil
}

// recordMembership returns the record of a change of the membership.
func (m *Membership) recordMembership(of *Member, verdict, by string, level gate.Level) *record.Record {
	leaves := "records leave without values"
	if of.Values {
		leaves = "records leave with values, if the policy says so"
	}
	switch {
	case !of.Sends():
		leaves = "no records leave"
	case of.OTLP != "":
		leaves += ", to " + of.OTLP
	}
	if of.Policy != "" {
		leaves += "; policy from " + of.Policy
	}
	return &record.Record{
		Kind: record.KindFleet, Verdict: verdict, Decider: by, Level: string(level),
		Reason: fmt.Sprintf("fleet %s, group %s, mode %s, as %s; %s", of.Fleet, of.Group, of.Mode, of.Device, leaves),
		Digest: of.Root,
	}
}

// State is what a person and the courier are told of the membership.
type State struct {
	Member
	Head    record.Head // of the audit log
	Values  bool        // records leave with values now
	Reaches bool        // a courier carries questions to colleagues
}

// State returns the state now. The other result is closed when the membership or the policy
// changes.
func (m *Membership) State() (State, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := State{Member: m.member, Head: m.o.Head(), Reaches: m.reaches > 0}
	s.Values = m.member.Values && m.member.Sends() && m.rules != nil && m.rules.SendsValues()
	return s, m.changed
}

// RulesChanged returns a channel that is closed when another policy of the fleet is in force; nil
// if there can be none.
func (m *Membership) RulesChanged() <-chan struct{} {
	if m.rules == nil {
		return nil
	}
	return m.rules.Changed()
}

// remove removes a file so that a power failure does not bring it back.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// hexOf returns the hexadecimal form of a digest; empty if it is zero.
func hexOf(digest [32]byte) string {
	if digest == ([32]byte{}) {
		return ""
	}
	return hex.EncodeToString(digest[:])
}
