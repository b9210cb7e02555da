// Package streams names the streams of a fleet's engine and their subjects, and reads and
// writes them.
//
// What is live is published by the engine itself, once it has stored it: a device may
// subscribe to that, and to nothing that another device publishes.
package streams

import (
	"crypto/sha256"
	"encoding/hex"
)

// Streams.
const (
	AuditStream  = "AUDIT"
	AskStream    = "ASK"
	DecideStream = "DECIDE"
	PolicyStream = "POLICY"
	BundleStream = "BUNDLE"
	SeenStream   = "SEEN"
	EnrolStream  = "ENROL"
)

// Enrol is where devices ask for a JWT.
const Enrol = "tg.enrol"

// Audit is where the records of a log of a device go.
func Audit(device, log string) string { return "tg.audit." + device + "." + log }

// Ask is where a question of a device goes, for the approvers of a group.
func Ask(group, device, question string) string {
	return "tg.ask." + group + "." + device + "." + question
}

// Asks are the stored questions of a group.
func Asks(group string) string { return "tg.ask." + group + ".*.*" }

// LiveAsks are the questions of a group, as they are stored.
func LiveAsks(group string) string { return "tg.live.ask." + group + ".*.*" }

// Decide is where an approver decides a question of a device, once.
func Decide(device, question, approver string) string {
	return "tg.decide." + device + "." + question + "." + approver
}

// LiveDecisions are the decisions for a device, as they are stored.
func LiveDecisions(device string) string { return "tg.live.decide." + device + ".*.*" }

// Approver is what stands for an approver in subjects: it is made of the age recipient
// that the policy names for that person.
func Approver(recipient string) string {
	sum := sha256.Sum256([]byte(recipient))
	return hex.EncodeToString(sum[:16])
}

// Policy is where the policy of a group is published.
func Policy(group string) string { return "tg.policy." + group }

// LivePolicy is the policy of a group, as it is stored.
func LivePolicy(group string) string { return "tg.live.policy." + group }

// Bundle is where content of a hex SHA-256 lies.
func Bundle(sum string) string { return "tg.bundle." + sum }

// TUF is where metadata of a role and version lie.
func TUF(role, version string) string { return "tg.tuf." + role + "." + version }

// Seen is where a device reports its state.
func Seen(device string) string { return "tg.seen." + device }

// Token is where the engine keeps what a token of enrolment gives; key is the public
// half of the token's secret, in hex.
func Token(key string) string { return "tg.token." + key }

// Device is where the engine keeps what a device may do.
func Device(device string) string { return "tg.device." + device }

// Get is where the last message on a subject of a stream is asked for.
func Get(stream, subject string) string { return "$JS.API.DIRECT.GET." + stream + "." + subject }

// Inbox is the prefix of the subjects to which a connection gets its answers.
func Inbox(key string) string { return "_INBOX_" + key }
