// Package record knows what an audit line looks like: how a record is written,
// how each line is chained to the one before, and how a log is verified. The
// daemon writes with it; tgctl verifies with it, without a daemon.
//
// A log is a folder of segments, 000001.jsonl and so on. Every line is one
// JSON object. Most are records:
//
//	{"v":1,"seq":7,"time":"...","prev":"<hex>","kind":"call", ... ,"values":"<hex>","crc":"<hex>"}
//
// prev is the SHA-256 of the record before, without its newline, so that
// whoever changes, removes or moves a record breaks the chain behind it. crc is
// the CRC-32C of the line up to the comma before it. It proves nothing against
// people; it shows damage also in the last record, which no other one vouches
// for yet.
//
// A record may be followed by a line of values:
//
//	{"values":7,"arguments":{...},"bytes":123,"hmac":"<hex>"}
//
// Its SHA-256 stands in the record, its successor does not know it: it can be
// dropped, or left behind when a log is handed on, and the chain still holds.
//
// The first record of each segment has kind log and names the log, so that a
// segment that lost its beginning shows. What no chain can show by itself is
// that its end is gone: for that a Head is kept outside of it.
package record

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Kind is what a record is about.
type Kind string

const (
	KindLog       Kind = "log"       // first record of each segment: the random id of the log
	KindStart     Kind = "start"     // a daemon took the log up
	KindStop      Kind = "stop"      // a daemon left it
	KindReload    Kind = "reload"    // a policy set came into force, or failed to
	KindSession   Kind = "session"   // a wrap opened, closed, was amended or restored; a server runs past it; an agent was protected, ...
	KindAttach    Kind = "attach"    // a shim came
	KindDetach    Kind = "detach"    // a shim went
	KindCall      Kind = "call"      // a verdict on a message; hold when a person is asked
	KindDecision  Kind = "decision"  // a question was answered, expired or withdrawn
	KindGrant     Kind = "grant"     // a yes that remembers was given, or has ended
	KindPresence  Kind = "presence"  // the secret that proves a person was enrolled, rotated, removed or recovered; or one was wrong
	KindHook      Kind = "hook"      // extensions changed what was judged: the version that was not, or in development would have been
	KindOutcome   Kind = "outcome"   // what became of a forwarded call
	KindOrphan    Kind = "orphan"    // a request that has had no answer for limits.orphan
	KindMessage   Kind = "message"   // a message that passed and is worth a record
	KindMemory    Kind = "memory"    // the memory of what a session's servers said is not whole, or holds what is worded to steer a model
	KindRefused   Kind = "refused"   // a line the strict reader refused
	KindDenied    Kind = "denied"    // a caller of the control socket was refused
	KindPin       Kind = "pin"       // a definition or a server was accepted, is held, or was not seen before
	KindExtension Kind = "extension" // an extension was installed or removed, or has failed
	KindDropped   Kind = "dropped"   // the oldest records were removed, as the configuration says
	KindGap       Kind = "gap"       // the log itself has a gap: it could not be written for a while, or lost its tail
)

