package attach

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
)

// ErrLost reports that the connection ended before a call was answered. The daemon may or may
// not have carried out the call.
var ErrLost = errors.New("the connection to the daemon was lost")

// Status is a gRPC status other than OK that the daemon returned.
type Status struct {
	Code    int
	Message string // for a person
	Reason  string // for programs; may be empty
}

func (s *Status) Error() string { return s.Message }

// The gRPC status codes that are distinguished here.
const (
	codeOK            = 0
	codeCanceled      = 1
	codeUnknown       = 2
	codeDeadline      = 4
	codeUnimplemented = 12
	codeInternal      = 13
	codeUnavailable   = 14
	codeLast          = 16
)

// IsTemporary reports whether a retry may succeed: the daemon is ending, or the call timed out.
func (s *Status) IsTemporary() bool {
	return s.Code == codeCanceled || s.Code == codeDeadline || s.Code == codeUnavailable
}

// statusOf returns the [*Status] in the last headers of a call, nil for OK.
func statusOf(headers []hpack.HeaderField) error {
	code, message, reason := -1, "", ""
	for _, h := range headers {
		switch h.Name {
		case ":status":
			if h.Value != "200" {
				return &Status{Code: codeUnknown, Message: "what listens at the socket is not the daemon: it answers with the HTTP status " + strconv.Quote(clip(h.Value))}
			}
		case "grpc-status":
			n, err := strconv.Atoi(h.Value)
			if err != nil || n < codeOK || n > codeLast {
				return &Status{Code: codeUnknown, Message: "the daemon answers with the status " + strconv.Quote(clip(h.Value)) + ", which says nothing"}
			}
			code = n
		case "grpc-message":
			message = unescape(h.Value)
		case "grpc-status-details-bin":
			reason = reasonIn(h.Value)
		}
	}
	switch {
	case code < 0:
		return &Status{Code: codeInternal, Message: "the daemon's answer has no status"}
	case code == codeOK:
		return nil
	case code == codeUnimplemented:
		message = "thoughtgated is of another version, restart it: " + message
	case message == "":
		message = fmt.Sprintf("the daemon answers with the status %d", code)
	}
	return &Status{code, message, reason}
}

// reasonIn returns the reason of the ErrorInfo in the details of a status, empty if there is
// none.
func reasonIn(details string) (reason string) {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(details, "="))
	if err != nil {
		return ""
	}
	const detail, value, text = 3, 2, 1 // the fields on the way to the reason
	within := func(b []byte, field protowire.Number, to func([]byte)) {
		_ = fields(b, func(protowire.Number, uint64) {}, func(f protowire.Number, b []byte) { // malformed details have no reason
			if f == field {
				to(b)
			}
		})
	}
	within(b, detail, func(b []byte) {
		within(b, value, func(b []byte) {
			within(b, text, func(b []byte) { reason = string(b) })
		})
	})
	return reason
}

// Withheld reports whether the server's start waits for a person to accept it.
func (s *Status) Withheld() bool { return s.Reason == "WITHHELD" }

// unescape decodes gRPC's percent-encoding. Invalid escapes are left as they are.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(n))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return strings.ToValidUTF8(string(b), "\ufffd")
}

func clip(s string) string { return s[:min(len(s), 64)] }
