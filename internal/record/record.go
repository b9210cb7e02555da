// Package record defines the format of the audit log: how a record is encoded, how each
// line is chained to the one before, and how a log is verified. The daemon writes with
// it; tgctl verifies with it, without a daemon.
//
// A log is a folder of segments, 000001.jsonl and so on. Every line is one JSON object.
// Most lines are records:
//
//	{"v":1,"seq":7,"time":"...","prev":"<hex>","kind":"call", ... ,"values":"<hex>","crc":"<hex>"}
//
// prev is the SHA-256 of the previous record's line without its newline, so changing,
// removing or moving a record breaks the chain after it. crc is the CRC-32C of the line
// up to the comma before it. It gives no protection against people, but detects damage
// even in the last record, which no later one protects yet.
//
// A record may be followed by a line of values:
//
//	{"values":7,"arguments":{...},"bytes":123,"hmac":"<hex>"}
//
// The record contains the SHA-256 of that line, but the next record does not depend on
// it: the values can be dropped, or left out when a log is handed on, and the chain still
// holds.
//
// The first record of each segment has the kind log and names the log, so that a segment
// without its beginning is detected. A chain can't show by itself that its end is
// missing; a Head, kept outside of it, can.
package record

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Kind is the subject of a record.
type Kind string

const (
	KindLog       Kind = "log"       // first record of each segment: the random id of the log
	KindStart     Kind = "start"     // a daemon opened the log
	KindStop      Kind = "stop"      // a daemon closed it
	KindReload    Kind = "reload"    // a policy set came into force, or could not be loaded
	KindSession   Kind = "session"   // a wrap opened, closed, was amended or restored; a server runs ungoverned; an agent was protected, ...
	KindAttach    Kind = "attach"    // tg-shim attached
	KindDetach    Kind = "detach"    // tg-shim detached
	KindCall      Kind = "call"      // a verdict on a message; hold if a person is asked
	KindDecision  Kind = "decision"  // a question was answered, expired or withdrawn
	KindGrant     Kind = "grant"     // a grant was given, or has ended
	KindPresence  Kind = "presence"  // the presence secret was enrolled, rotated, removed or recovered, or a wrong one was given
	KindLogin     Kind = "login"     // a person has logged in to a server behind an address, or out of it, or its issuer has ended the login
	KindHook      Kind = "hook"      // extensions changed what was judged: the version that was not judged, or in development would have been
	KindOutcome   Kind = "outcome"   // the outcome of a forwarded call
	KindOrphan    Kind = "orphan"    // a request without an answer for limits.orphan
	KindMessage   Kind = "message"   // a passed message that is worth a record
	KindMemory    Kind = "memory"    // the memory of what a session's servers said is incomplete, or contains text worded to steer a model
	KindRefused   Kind = "refused"   // a line that the strict reader refused
	KindUnseen    Kind = "unseen"    // an agent's transcript has calls that no hook reported, or can't be compared with what they reported
	KindDenied    Kind = "denied"    // a refused caller of the control socket
	KindFleet     Kind = "fleet"     // the machine joined a fleet or left it, or the fleet's policy changed
	KindUndo      Kind = "undo"      // files that a call has destroyed are brought back from their copies
	KindPin       Kind = "pin"       // a definition or server was accepted, is withheld, or was not seen before
	KindExtension Kind = "extension" // an extension was installed, removed, or failed
	KindDropped   Kind = "dropped"   // the oldest records were removed, as configured
	KindGap       Kind = "gap"       // the log itself has a gap: it could not be written for a while, or lost its tail
)

