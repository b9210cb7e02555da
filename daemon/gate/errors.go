package gate

import "errors"

// Sentinels that packages of the daemon share. They are wrapped with what was
// being done; daemon/api maps each to a status code and client maps it back.
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

	// ErrWithheld says that a server is not started before a person has agreed.
	ErrWithheld = errors.New("withheld until a person agrees")

	// ErrProofNeeded says that a yes has to come with a proof of presence,
	// ErrProofWrong that what came with it is none, and ErrLockedOut that none is
	// looked at for a while, since too many were wrong.
	ErrProofNeeded = errors.New("a passphrase or code is needed")
	ErrProofWrong  = errors.New("wrong passphrase or code")
	ErrLockedOut   = errors.New("locked")
	// ErrEnrolled and ErrNotEnrolled say that there is a secret already, or none.
	ErrEnrolled    = errors.New("presence is set up already")
	ErrNotEnrolled = errors.New("presence is not set up")

	// ErrFull refuses a question because limits.pending or
	// limits.pending_per_server is reached.
	ErrFull = errors.New("too many calls waiting")
	// ErrBurst refuses a question because too many were put in a short time.
	ErrBurst = errors.New("too many questions in a short time")
	// ErrTooMany refuses a shim because as many are attached, or attaching, as may be.
	ErrTooMany = errors.New("too many at once")
	// ErrUnrecorded is the reason of every refusal while the audit log can't be
	// written.
	ErrUnrecorded = errors.New("the audit log can't be written")
	// ErrWithdrawn is the cause with which a context ends when the agent took a
	// call back, or left. Held.Wait looks for it.
	ErrWithdrawn = errors.New("withdrawn by the agent")
)
