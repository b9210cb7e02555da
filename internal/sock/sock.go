// Package sock finds, creates and checks the sockets through which ThoughtGate's programs
// connect: which folders and sockets are a user's, how to create them so that nobody else can
// replace them, and which process is at the other end of a connection.
//
// The sockets are the only way in. File system permissions and the kernel's information about
// the peer protect them, and both are checked. A folder is used only if it belongs to this
// user, is not a link, is closed to everybody else, and lies below folders that nobody else can
// rename. Each side asks the kernel for the uid of the other before it reads a byte. What the
// daemon learns about a peer from its pid is valid only as long as the pid is still the peer's,
// which a [Peer] can tell.
package sock

import "errors"

var (
	// ErrUnsafe reports a file or folder that somebody else could have put there, or a peer of
	// another user.
	ErrUnsafe = errors.New("not safe to use")
	// ErrInUse reports a lock that is held, or a socket with a listener.
	ErrInUse = errors.New("in use")
	// ErrPeerGone reports a peer that ended before it could be examined.
	ErrPeerGone = errors.New("the peer has ended")
)
