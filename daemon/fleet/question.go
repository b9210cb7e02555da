package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	forms "github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Limits of what an approver is shown, in bytes, and how many facts.
const (
	maxLabel  = 256
	maxName   = 1 << 10
	maxReason = 2 << 10
	maxFact   = 512
	maxFacts  = 32
	maxParams = 5 << 10 // the queue shortens them to less
)

// approvers returns who may answer questions of this machine: nobody does for one of their own.
func (m *Membership) approvers(of *Member) []forms.Approver {
	if m.rules == nil {
		return nil
	}
	var all []forms.Approver
	for _, a := range m.rules.Approvers() {
		if !a.Owns(of.Device) {
			all = append(all, a)
		}
	}
	return all
}

// Able implements approval.Colleagues.
func (m *Membership) Able() error {
	member, err := m.joined()
	if err != nil {
		return err
	}
	if len(m.approvers(&member)) == 0 {
		return errors.New("the policy of the fleet names no approver for this machine")
	}
	return nil
}

// Unreachable implements approval.Colleagues.
func (m *Membership) Unreachable() string {
	if err := m.Able(); err != nil {
		return "nobody can approve it now: " + err.Error()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reaches == 0 {
		return "no colleague can be reached now, because this machine is not connected to its fleet"
	}
	return ""
}

// Statement implements approval.Colleagues.
func (m *Membership) Statement(q *store.Question, digest [32]byte) (statement, shown []byte, err error) {
	member, err := m.joined()
	if err != nil {
		return nil, nil, err
	}
	params, whole := m.o.RedactJSON(q.Params), q.ParamsBytes
	if len(params) > maxParams {
		params, whole = params[:maxParams], max(whole, len(params))
	}
	s := forms.Shown{
		V: forms.ShownVersion, From: member.Label, Agent: clip(q.Agent, maxName), Project: m.text(q.Project, maxName), Workflow: q.Workflow,
		Reason: m.text(q.Reason, maxReason), Rule: m.text(q.Rule, maxName), Facts: []string{},
		Params: strings.ToValidUTF8(string(params), ""), ParamsBytes: whole,
	}
	for _, f := range q.Facts[:min(len(q.Facts), maxFacts)] {
		s.Facts = append(s.Facts, m.text(f, maxFact))
	}
	if shown = s.Encode(); len(shown) > forms.MaxShown {
		return nil, nil, fmt.Errorf("what an approver would be shown has %d bytes; the maximum is %d: %w", len(shown), forms.MaxShown, gate.ErrTooLarge)
	}
	nonce := forms.NewNonce()
	asked := forms.Statement{
		V: forms.StatementVersion, Fleet: member.Fleet, Group: member.Group, Device: member.Device,
		Question: forms.QuestionName(q.ID, nonce), Nonce: nonce, Digest: hexOf(digest), Subject: hexOf(q.Subject),
		Server: m.text(q.Server, maxName), Method: q.Method, Tool: m.text(q.Tool, maxName), Definition: hexOf(q.Definition),
		Shown: forms.Digest(shown), Touch: q.Level == string(gate.LevelPresence), Expires: q.Expires.Unix(),
	}
	statement = asked.Encode()
	if _, err := forms.ParseQuestion(statement); err != nil {
		return nil, nil, err
	}
	return statement, shown, nil
}

// text returns a text as it may leave: without secrets, and short.
func (m *Membership) text(text string, limit int) string { return clip(m.o.Redact(text), limit) }

// clip returns the beginning of text, in whole runes.
func clip(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// Asked is a question that colleagues may answer.
type Asked struct {
	ID         string // as it travels
	Statement  []byte // nil once it no longer waits, as the fields below
	Shown      []byte
	Recipients []string
	Expires    time.Time
	End        string // how it ended; empty while it waits
}

// Watch yields every question that waits for a colleague, then each change, until ctx, the
// membership or the policy ends. Who watches says that colleagues can be reached: it must not be
// called without a connection to the engine.
func (m *Membership) Watch(ctx context.Context) iter.Seq2[Asked, error] {
	return func(yield func(Asked, error) bool) {
		ctx, end := m.UntilChange(ctx)
		defer end()
		member, err := m.joined()
		if err != nil {
			yield(Asked{}, err)
			return
		}
		defer m.reach()()
		waits := map[string]bool{}
		for q, err := range m.queue.Watch(ctx) {
			if err != nil {
				yield(Asked{}, err)
				return
			}
			if o, ok := m.openOf(&member, &q, waits); ok && !yield(o, nil) {
				return
			}
		}
	}
}

// errPolicyChanged ends streams that depend on who may answer.
var errPolicyChanged = fmt.Errorf("the membership or the policy of the fleet has changed, watch again: %w", gate.ErrNotRunning)

// UntilChange returns a context that ends when the membership or the policy changes. end must be
// called; it waits for the goroutine that looks.
func (m *Membership) UntilChange(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	_, changed := m.Member()
	rules := m.RulesChanged()
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-changed:
			cancel(errPolicyChanged)
		case <-rules:
			cancel(errPolicyChanged)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// reach counts a courier until the returned function is called.
func (m *Membership) reach() (end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reaches++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.reaches--
	}
}

// openOf returns what a courier is told of a question, and false for one that does not concern it.
func (m *Membership) openOf(member *Member, q *store.Question, waits map[string]bool) (Asked, bool) {
	if len(q.Statement) == 0 || q.Device != "" {
		return Asked{}, false
	}
	asked, err := forms.ParseQuestion(q.Statement)
	if err != nil || asked.Device != member.Device {
		return Asked{}, false // of an earlier membership
	}
	if q.State != store.StateOpen {
		was := waits[asked.Question]
		delete(waits, asked.Question)
		return Asked{ID: asked.Question, End: string(q.State)}, was
	}
	o := Asked{ID: asked.Question, Statement: q.Statement, Shown: q.Shown, Expires: q.Expires}
	for _, a := range m.approvers(member) {
		o.Recipients = append(o.Recipients, a.Age)
	}
	if waits[asked.Question] { // it has more or fewer calls: nothing that a colleague would see
		return Asked{}, false
	}
	waits[asked.Question] = true
	return o, true
}

// Decision is an answer as the courier brings it. Nothing in it is believed but the signature.
type Decision struct {
	ID        string // of the question, as it travels
	Statement []byte
	Signature []byte // armored SSHSIG
}

// Decide answers a question by a colleague's decision, and returns how it ended. The error is
// gate.ErrForbidden for a decision that does not count, and is recorded.
func (m *Membership) Decide(ctx context.Context, d Decision) (end string, err error) {
	member, err := m.joined()
	if err != nil {
		return "", err
	}
	at := strings.LastIndexByte(d.ID, '-')
	if forms.CheckID(d.ID) != nil || at < 0 {
		return "", fmt.Errorf("%.80q is not a question of this machine: %w", d.ID, gate.ErrNotFound)
	}
	id := d.ID[:at]
	text, err := m.queue.StatementOf(ctx, id)
	if errors.Is(err, gate.ErrForbidden) {
		return "", m.refuse(ctx, id, err)
	} else if err != nil {
		return "", err
	}
	signed, err := m.verify(&member, d, text)
	if err != nil {
		return "", m.refuse(ctx, id, err)
	}
	signed.ID = id
	q, err := m.queue.DecideSigned(ctx, *signed)
	if errors.Is(err, gate.ErrForbidden) || errors.Is(err, gate.ErrChanged) || errors.Is(err, gate.ErrInvalid) {
		return "", m.refuse(ctx, id, err)
	} else if err != nil {
		return "", err
	}
	return string(q.State), nil
}

// verify returns the decision of d on the question whose statement is text, if it counts.
func (m *Membership) verify(member *Member, d Decision, text []byte) (*gate.Signed, error) {
	asked, err := forms.ParseQuestion(text)
	if err != nil {
		return nil, err
	}
	if asked.Question != d.ID || asked.Device != member.Device || asked.Fleet != member.Fleet || asked.Group != member.Group {
		return nil, forms.ErrOther
	}
	s, err := forms.DecisionOn(asked, d.Statement)
	if err != nil {
		return nil, err
	}
	approver, key, err := m.approver(member, s.Approver)
	if err != nil {
		return nil, err
	}
	if err := key.Verify(forms.Namespace, d.Statement, d.Signature); err != nil {
		return nil, err
	}
	approve := s.Verdict == forms.Approve
	if approve && m.o.Now().Unix() >= asked.Expires {
		return nil, errors.New("the question has expired")
	}
	return &gate.Signed{Statement: text, Approve: approve, Note: s.Note, Approver: approver.Name, Key: key.Fingerprint(), Touched: key.IsTouch()}, nil
}

// approver returns the approver with that key, whom the policy in force must name, and who must
// not decide about one of their own machines.
func (m *Membership) approver(member *Member, fingerprint string) (*forms.Approver, *forms.Key, error) {
	if m.rules == nil {
		return nil, nil, errors.New("there is no policy of the fleet that names approvers")
	}
	for _, a := range m.rules.Approvers() {
		key, err := forms.ParseKey(a.SSH)
		if err != nil || key.Fingerprint() != fingerprint {
			continue
		}
		if a.Owns(member.Device) {
			return nil, nil, fmt.Errorf("%s does not decide about their own machine", a.Name)
		}
		return &a, key, nil
	}
	return nil, nil, fmt.Errorf("the policy in force names no approver with the key %s", fingerprint)
}

const (
	// refusalSpan and maxRefusals bound how many refused decisions are recorded one by one.
	refusalSpan = time.Minute
	maxRefusals = 8
)

// refusals counts refused decisions.
type refusals struct {
	since   time.Time
	n, more int
}

// refuse records that a decision was refused, unless too many were, and returns the error.
func (m *Membership) refuse(ctx context.Context, id string, why error) error {
	m.mu.Lock()
	now := m.o.Now()
	if now.Sub(m.refused.since) >= refusalSpan || now.Before(m.refused.since) {
		m.refused = refusals{since: now, more: m.refused.more}
	}
	m.refused.n++
	more := m.refused.more
	tell := m.refused.n <= maxRefusals
	if m.refused.more = 0; !tell {
		m.refused.more = more + 1
	}
	m.mu.Unlock()
	if tell {
		r := &record.Record{Kind: record.KindDenied, Verdict: record.Deny, Approval: id, Surface: gate.SurfaceColleague, Reason: "a colleague's answer to " + id + ": " + why.Error()}
		if more > 0 {
			r.Reason += fmt.Sprintf("; %d more were refused since the last record", more)
		}
		if err := m.o.Recorder.Record(context.WithoutCancel(ctx), r, nil, nil); err != nil {
			m.o.Logger.Error("record a refused answer", "component", "fleet", "approval", id, "err", err)
		}
	}
	return fmt.Errorf("decide %s: %w: %w", id, why, gate.ErrForbidden)
}
