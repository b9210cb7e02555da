// Package journal writes a program's log to systemd's journal with fields of its
// own, so that `journalctl TG_SERVER_ID=files` finds what is about one server.
//
// A line on standard error reaches the journal too, but as text alone. The native
// protocol is one datagram for each entry, with a field a line; a value that holds
// a line end stands behind its length. What is too large for a datagram is handed
// over in a sealed file of memory.
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

// Socket is where journald listens.
const Socket = "/run/systemd/journal/socket"

// Handler is a slog.Handler that writes to the journal. The values that it is
// given must be fit to be shown: it escapes nothing.
type Handler struct {
	identifier string
	level      slog.Leveler
	fallback   slog.Handler
	attrs      []slog.Attr
	*sender
}

// sender is what handlers with other attributes share.
type sender struct {
	send func(entry []byte) error
	shut func() error

	mu    sync.Mutex // guards what follows, and is held while sending
	tired time.Time  // until then nothing is sent
}

// rest is for how long nothing is sent to a journal that took nothing in.
const rest = time.Second

// New returns a handler that writes entries of a program to the journal that
// listens at socket, and what can't be written there to fallback. Close ends it.
func New(socket, identifier string, level slog.Leveler, fallback slog.Handler) (*Handler, error) {
	send, shut, err := dial(socket)
	if err != nil {
		return nil, fmt.Errorf("write to the journal: %w", err)
	}
	return &Handler{identifier: identifier, level: level, fallback: fallback, sender: &sender{send: send, shut: shut}}, nil
}

// Close ends the handler and those made from it.
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

// WithGroup implements slog.Handler. Fields of the journal have no groups, and
// neither have ours.
func (h *Handler) WithGroup(string) slog.Handler { return h }

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if h.try(h.entry(r)) {
		return nil
	}
	return h.fallback.Handle(ctx, r)
}

// try reports whether the journal has taken an entry.
func (s *sender) try(entry []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.tired) {
		return false
	}
	if s.send(entry) != nil {
		s.tired = time.Now().Add(rest)
		return false
	}
	return true
}

// entry is r as the journal reads it.
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
		if a.Key != "component" { // journalctl shows the message alone
			message += " " + a.Key + "=" + quoted(value)
		}
		e = field(e, Field(a.Key), value)
	}
	e = field(e, "MESSAGE", message)
	e = field(e, "PRIORITY", strconv.Itoa(priority(r.Level)))
	return field(e, "SYSLOG_IDENTIFIER", h.identifier)
}

// quoted is a value as it stands in a message.
func quoted(value string) string {
	if value == "" || strings.ContainsAny(value, " \t\n=\"") {
		return strconv.Quote(value)
	}
	return value
}

// Field is the journal's name for an attribute: TG_SERVER_ID for server_id.
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

// priority is the level of syslog(3) for one of ours.
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
