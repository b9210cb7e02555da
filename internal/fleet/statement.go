package fleet

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
)

// Namespace is that of signatures over statements, as in `ssh-keygen -Y sign -n`.
const Namespace = "thoughtgate-decision"

// Verdicts of a decision.
const (
	Approve = "approve"
	Deny    = "deny"
)

// Statement is what a decision signs. The daemon that asks writes all of it but for the
// verdict, the approver and the note, so a decision counts for one question that was asked
// once. It covers what the approver was shown: who carries it can't show another call than
// the one that is decided.
type Statement struct {
	V          int    `json:"v"` // StatementVersion
	Fleet      string `json:"fleet"`
	Group      string `json:"group"`
	Device     string `json:"device"`
	Question   string `json:"question"` // its id
	Nonce      string `json:"nonce"`    // random, of this question alone
	Digest     string `json:"digest"`   // hex SHA-256 of what would be executed: the server and its command, the definition, the method and the very bytes of the params
	Subject    string `json:"subject"`  // hex SHA-256 of all that an approval is bound to on the device: of digest, the rule and the workflow
	Server     string `json:"server"`
	Method     string `json:"method"`
	Tool       string `json:"tool"`
	Definition string `json:"definition"` // hex digest of the definition of what is called; empty if it has none
	Shown      string `json:"shown"`      // hex SHA-256 of what an approver is shown, the text of a Shown
	Touch      bool   `json:"touch"`      // only a security key that was touched counts for an approval
	Expires    int64  `json:"expires"`    // Unix time
	Verdict    string `json:"verdict"`    // Approve or Deny; empty in a question
	Approver   string `json:"approver"`   // fingerprint of the key that signs; empty in a question
	Note       string `json:"note"`       // of the approver, for the agent; empty in a question
}

// StatementVersion is the version of the form of a statement.
const StatementVersion = 1

// MaxNote is the maximum size of a note in bytes.
const MaxNote = 1 << 10

// maxStatement is the maximum size of a statement in bytes. The daemon refuses longer names.
const maxStatement = 16 << 10

var fingerprints = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)

var nonces = regexp.MustCompile(`^[0-9a-f]{32}$`)

// QuestionName returns the name under which the question with that id travels: it is unique even if
// the machine has lost its state, and counts from 1 again.
func QuestionName(id, nonce string) string { return id + "-" + nonce[:8] }

// NewNonce returns a random nonce.
func NewNonce() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Encode returns the text of s, which is signed as it is.
func (s *Statement) Encode() []byte { return Encode(s) }

// Decided returns the statement of an approver's decision about the question of s.
func (s Statement) Decided(verdict, approver, note string) Statement {
	s.Verdict, s.Approver, s.Note = verdict, approver, note
	return s
}

// ParseQuestion parses the statement of a question, in which nobody has decided yet.
func ParseQuestion(text []byte) (*Statement, error) {
	s, err := parseStatement(text)
	if err == nil && (s.Verdict != "" || s.Approver != "" || s.Note != "") {
		err = errors.New("it is a decision, not a question")
	}
	if err != nil {
		return nil, fmt.Errorf("the statement of a question: %w", err)
	}
	return s, nil
}

// ParseDecision parses the statement of a decision.
func ParseDecision(text []byte) (*Statement, error) {
	s, err := parseStatement(text)
	if err == nil && s.Verdict != Approve && s.Verdict != Deny {
		err = fmt.Errorf("the verdict is %.80q; it must be approve or deny", s.Verdict)
	}
	if err == nil && len(s.Note) > MaxNote {
		err = fmt.Errorf("the note has %d bytes; the maximum is %d", len(s.Note), MaxNote)
	}
	if err == nil && !fingerprints.MatchString(s.Approver) {
		err = errors.New("it does not name the key that signs")
	}
	if err != nil {
		return nil, fmt.Errorf("the statement of a decision: %w", err)
	}
	return s, nil
}

func parseStatement(text []byte) (*Statement, error) {
	s := &Statement{}
	if err := Decode(text, maxStatement, s); err != nil {
		return nil, err
	}
	switch {
	case s.V != StatementVersion:
		return nil, fmt.Errorf("it has version %d; this program knows version %d; update it", s.V, StatementVersion)
	case !nonces.MatchString(s.Nonce):
		return nil, errors.New("it has no nonce")
	case s.Expires <= 0:
		return nil, errors.New("it does not expire")
	}
	err := cmp.Or(CheckName(s.Fleet), CheckName(s.Group), CheckDevice(s.Device), CheckID(s.Question), CheckHash(s.Digest), CheckHash(s.Subject), CheckHash(s.Shown))
	if s.Definition != "" {
		err = cmp.Or(err, CheckHash(s.Definition))
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ErrOther is the error of a decision about something else than the question.
var ErrOther = errors.New("the decision is not about this question")

// DecisionOn parses a decision and returns ErrOther unless it is one on exactly the question
// of asked: every member but the verdict, the approver and the note is the same.
func DecisionOn(asked *Statement, text []byte) (*Statement, error) {
	s, err := ParseDecision(text)
	if err != nil {
		return nil, err
	}
	want := asked.Decided(s.Verdict, s.Approver, s.Note)
	if !bytes.Equal(want.Encode(), text) {
		return nil, ErrOther
	}
	return s, nil
}

// Shown is what an approver is shown of a question besides its statement. The texts are
// hostile: the agent and the server have written most of them.
type Shown struct {
	V           int      `json:"v"`    // ShownVersion
	From        string   `json:"from"` // the user and the machine, as they call themselves
	Agent       string   `json:"agent"`
	Project     string   `json:"project"`
	Workflow    string   `json:"workflow"`
	Reason      string   `json:"reason"`
	Rule        string   `json:"rule"`
	Facts       []string `json:"facts"`
	Params      string   `json:"params"`       // JSON, without what the policy redacts; the beginning, if they are long
	ParamsBytes int      `json:"params_bytes"` // the size of all params, if Params is their beginning; otherwise 0
}

// ShownVersion is the version of the form of Shown.
const ShownVersion = 1

// MaxShown is the maximum size of the text of a Shown in bytes.
const MaxShown = 256 << 10

// Encode returns the text of s.
func (s *Shown) Encode() []byte { return Encode(s) }

// ShownWith parses what an approver is shown, and returns ErrOther unless it is what the
// statement says.
func (s *Statement) ShownWith(text []byte) (*Shown, error) {
	if Digest(text) != s.Shown {
		return nil, ErrOther
	}
	shown := &Shown{}
	if err := Decode(text, MaxShown, shown); err != nil {
		return nil, fmt.Errorf("what an approver is shown: %w", err)
	}
	if shown.V != ShownVersion {
		return nil, fmt.Errorf("what an approver is shown has version %d; this program knows version %d; update it", shown.V, ShownVersion)
	}
	return shown, nil
}