// Record is one audit record. Seq, Time, Prev and, in the first one, Log are
// filled in by the log; all else by whoever records. Members without a value
// are left out of the line; the order of members is the order of the fields.
type Record struct {
	V          int       `json:"v"`
	Seq        uint64    `json:"seq"`
	Time       time.Time `json:"time"` // UTC, microseconds
	Prev       string    `json:"prev"` // hex SHA-256 of the previous line without its newline; empty in the first record
	Kind       Kind      `json:"kind"`
	Log        string    `json:"log,omitempty"`
	Attachment string    `json:"attachment,omitempty"`
	Call       uint64    `json:"call,omitempty"` // the shim's seq
	ID         string    `json:"id,omitempty"`   // correlation id, as the agent was told
	Session    string    `json:"session,omitempty"`
	Agent      string    `json:"agent,omitempty"`
	Server     string    `json:"server,omitempty"`
	Launch     string    `json:"launch,omitempty"`
	Direction  string    `json:"direction,omitempty"` // agent_to_server, server_to_agent
	Method     string    `json:"method,omitempty"`
	Tool       string    `json:"tool,omitempty"` // tool or prompt name, or resource URI
	MessageID  string    `json:"message_id,omitempty"`
	Verdict    string    `json:"verdict,omitempty"` // forward, deny, hold; approved, rejected, expired, withdrawn; ok, tool_error, ...
	Would      string    `json:"would,omitempty"`   // WOULD_BLOCK, ... in development
	Gate       string    `json:"gate,omitempty"`    // extension, visible, pin, rule, permit, ask, accident
	Rule       string    `json:"rule,omitempty"`    // with its place, as thoughtgate.yaml:12
	Policies   []string  `json:"policies,omitempty"`
	Facts      []string  `json:"facts,omitempty"`
	Extensions []string  `json:"extensions,omitempty"` // those that changed or refused it
	Answerer   string    `json:"answerer,omitempty"`   // who answers what a server asks in the agent's place, as notes/fast
	Profile    string    `json:"profile,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Approval   string    `json:"approval,omitempty"`
	Parked     bool      `json:"parked,omitempty"`  // refused for now: the question is open, and the call is to be repeated
	Grant      string    `json:"grant,omitempty"`   // what let the call through instead of a person, as G-3
	Decider    string    `json:"decider,omitempty"` // who answered, as the kernel saw them
	Surface    string    `json:"surface,omitempty"`
	Approver   string    `json:"approver,omitempty"` // who answered, as the surface said: a user's id on Slack
	Level      string    `json:"level,omitempty"`    // what whoever answered has shown: watch, or presence where they gave a secret
	Peer       *Peer     `json:"peer,omitempty"`     // what the kernel showed of whoever answered or asked
	Auto       bool      `json:"auto_approved,omitempty"`
	Forwarded  bool      `json:"forwarded,omitempty"`
	Set        string    `json:"set,omitempty"`     // digest of the policy set it was judged under
	Digest     string    `json:"digest,omitempty"`  // hex SHA-256 of the line that was or would be written; of the last dropped record
	Through    uint64    `json:"through,omitempty"` // of kind dropped: every record up to this one is gone
	LatencyUS  int64     `json:"latency_us,omitempty"`
	Values     string    `json:"values,omitempty"` // hex SHA-256 of the line of values beside this one
}

// member is a member of a line and the field of Record that holds its value.
type member struct {
	name  string
	field int
}

// members are all members of a line, in their order. optional are those that may be
// left out, but for values, which stands behind them.
var (
	members  = membersOf(reflect.TypeFor[Record]())
	optional = members[5 : len(members)-1] // those before are v, seq, time, prev and kind
)

func membersOf(t reflect.Type) []member {
	var all []member
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		all = append(all, member{name, i})
	}
	return all
}

// fieldOf finds the field of a member by its name.
var fieldOf = func() map[string]int {
	fields := map[string]int{}
	for _, m := range members {
		fields[m.name] = m.field
	}
	return fields
}()

// The canary is a call that is made to be refused: whoever makes it learns that
// calls do pass the gate, and that it refuses, without a rule of the user's being
// needed for it.
const (
	// CanaryServer is the id of the server that the canary calls. Every call of a
	// server of that id is refused.
	CanaryServer = "thoughtgate-canary"

	// CanaryRule is what the record names as the rule that refused it.
	CanaryRule = "built in: canary"
)

// Peer is a process that called on the control socket, as the kernel showed it
// at that moment. Nothing of it is what the process says of itself, but the
// names of programs, which are where their files lay.
type Peer struct {
	UID        uint32   `json:"uid"`
	PID        int32    `json:"pid"`
	Start      uint64   `json:"start"`                // when it started, in the platform's unit; with the pid it names the process until the next boot
	Handle     bool     `json:"handle,omitempty"`     // the kernel gave a handle (pidfd) of just this process, so that its pid can't have been another's
	Exe        string   `json:"exe,omitempty"`        // its program
	TTY        string   `json:"tty,omitempty"`        // its terminal; empty without one
	Foreground string   `json:"foreground,omitempty"` // who had that terminal in the foreground, as "4711 /usr/bin/tgctl"
	Cgroup     string   `json:"cgroup,omitempty"`     // its control group
	Above      []string `json:"above,omitempty"`      // its ancestors, nearest first, as "4700 /usr/bin/bash"
}

// appendPeer appends the member that holds p, nothing for nil.
func appendPeer(dst []byte, p *Peer) []byte {
	if p == nil {
		return dst
	}
	dst = strconv.AppendUint(append(appendName(dst, "peer"), `{"uid":`...), uint64(p.UID), 10)
	dst = strconv.AppendInt(append(dst, `,"pid":`...), int64(p.PID), 10)
	dst = strconv.AppendUint(append(dst, `,"start":`...), p.Start, 10)
	dst = appendTrue(dst, "handle", p.Handle)
	dst = appendText(dst, "exe", p.Exe)
	dst = appendText(dst, "tty", p.TTY)
	dst = appendText(dst, "foreground", p.Foreground)
	dst = appendText(dst, "cgroup", p.Cgroup)
	return append(appendList(dst, "above", p.Above), '}')
}

// peer reads what appendPeer has written.
func (c *cursor) peer() *Peer {
	start := c.at
	c.skip()
	p := &Peer{}
	if c.err == nil && json.Unmarshal(c.line[start:c.at], p) != nil {
		c.fail("a peer is malformed")
	}
	if len(p.Above) == 0 {
		p.Above = nil // as it would be written
	}
	return p
}
