package fleet

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	forms "github.com/thoughtgate/thoughtgated/internal/fleet"
)

// Foreign is the question of another machine, as the courier brings it.
type Foreign struct {
	Device    string
	Statement []byte
	Shown     []byte
	Expires   time.Time
	Key       string // SSH public key with which the answer will be signed
}

// Answer is what a person of this machine has answered.
type Answer struct {
	Approved  bool
	Note      string
	Statement []byte // to be signed as it is
	Level     string // what the person has proved
}

// foreignAttachment stands for the attachment of a question that no tg-shim here has asked.
const foreignAttachment = "fleet"

// longest is how long a foreign question may wait at most, whatever it says.
const longest = 7 * 24 * time.Hour

// Ask puts the question of another machine before the people of this one. It returns when it is
// answered; if it expires or is withdrawn, the error is gate.ErrDecided.
func (m *Membership) Ask(ctx context.Context, f Foreign) (Answer, error) {
	member, err := m.joined()
	if err != nil {
		return Answer{}, err
	}
	asked, shown, key, err := f.parse()
	if err != nil {
		return Answer{}, fmt.Errorf("ask for another machine: %w: %w", err, gate.ErrInvalid)
	}
	if asked.Device == member.Device {
		return Answer{}, fmt.Errorf("ask for another machine: it is this one, and nobody decides about a call of their own machine: %w", gate.ErrForbidden)
	}
	if asked.Fleet != member.Fleet {
		return Answer{}, fmt.Errorf("ask for another machine: it is of the fleet %s, and this one of %s: %w", asked.Fleet, member.Fleet, gate.ErrForbidden)
	}
	q := m.question(asked, shown, m.o.Foreign())
	q.Reason += fmt.Sprintf("; it is %s, and the answer is signed with the key %s", asked.Device, key.Fingerprint())
	q.Expires = earlier(f.Expires, time.Unix(asked.Expires, 0), m.o.Now().Add(longest))
	q.Subject = sha256.Sum256(append([]byte("thoughtgate foreign question\x00"), f.Statement...))
	ended, err := m.queue.AskForeign(ctx, q)
	if err != nil {
		return Answer{}, err
	}
	verdict := forms.Approve
	switch ended.State {
	case store.StateApproved:
	case store.StateRejected:
		verdict = forms.Deny
	default:
		return Answer{}, fmt.Errorf("%s: %w: it was %s", ended.ID, gate.ErrDecided, ended.State)
	}
	decided := asked.Decided(verdict, key.Fingerprint(), clip(ended.Note, forms.MaxNote-len("…")))
	return Answer{Approved: verdict == forms.Approve, Note: decided.Note, Statement: decided.Encode(), Level: ended.Level}, nil
}

// parse checks all that the courier has brought.
func (f *Foreign) parse() (*forms.Statement, *forms.Shown, *forms.Key, error) {
	asked, err := forms.ParseQuestion(f.Statement)
	if err != nil {
		return nil, nil, nil, err
	}
	if asked.Device != f.Device {
		return nil, nil, nil, forms.ErrOther
	}
	shown, err := asked.ShownWith(f.Shown)
	if err != nil {
		return nil, nil, nil, err
	}
	key, err := forms.ParseKey(f.Key)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("the key that is to sign: %w", err)
	}
	if asked.Touch && !key.IsTouch() {
		return nil, nil, nil, fmt.Errorf("an approval of it needs a security key, and the answer would be signed by %s", key.Fingerprint())
	}
	return asked, shown, key, nil
}

// question returns the question as it stands in the queue of this machine. Each text in it was
// written elsewhere; those who show it escape it, as all texts of questions.
func (m *Membership) question(asked *forms.Statement, shown *forms.Shown, how Asking) store.Question {
	from := clip(shown.From, maxLabel)
	q := store.Question{
		State: store.StateOpen, Device: asked.Device,
		Attachment: foreignAttachment, Seq: rand.Uint64(),
		Agent: clip(shown.Agent, maxName) + " of " + from, Project: clip(shown.Project, maxName), Server: clip(asked.Server, maxName),
		Direction: "agent_to_server", Method: clip(asked.Method, maxName), Tool: clip(asked.Tool, maxName), Profile: string(gate.Production),
		Params: paramsOf(shown), Reason: fmt.Sprintf("on another machine, of %s: %s", from, clip(shown.Reason, maxReason)),
		Rule: "of the other machine: " + clip(shown.Rule, maxName), Workflow: how.Workflow, Surfaces: how.Surfaces, Level: string(m.level(how.Level)),
	}
	if shown.ParamsBytes > 0 {
		q.Reason += fmt.Sprintf("; shown is the beginning of %d bytes", shown.ParamsBytes)
	}
	for _, f := range shown.Facts[:min(len(shown.Facts), maxFacts)] {
		q.Facts = append(q.Facts, clip(f, maxFact))
	}
	return q
}

// level returns what the workflow of this machine demands for the questions of others. Where it
// leaves that open, presence is proven if that is set up: what is approved executes on a machine
// that this person does not see.
func (m *Membership) level(l gate.Level) gate.Level {
	switch {
	case l != gate.LevelUsual:
		return l
	case m.o.Presence.Enrolled():
		return gate.LevelPresence
	}
	return gate.LevelWatch
}

// paramsOf returns the params as JSON. What is no JSON, because it was cut or is a lie, is one
// text.
func paramsOf(shown *forms.Shown) []byte {
	params := jsontext.Value(shown.Params)
	if params.IsValid() && params.Kind() == '{' {
		return params
	}
	quoted, err := jsontext.AppendQuote(nil, shown.Params)
	if err != nil { // it was decoded from JSON, so it is valid
		return []byte(`"(not readable)"`)
	}
	return append(append([]byte(`{"arguments":`), quoted...), '}')
}

func earlier(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if first.IsZero() || t.Before(first) {
			first = t
		}
	}
	return first
}
