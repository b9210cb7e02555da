// Package remote speaks to MCP servers behind an address, as their only client.
//
// A server on pipes reads and writes lines. A [Conn] makes a server behind an address look the same: it
// takes the agent's lines, sends each as a POST, and delivers as lines what the server says. No line is
// decoded and encoded again; white space between tokens is all that may change, if a server wrote a
// message on several lines.
//
// # Eras
//
// The agent's bytes decide how the server is spoken to, and nothing is translated:
//
//   - A request whose _meta names a protocol version is modern (2026-07-28). Headers repeat parts of
//     it. Closing the response cancels it.
//   - initialize begins a session of Streamable HTTP (2025-03-26 to 2025-11-25), with a stream for what
//     the server says by itself. Streams that break are resumed if the server numbers its events.
//   - If the server does not accept initialize, but has a stream that begins with an endpoint, it is
//     spoken to as in 2024-11-05: that stream has all answers. A [Transport] is tried alone.
//
// If the server no longer knows its session, the Conn repeats the agent's handshake once and answers
// the requests of the old session with an error.
//
// # What is never done
//
// A request that may have been executed is not sent again, unless the caller says that it is
// idempotent. Nothing is sent to another origin than that of the address: neither redirects nor the
// endpoints of 2024-11-05 lead there. Addresses are checked when they are connected to; see [Policy].
// Errors never contain headers, or an address beyond its path.
//
// # What a server can't do
//
// The answer on a request's stream is the answer to that request. A server that answers another open
// one there is taken for hostile, and its stream is closed. Messages, lines, headers and the bytes
// between two messages are limited, all after decompression, and so is the number of large messages
// that are received at once.
package remote

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Server says how a server is reached.
type Server struct {
	ID      string // for errors
	Address string // http, https, or unix for a socket; see uri.ParseServer
	Headers http.Header
	Policy  Policy
	Environ []string // of the agent; it names proxies

	Transport Transport

	CAFile            string // accepted besides the system's certificates; empty for none
	CertFile, KeyFile string // of a client certificate; empty for none, or if the key is in CertFile

	Authorizer Authorizer // may be nil
	// LoginTime is how long Authorizer may wait for a person, by which a repeated handshake may take longer.
	LoginTime time.Duration

	// Idempotent reports whether a request may be sent again if nobody knows what has become of it. If
	// it is nil, none may.
	Idempotent func(line []byte, e *wire.Envelope) bool
}

// Transport says how messages of a session are carried.
type Transport uint8

const (
	// AnyTransport is Streamable HTTP, or OldSSE if the server does not accept it.
	AnyTransport Transport = iota
	// StreamableHTTP is that of 2025-03-26 and later.
	StreamableHTTP
	// OldSSE is HTTP+SSE, that of 2024-11-05.
	OldSSE
)

// Authorizer authorizes requests to a server, where the headers of its configuration don't. Its methods are
// safe for concurrent use. Authorize and challenged may wait for a person until the context of the request ends.
type Authorizer interface {
	// Authorize adds to a request what authorizes it, if there is anything. The request is not sent if it
	// returns an error.
	//
	// challenged handles an answer with status 401 or 403 to that request. again says that the request may
	// be sent once more, after another call of Authorize. An error is the answer to the agent. Neither
	// means that the answer of the server is.
	Authorize(r *http.Request) (challenged func(status int, h http.Header) (again bool, err error), err error)
	// Close is called when the connection has ended.
	Close()
}

// Client receives the lines of a server.
type Client interface {
	// DeliverWait takes one line without line end, which is valid during the call. It waits while too
	// much is unread. An error means that the client takes no more.
	DeliverWait(ctx context.Context, line []byte) error
	// Gone reports that the server no longer serves the client, and why.
	Gone(err error)
}

// ErrLeft reports that a connection was left.
var ErrLeft = errors.New("the connection was left")
