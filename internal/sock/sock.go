// Package sock is where ThoughtGate's programs meet: which folders and sockets
// are a user's, how they are made so that nobody else can stand in their place,
// and who is at the other end of a connection.
//
// The sockets are the only way in, and what protects them is the file system
// and the kernel's word on the peer. So neither is taken on trust. A folder is
// used only if it is ours, is no link, is closed to everybody else, and lies
// below folders that nobody else can rename. Each side asks the kernel for the
// uid of the other before it reads a byte. What the daemon then learns about a
// peer from its pid holds only as long as the pid is surely still the peer's,
// which a [Peer] can tell.
package sock

import "errors"

var (
	// ErrUnsafe is a file or folder that somebody else could have put there, or
	// a peer of another user.
	ErrUnsafe = errors.New("not safe to use")
	// ErrInUse is a lock that is held or a socket that is being served.
	ErrInUse = errors.New("in use")
	// ErrPeerGone is a peer that ended before it could be looked at.
	ErrPeerGone = errors.New("the peer has ended")
)
