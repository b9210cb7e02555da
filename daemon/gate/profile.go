package gate

import "github.com/thoughtgate/thoughtgated/internal/record"

// What production would have done, as the records and the log of the development
// profile say it (F-023).
const (
	wouldBlock = "WOULD_BLOCK"
	wouldAsk   = "WOULD_ASK"
	wouldHide  = "WOULD_HIDE"
	wouldHold  = "WOULD_HOLD"
	// wouldRedact: hooks would have put something else in its place, which would
	// have gone on.
	wouldRedact = "WOULD_REDACT"
)

// would notes in r what production would have done with the message, which goes
// through.
func would(r *record.Record, word string) { r.Would, r.Forwarded = word, true }

// InForce is the profile of calls whose session was opened with limit, which may
// be empty, when their shim asks for nothing.
func (g *Gate) InForce(limit Profile) Profile {
	c := Call{Limit: limit}
	return c.inForce(g.Policy())
}

// Profile is the profile that the shim's calls are judged under now.
func (a *Attachment) Profile() Profile {
	c := Call{Limit: a.shim.Limit, Profile: a.shim.Requested}
	return c.inForce(a.gate.Policy())
}
