package backend

import (
	"bytes"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

var initialized = []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)

// resume makes the handshake for a client that had it with another process; then is
// called when it has it here. A server that ends meanwhile is asked again. mu is held.
func (in *instance) resume(m *Member, line []byte, e *wire.Envelope, then func()) {
	key := handshakeKey(line, e)
	in.claim(key)
	g := in.greeting
	switch {
	case in.failed != nil:
		in.letGo(m, fmt.Errorf("%w: %w", ErrDisagrees, in.failed))
	case g == nil || g.key != key:
		in.letGo(m, fmt.Errorf("%w: it has made another handshake", ErrDisagrees))
	case g.answer != nil:
		m.hello = key
		in.initialized(m, initialized)
		then()
	default:
		line := bytes.Clone(line) // e describes the copy as well
		r := &request{owner: m.number, m: m, key: "resume", id: []byte("0"), method: e.Method, since: time.Now()}
		r.swallow = func(answer []byte) { in.resumed(m, line, e, answer, then) }
		m.open[r.key] = r
		in.initialize(r, line, e)
	}
}

// resumed takes the server's answer to a handshake that was made for m.
func (in *instance) resumed(m *Member, line []byte, e *wire.Envelope, answer []byte, then func()) {
	var a wire.Envelope
	switch err := wire.Read(answer, wire.FromServer, &a); {
	case err == nil && a.Kind == wire.Result:
		in.initialized(m, initialized)
		then()
	case err == nil && a.Code == mcp.CodeServerExit:
		in.resume(m, line, e, then)
	default:
		in.letGo(m, fmt.Errorf("%w: it refuses the handshake", ErrDisagrees))
	}
}
