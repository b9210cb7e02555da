package engine

import (
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
)

// Accounts. Devices are in one account and the streams in another, joined by imports,
// because the engine does not check to which subject a publisher wants its answers: in
// one account, the acknowledgement of a stream could be aimed at the subject of another
// device, and be stored as its newest record.
const (
	core = "CORE" // the streams, and those who run the engine
	edge = "EDGE" // devices
	door = "DOOR" // devices that have no JWT yet, or an expired one
	sys  = "SYS"  // the engine's own
)

// Roles. Each has a signing key whose scope has the permissions, so the engine holds
// nothing for a single device.
const (
	Device   = "device"
	Approver = "approver" // a device whose user answers questions of other devices
	Admin    = "admin"    // makes streams, tokens and policies
	Issuer   = "issuer"   // answers enrolments
	Reader   = "reader"   // reads audit and reports
	guest    = "guest"    // a device before its enrolment
)

// role is what a JWT that a signing key signs may do.
type role struct {
	name, account string
	pub, sub      []string
	noPub         []string
	payload       int64 // maximum size of a message
	subs          int64 // maximum number of subscriptions
	answers       bool  // may answer a request
}

// In permissions, these are replaced by what the JWT says.
const (
	self     = "{{subject()}}"                // the key of the connection
	group    = "{{tag(" + GroupTag + ")}}"    // the group of the device
	asks     = "{{tag(" + AsksTag + ")}}"     // the groups whose questions an approver may answer
	approver = "{{tag(" + approverTag + ")}}" // see streams.Approver
)

// Tags of a device's JWT. Their values are in lower case, or the engine makes them so.
const (
	GroupTag    = "group"
	AsksTag     = "asks"
	approverTag = "approver"
)

const maxMessage = 1 << 20

// roles returns all roles. Devices get what is past from streams by its exact subject, and
// make no consumers.
func roles() []role {
	device := role{
		name: Device, account: edge, payload: maxMessage, subs: 16,
		pub: []string{
			streams.Enrol, streams.Audit(self, "*"), streams.Ask(group, self, "*"), streams.Seen(self),
			streams.Get(streams.AuditStream, streams.Audit(self, "*")),
			streams.Get(streams.PolicyStream, streams.Policy(group)),
			streams.Get(streams.BundleStream, streams.Bundle("*")), streams.Get(streams.BundleStream, streams.TUF("*", "*")),
			streams.Get(streams.DecideStream, streams.Decide(self, "*", "*")),
		},
		sub: []string{streams.Inbox(self) + ".>", streams.LivePolicy(group), streams.LiveDecisions(self)},
	}
	approves := device
	approves.name, approves.subs = Approver, 64 // one for each group
	// What an approver asks the stream of questions for is in the message, so it can be any
	// question: they are sealed.
	approves.pub = append(approves.pub[:len(approves.pub):len(approves.pub)], streams.Decide("*", "*", approver), getAsks,
		streams.Get(streams.DecideStream, streams.Decide("*", "*", approver)))
	approves.noPub = []string{streams.Decide(self, "*", "*")}
	approves.sub = append(approves.sub[:len(approves.sub):len(approves.sub)], streams.LiveAsks(asks))
	return []role{
		device, approves,
		{name: guest, account: door, payload: 16 << 10, subs: 2, pub: []string{streams.Enrol}, sub: []string{streams.Inbox(guest) + ".>"}},
		{
			name: Issuer, account: core, payload: maxMessage, subs: 64, answers: true,
			pub: []string{
				streams.Token("*"), streams.Device("*"),
				streams.Get(streams.EnrolStream, streams.Token("*")), streams.Get(streams.EnrolStream, streams.Device("*")),
			},
			sub: []string{streams.Enrol, streams.Inbox(self) + ".>"},
		},
		{
			name: Reader, account: core, payload: maxMessage, subs: jwt.NoLimit,
			pub: []string{
				"$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.*.AUDIT.>", "$JS.API.CONSUMER.*.SEEN.>",
				"$JS.API.CONSUMER.MSG.NEXT.AUDIT.*", "$JS.API.CONSUMER.MSG.NEXT.SEEN.*", "$JS.ACK.>", "$JS.FC.>",
				streams.Get(streams.AuditStream, streams.Audit("*", "*")), streams.Get(streams.SeenStream, streams.Seen("*")),
			},
			sub: []string{streams.Inbox(self) + ".>"},
		},
		{
			name: Admin, account: core, payload: maxMessage, subs: jwt.NoLimit,
			pub: []string{
				"$JS.API.>", "$JS.ACK.>", "$JS.FC.>", streams.Policy("*"), streams.Bundle("*"), streams.TUF("*", "*"),
				streams.Token("*"), streams.Device("*"),
			},
			// Nobody shortens the record, by a change of the stream's limits neither.
			noPub: []string{
				"$JS.API.STREAM.UPDATE.AUDIT", "$JS.API.STREAM.DELETE.AUDIT", "$JS.API.STREAM.PURGE.AUDIT",
				"$JS.API.STREAM.MSG.DELETE.AUDIT", "$JS.API.STREAM.RESTORE.AUDIT",
			},
			sub: []string{streams.Inbox(self) + ".>"},
		},
	}
}

// getAsks is where an approver asks for the questions that wait.
const getAsks = "$JS.API.DIRECT.GET." + streams.AskStream

// scope returns the permissions of everything that key signs.
func (r role) scope(key nkeys.KeyPair) (*jwt.UserScope, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	s := jwt.NewUserScope()
	s.Key, s.Role = public, r.name
	s.Template.Pub.Allow, s.Template.Pub.Deny = r.pub, r.noPub
	s.Template.Sub.Allow = r.sub
	s.Template.Payload, s.Template.Subs = r.payload, r.subs
	if r.name == guest {
		s.Template.BearerToken = true // its JWT is in the engine's configuration
	}
	if r.answers {
		s.Template.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: 10 * time.Second}
	}
	return s, nil
}

// An export is something of CORE that EDGE imports.
type export struct {
	subject string
	kind    jwt.ExportType
	many    bool // a request has many answers
	door    bool // also imported by DOOR
}

// exports returns all ways from devices to the streams and back.
func exports() []export {
	service := func(subject string) export { return export{subject: subject, kind: jwt.Service} }
	stream := func(subject string) export { return export{subject: subject, kind: jwt.Stream} }
	return []export{
		{subject: streams.Enrol, kind: jwt.Service, door: true},
		{subject: getAsks, kind: jwt.Service, many: true},
		service(streams.Audit("*", "*")),
		service(streams.Ask("*", "*", "*")),
		service(streams.Decide("*", "*", "*")),
		service(streams.Seen("*")),
		service(streams.Get(streams.AuditStream, streams.Audit("*", "*"))),
		service(streams.Get(streams.PolicyStream, streams.Policy("*"))),
		service(streams.Get(streams.BundleStream, streams.Bundle("*"))),
		service(streams.Get(streams.BundleStream, streams.TUF("*", "*"))),
		service(streams.Get(streams.DecideStream, streams.Decide("*", "*", "*"))),
		stream(streams.LivePolicy("*")),
		stream(streams.LiveAsks("*")),
		stream(streams.LiveDecisions("*")),
	}
}
