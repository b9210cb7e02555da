// Package journal writes a program's log to systemd's journal with fields of its own, so that,
// for example, `journalctl TG_SERVER_ID=files` shows the entries about one server.
//
// A line on standard error reaches the journal too, but only as text. The native protocol sends
// a datagram for each entry with one field a line; a value that contains a line break is
// preceded by its length. An entry too large for a datagram is passed in a sealed memory file.
package journal

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Socket is the socket of journald.
const Socket = "/run/systemd/journal/socket"

// Handler is a slog.Handler that writes to the journal. Values must be safe to display: it
// escapes nothing.
type Handler struct {
	identifier string
	level      slog.Leveler
	fallback   slog.Handler
	attrs      []slog.Attr
	*sender
}

// sender is shared by handlers with different attributes.
type sender struct {
	send func(entry []byte) error
	shut func() error

	mu         sync.Mutex // guards the fields below; held while sending
	retryAfter time.Time  // nothing is sent before this time
}

// retryDelay is how long nothing is sent after a failure.
const retryDelay = time.Second

// New returns a handler that writes entries of a program to the journal at socket, and to
// fallback what can't be written there. Close closes it.
func New(socket, identifier string, level slog.Leveler, fallback slog.Handler) (*Handler, error) {
	send, shut, err := dial(socket)
	if err != nil {
		return nil, fmt.Errorf("write to the journal: %w", err)
	}
	return &Handler{identifier: identifier, level: level, fallback: fallback, sender: &sender{send: send, shut: shut}}, nil
}

// Close closes the handler and all derived from it.
func (h *Handler) Close() error { return h.shut() }

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	with.fallback = h.fallback.WithAttrs(attrs)
	return &with
}

// WithGroup implements slog.Handler. It ignores groups: journal fields have none, and
// ThoughtGate uses none.
func (h *Handler) WithGroup(string) slog.Handler { return h }

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if h.try(h.entry(r)) {
		return nil
	}
	return h.fallback.Handle(ctx, r)
}

// try sends an entry and reports whether the journal took it.
func (s *sender) try(entry []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.retryAfter) {
		return false
	}
	if s.send(entry) != nil {
		s.retryAfter = time.Now().Add(retryDelay)
		return false
	}
	return true
}

// entry returns r in the journal's native format.
func (h *Handler) entry(r slog.Record) []byte {
	var attrs []slog.Attr
	attrs = append(attrs, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	var e []byte
	message := r.Message
	for _, a := range attrs {
		value := a.Value.Resolve().String()
		if a.Key != "component" { // journalctl shows only the message
			message += " " + a.Key + "=" + quoted(value)
		}
		e = field(e, Field(a.Key), value)
	}
	e = field(e, "MESSAGE", message)
	e = field(e, "PRIORITY", strconv.Itoa(priority(r.Level)))
	return field(e, "SYSLOG_IDENTIFIER", h.identifier)
}

// quoted returns a value for use in a message.
func quoted(value string) string {
	if value == "" || strings.ContainsAny(value, " \t\n=\"") {
		return strconv.Quote(value)
	}
	return value
}

// Field returns the journal's field name for an attribute: TG_SERVER_ID for server_id.
func Field(key string) string {
	const longest = 64
	name := []byte("TG_")
	for _, c := range []byte(key) {
		switch {
		case 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		case 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		default:
			c = '_'
		}
		name = append(name, c)
	}
	return string(name[:min(len(name), longest)])
}

func field(e []byte, name, value string) []byte {
	e = append(e, name...)
	if strings.IndexByte(value, '\n') < 0 {
		e = append(e, '=')
	} else {
		e = append(e, '\n')
		e = binary.LittleEndian.AppendUint64(e, uint64(len(value)))
	}
	e = append(e, value...)
	return append(e, '\n')
}

// priority returns the syslog(3) priority of a level.
func priority(level slog.Level) int {
	switch {
	case level >= slog.LevelError:
		return 3
	case level >= slog.LevelWarn:
		return 4
	case level >= slog.LevelInfo:
		return 6
	}
	return 7
}
