// Package calls tells from the records of a log which calls there were and how each has ended. What
// lists or counts calls uses it, so that all of it counts alike.
package calls

import (
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// End is how a call has ended for whom called.
type End uint8

// The ends. A call that is Held waits for a person, or was given up or put off before one had answered:
// its agent no longer waits, or was told to repeat the call.
const (
	Forwarded End = iota
	Held
	Denied
	ends
)

// Tally counts calls by their end.
type Tally [ends]uint64

// Total returns the number of calls.
func (t Tally) Total() uint64 { return t[Forwarded] + t[Held] + t[Denied] }

// Call is one call, as its records tell.
type Call struct {
	Seq     uint64    // number of its latest verdict's record, which has its arguments
	First   uint64    // number of its first record
	Time    time.Time // of its first record
	Session string
	Agent   string
	Server  string
	Method  string
	Tool    string

	Verdict  string // one of the constants of package record: the latest
	By       string // the policy, rule or gate of that verdict
	Would    string // in development: what production would have done
	Reason   string // of the latest verdict
	Approval string // the question, such as A-3
	Grant    string // the grant that approved it, such as G-3
	Edited   bool   // it was forwarded with arguments that a person set

	// Answer is how the question ended while the call waited: approved, rejected, expired or withdrawn.
	// It is empty if there was none, and of a call that was parked.
	Answer   string
	Wait     time.Duration // between the question and what ended it for this call; 0 if unknown
	Asked    time.Time     // when it began to wait; zero if it did not, or if that is unknown
	Outcome  string        // ok, tool_error, ...; empty if unknown
	Withheld bool          // an extension has withheld the result
}

// End returns how the call has ended.
func (c *Call) End() End {
	switch c.Verdict {
	case record.Forward:
		return Forwarded
	case record.Deny:
		return Denied
	}
	return Held
}

// IsOver reports whether no record is to be expected that changes what is known of the call.
func (c *Call) IsOver() bool {
	return c.Outcome != "" || c.Verdict == record.Deny || c.Verdict == record.Park || c.Answer == "withdrawn"
}

// Waits reports whether the call waits for a person, as far as is known.
func (c *Call) Waits() bool { return c.Verdict == record.Hold && c.Answer == "" }

// Has reports whether word is the call's verdict, how its question ended, or its outcome.
func (c *Call) Has(word string) bool {
	return word != "" && (word == c.Verdict || word == c.Answer || word == c.Outcome)
}

// maxKept is how many calls a Reader follows at a time. What comes later of an older one is not
// added to it.
const maxKept = 50_000

// key identifies a call in a log.
type key struct {
	attachment string
	call       uint64
}

// kept is a call that is followed.
type kept struct {
	key key
	id  message
	*Call
}

// message identifies a call by the id of its message: a record of a result has that and not the number
// of its call.
type message struct{ attachment, method, id string }

// Reader follows the calls of a log. It is not safe for concurrent use.
type Reader struct {
	done     func(*Call)
	order    []kept // oldest first
	calls    map[key]*Call
	messages map[message]*Call
	asked    map[string][]*Call // calls that wait, by question

	// What is judged and is no call: messages of the protocol such as lists, and calls of `tgctl doctor`
	// that are made to be denied.
	Protocol, ProtocolDenied, Canaries uint64
}

// NewReader returns a Reader that gives each call to done once, as it has ended as far as is known, in the
// order in which they began.
func NewReader(done func(*Call)) *Reader {
	return &Reader{done: done, calls: map[key]*Call{}, messages: map[message]*Call{}, asked: map[string][]*Call{}}
}

// Add reads the next record. It returns the call that the record changed, nil if there is none. A record
// of a decision may change several; Add returns one of them.
func (r *Reader) Add(rec *record.Record) *Call {
	switch rec.Kind {
	case record.KindCall:
		return r.judged(rec)
	case record.KindDecision:
		return r.decided(rec)
	case record.KindOutcome, record.KindOrphan:
		c := r.calls[key{rec.Attachment, rec.Call}]
		if c != nil && rec.Call > 0 && (rec.Kind == record.KindOutcome || c.Outcome == "") {
			c.Outcome = rec.Verdict
		}
		return c
	}
	return nil
}

// Calls returns the calls that were not given to done yet, the oldest first.
func (r *Reader) Calls() []*Call {
	all := make([]*Call, len(r.order))
	for i, k := range r.order {
		all[i] = k.Call
	}
	return all
}

// Close gives the calls that are left to done.
func (r *Reader) Close() {
	for _, k := range r.order {
		r.done(k.Call)
	}
	*r = Reader{done: r.done, Protocol: r.Protocol, ProtocolDenied: r.ProtocolDenied, Canaries: r.Canaries}
}

// judged reads the record of a verdict.
func (r *Reader) judged(rec *record.Record) *Call {
	switch {
	case rec.Server == record.CanaryServer, rec.Rule == record.CanaryRule:
		r.Canaries++
		return nil
	case IsResult(rec):
		c := r.messages[message{rec.Attachment, rec.Method, rec.MessageID}]
		if c != nil && rec.Verdict == record.Deny {
			c.Withheld = true
		}
		return c
	case rec.Method != "" && !mcp.IsCall(from(rec), rec.Method):
		if r.Protocol++; rec.Verdict == record.Deny {
			r.ProtocolDenied++
		}
		return nil
	}
	c := r.of(rec)
	if c.Verdict == record.Hold {
		r.forget(c)
		if rec.Verdict != record.Hold && c.Answer == "" {
			c.Wait = rec.Time.Sub(c.Asked)
		}
	}
	c.Seq, c.Verdict, c.Would, c.Reason = rec.Seq, rec.Verdict, rec.Would, rec.Reason
	c.Approval, c.Grant, c.By = rec.Approval, rec.Grant, by(rec)
	c.Edited = strings.HasPrefix(rec.Reason, "with arguments changed by ")
	switch {
	case rec.Verdict == record.Hold:
		if c.Asked.IsZero() {
			c.Asked = rec.Time
		}
		if c.Approval != "" {
			r.asked[c.Approval] = append(r.asked[c.Approval], c)
		}
	case rec.Verdict == record.Forward && rec.Approval != "" && rec.Grant == "":
		c.Answer = "approved"
	}
	return c
}

// from returns the side that sent what a record is about.
func from(rec *record.Record) wire.Side {
	if rec.Direction == "server_to_agent" {
		return wire.FromServer
	}
	return wire.FromAgent
}

// IsResult reports whether rec is about the result of a call and not about a call.
func IsResult(rec *record.Record) bool {
	other := wire.FromServer
	if from(rec) == wire.FromServer {
		other = wire.FromAgent
	}
	return rec.Method != "" && mcp.IsCall(other, rec.Method) && !mcp.IsCall(from(rec), rec.Method)
}

// by returns what decided.
func by(rec *record.Record) string {
	for _, p := range rec.Policies {
		if p != "" {
			return p
		}
	}
	for _, name := range []string{rec.Rule, rec.Gate} {
		if name != "" {
			return name
		}
	}
	return "unknown"
}

// of returns the call of a verdict, a new one unless it is known.
func (r *Reader) of(rec *record.Record) *Call {
	k := key{rec.Attachment, rec.Call}
	if c := r.calls[k]; c != nil && rec.Call > 0 {
		return c
	}
	if len(r.order) == maxKept {
		r.pass()
	}
	c := &Call{First: rec.Seq, Time: rec.Time, Session: rec.Session, Agent: rec.Agent, Server: rec.Server, Method: rec.Method, Tool: rec.Tool}
	id := message{rec.Attachment, rec.Method, rec.MessageID}
	r.order = append(r.order, kept{k, id, c})
	if rec.Call > 0 {
		r.calls[k] = c
	}
	if rec.MessageID != "" {
		r.messages[id] = c
	}
	return c
}

// pass gives the oldest call to done and follows it no longer.
func (r *Reader) pass() {
	k := r.order[0]
	r.order = r.order[1:]
	if r.calls[k.key] == k.Call {
		delete(r.calls, k.key)
	}
	if r.messages[k.id] == k.Call {
		delete(r.messages, k.id)
	}
	if k.Verdict == record.Hold {
		r.forget(k.Call)
	}
	r.done(k.Call)
}

// forget removes a call from those that wait for its question.
func (r *Reader) forget(c *Call) {
	var left []*Call
	for _, other := range r.asked[c.Approval] {
		if other != c {
			left = append(left, other)
		}
	}
	if r.asked[c.Approval] = left; len(left) == 0 {
		delete(r.asked, c.Approval)
	}
}

// decided reads the record of how a question ended, for the calls that wait for it.
func (r *Reader) decided(rec *record.Record) *Call {
	all := r.asked[rec.Approval]
	for _, c := range all {
		c.Answer, c.Wait = rec.Verdict, rec.Time.Sub(c.Asked)
	}
	if len(all) == 0 {
		return nil
	}
	delete(r.asked, rec.Approval)
	return all[len(all)-1]
}