// Record is one audit record. The log sets Seq, Time, Prev and, in the first record, Log;
// the caller sets the rest. Members without a value are left out of the line. Members are
// in the order of the fields.
type Record struct {
	V          int       `json:"v"`
	Seq        uint64    `json:"seq"`
	Time       time.Time `json:"time"` // UTC, microseconds
	Prev       string    `json:"prev"` // hex SHA-256 of the previous line without its newline; empty in the first record
	Kind       Kind      `json:"kind"`
	Log        string    `json:"log,omitempty"`
	Attachment string    `json:"attachment,omitempty"`
	Call       uint64    `json:"call,omitempty"` // number of the call in tg-shim
	ID         string    `json:"id,omitempty"`   // correlation id, as reported to the agent
	Session    string    `json:"session,omitempty"`
	Agent      string    `json:"agent,omitempty"`
	Server     string    `json:"server,omitempty"`
	Launch     string    `json:"launch,omitempty"`
	Direction  string    `json:"direction,omitempty"` // agent_to_server, server_to_agent
	Method     string    `json:"method,omitempty"`
	Tool       string    `json:"tool,omitempty"` // tool or prompt name, or resource URI
	MessageID  string    `json:"message_id,omitempty"`
	Verdict    string    `json:"verdict,omitempty"` // one of Verdicts of its kind
	Would      string    `json:"would,omitempty"`   // WOULD_BLOCK, ... in development
	Gate       string    `json:"gate,omitempty"`    // extension, visible, pin, rule, permit, ask, accident
	Rule       string    `json:"rule,omitempty"`    // with its position, such as thoughtgate.yaml:12
	Policies   []string  `json:"policies,omitempty"`
	Facts      []string  `json:"facts,omitempty"`
	Extensions []string  `json:"extensions,omitempty"` // those that changed or denied it
	Answerer   string    `json:"answerer,omitempty"`   // what answers the server's question in the agent's place, such as notes/fast
	Profile    string    `json:"profile,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Approval   string    `json:"approval,omitempty"`
	Grant      string    `json:"grant,omitempty"`   // the grant that approved the call, such as G-3
	Decider    string    `json:"decider,omitempty"` // who answered, as the kernel showed it
	Surface    string    `json:"surface,omitempty"`
	Approver   string    `json:"approver,omitempty"` // who answered, as the surface reported it: a user id on Slack
	Level      string    `json:"level,omitempty"`    // what the person who answered has proved: watch, or presence if a secret was given
	Peer       *Peer     `json:"peer,omitempty"`     // the process that answered or asked, as the kernel showed it
	Auto       bool      `json:"auto_approved,omitempty"`
	Forwarded  bool      `json:"forwarded,omitempty"`
	Set        string    `json:"set,omitempty"`     // digest of the policy set used
	Digest     string    `json:"digest,omitempty"`  // hex SHA-256 of the line that was or would be written, or of the last dropped record
	Through    uint64    `json:"through,omitempty"` // of kind dropped: all records up to this one were removed
	LatencyUS  int64     `json:"latency_us,omitempty"`
	Values     string    `json:"values,omitempty"` // hex SHA-256 of the values line of this record
}

// member is a member of a line and the index of its field in Record.
type member struct {
	name  string
	field int
}

// members are all members of a line, in order. optional are those that may be left out,
// except values, which comes last.
var (
	members  = membersOf(reflect.TypeFor[Record]())
	optional = members[5 : len(members)-1] // the first five are v, seq, time, prev and kind
)

func membersOf(t reflect.Type) []member {
	var all []member
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		all = append(all, member{name, i})
	}
	return all
}

// fieldOf maps the name of a member to its field index.
var fieldOf = func() map[string]int {
	fields := map[string]int{}
	for _, m := range members {
		fields[m.name] = m.field
	}
	return fields
}()

// The canary is a call that is made to be denied. It shows that calls do reach the gate
// and that the gate denies, without requiring a rule of the user.
const (
	// CanaryServer is the server id that the canary calls. Every call of a server with
	// that id is denied.
	CanaryServer = "thoughtgate-canary"

	// CanaryCommand is the command that an agent's hook is asked about. It does nothing, it is
	// never run, and for every agent it is denied.
	CanaryCommand = "true thoughtgate-canary"

	// CanaryRule is the rule that the record of the canary names.
	CanaryRule = "built in: canary"
)

// SurfaceHost is the surface in records of calls about which the agent asks its own user.
const SurfaceHost = "host"

// Peer is a process that called on the control socket, as the kernel showed it at that
// moment. Nothing in it is reported by the process itself, except program names, which
// are the paths of their files.
type Peer struct {
	UID        uint32   `json:"uid"`
	PID        int32    `json:"pid"`
	Start      uint64   `json:"start"`                // start time in the platform's unit; with the pid it identifies the process until the next boot
	Handle     bool     `json:"handle,omitempty"`     // the kernel gave a handle (pidfd) of the process, so its pid can't have been reused
	Exe        string   `json:"exe,omitempty"`        // path of its program
	TTY        string   `json:"tty,omitempty"`        // its terminal; empty if it has none
	Foreground string   `json:"foreground,omitempty"` // foreground process of that terminal, such as "4711 /usr/bin/tgctl"
	Cgroup     string   `json:"cgroup,omitempty"`     // its control group
	Above      []string `json:"above,omitempty"`      // its ancestors, nearest first, such as "4700 /usr/bin/bash"
}

// appendPeer appends the peer member; nothing if p is nil.
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

// peer decodes the output of appendPeer.
func (c *cursor) peer() *Peer {
	start := c.at
	c.skip()
	p := &Peer{}
	if c.err == nil && json.Unmarshal(c.line[start:c.at], p) != nil {
		c.fail("a peer is malformed")
	}
	if len(p.Above) == 0 {
		p.Above = nil // as a Record without ancestors has it
	}
	return p
}
