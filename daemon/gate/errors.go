package gate

import "errors"

// Sentinel errors that packages of the daemon share. They are wrapped with what was being
// done. daemon/api maps each to a status code, and client maps it back.
var (
	ErrNotFound   = errors.New("not found")
	ErrDecided    = errors.New("already decided")
	ErrChanged    = errors.New("not the question that was shown")
	ErrLocked     = errors.New("locked by another process")
	ErrVersion    = errors.New("of another version")
	ErrInvalid    = errors.New("invalid")
	ErrForbidden  = errors.New("not allowed")
	ErrTooLarge   = errors.New("too large")
	ErrNotRunning = errors.New("not running")

	// ErrWithheld reports that a server is not started until a person has agreed.
	ErrWithheld = errors.New("withheld until a person accepts it")

	// ErrProofNeeded reports that an approval requires a presence proof, ErrProofWrong that
	// the proof did not verify, and ErrLockedOut that no proof is checked for a while, because
	// too many were invalid.
	ErrProofNeeded = errors.New("a passphrase or code is needed")
	ErrProofWrong  = errors.New("wrong passphrase or code")
	ErrLockedOut   = errors.New("locked")
	// ErrEnrolled and ErrNotEnrolled report that a secret is set up already, or that none is.
	ErrEnrolled    = errors.New("presence is set up already")
	ErrNotEnrolled = errors.New("presence is not set up")

	// ErrFull refuses a question because limits.pending or limits.pending_per_server is
	// reached.
	ErrFull = errors.New("too many calls waiting")
	// ErrBurst refuses a question because too many were asked in a short time.
	ErrBurst = errors.New("too many questions in a short time")
	// ErrNoColleague refuses a question that only a colleague may answer, where there is none.
	ErrNoColleague = errors.New("only a colleague may approve it, and there is none who could")
	// ErrNoFleet reports that this machine is in no fleet.
	ErrNoFleet = errors.New("this machine is in no fleet")
	// ErrTooMany refuses tg-shim because the limit of attachments, or of those under way, is
	// reached.
	ErrTooMany = errors.New("too many at once")
	// ErrUnrecorded is the reason of every denial while the audit log can't be written.
	ErrUnrecorded = errors.New("the audit log can't be written")
	// ErrWithdrawn is the cause with which a context ends if the agent cancelled a call or
	// left. Held.Wait checks for it.
	ErrWithdrawn = errors.New("withdrawn by the agent")
)
