package attach

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Protocol is the version of the protocol between tg-shim and the daemon.
const Protocol = 1

// service is the prefix of the methods below.
const service = "/thoughtgate.v1.Gate/"

// Profile is the profile that the user wants for the session; see the .proto files.
type Profile int

// Values of Profile.
const (
	Unspecified Profile = iota
	Production
	Development
)

// Hello holds the fields of AttachRequest, except Protocol.
type Hello struct {
	Build, Attachment, Session string
	Server, Executable         string
	Command                    []string
	Cwd                        string
	Profile                    Profile
	From                       string
	Sets                       []string
	Patience                   time.Duration // 0 if not set
	Extension                  string
	Remote                     bool
}

// Welcome holds the fields of AttachResponse.
type Welcome struct {
	Build     string
	Profile   Profile
	Start     bool
	RawStderr bool
	Reattach  time.Duration // 0 if not set
}

// Attach hands fds to the daemon. The caller keeps its own copies.
func (d Daemon) Attach(ctx context.Context, h *Hello, fds ...int) (*Welcome, error) {
	reply, err := d.call(ctx, service+"Attach", h.encode(), fds...)
	if err != nil {
		return nil, err
	}
	w, err := decodeWelcome(reply)
	if err != nil {
		return nil, &Status{Code: codeInternal, Message: fmt.Sprintf("the daemon's answer can't be read: %v", err)}
	}
	return w, nil
}

// Started reports the process of the server to the daemon, or with pid 0 the reason why there
// is none.
func (d Daemon) Started(ctx context.Context, attachment string, pid int, reason string) error {
	var b message
	b.text(1, attachment)
	b.number(2, pid)
	b.text(3, reason)
	_, err := d.call(ctx, service+"Started", b)
	return err
}

// Signal reports to the daemon a signal that this process has received.
func (d Daemon) Signal(ctx context.Context, attachment string, signal int) error {
	var b message
	b.text(1, attachment)
	b.number(2, signal)
	_, err := d.call(ctx, service+"Signal", b)
	return err
}

// Ended reports to the daemon how the server has ended.
func (d Daemon) Ended(ctx context.Context, attachment string, status, signal int) error {
	var b message
	b.text(1, attachment)
	b.number(2, status)
	b.number(3, signal)
	_, err := d.call(ctx, service+"Ended", b)
	return err
}

func (h *Hello) encode() []byte {
	var b message
	b.number(1, Protocol)
	b.text(2, h.Build)
	b.text(3, h.Attachment)
	b.text(4, h.Session)
	b.text(5, h.Server)
	b.text(6, h.Executable)
	b.texts(7, h.Command)
	b.text(8, h.Cwd)
	b.number(9, int(h.Profile))
	b.text(10, h.From)
	b.texts(11, h.Sets)
	b.duration(12, h.Patience)
	b.text(13, h.Extension)
	if h.Remote {
		b.number(14, 1)
	}
	return b
}

// message is a protobuf message being encoded. Zero values are omitted.
type message []byte

func (m *message) number(field protowire.Number, n int) {
	if n != 0 {
		*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(n))
	}
}

func (m *message) bytes(field protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
}

func (m *message) text(field protowire.Number, s string) {
	if s != "" {
		m.bytes(field, []byte(s))
	}
}

func (m *message) duration(field protowire.Number, d time.Duration) {
	if d > 0 {
		var inner message
		inner.number(1, int(d/time.Second))
		inner.number(2, int(d%time.Second))
		m.bytes(field, inner)
	}
}

func (m *message) texts(field protowire.Number, all []string) {
	for _, s := range all {
		m.bytes(field, []byte(s))
	}
}

func decodeWelcome(b []byte) (*Welcome, error) {
	w, protocol := &Welcome{}, uint64(0)
	var took error
	err := fields(b, func(field protowire.Number, n uint64) {
		switch field {
		case 1:
			protocol = n
		case 3:
			w.Profile = Profile(n)
		case 4:
			w.Start = n != 0
		case 5:
			w.RawStderr = n != 0
		}
	}, func(field protowire.Number, b []byte) {
		switch field {
		case 2:
			w.Build = string(b)
		case 6:
			w.Reattach, took = decodeDuration(b)
		}
	})
	err = errors.Join(err, took)
	if err == nil && protocol != Protocol {
		err = fmt.Errorf("it speaks protocol %d and the shim %d; install both from one release and restart the daemon", protocol, Protocol)
	}
	return w, err
}

func decodeDuration(b []byte) (time.Duration, error) {
	var seconds, nanos uint64
	err := fields(b, func(field protowire.Number, n uint64) {
		switch field {
		case 1:
			seconds = n
		case 2:
			nanos = n
		}
	}, func(protowire.Number, []byte) {})
	if err == nil && (seconds > math.MaxInt64/uint64(time.Second)-1 || nanos >= uint64(time.Second)) {
		err = errors.New("a duration that is none")
	}
	return time.Duration(seconds)*time.Second + time.Duration(nanos), err
}

// fields calls number or content for each field of a message, in order. Fields of other wire
// types are skipped.
func fields(b []byte, number func(protowire.Number, uint64), content func(protowire.Number, []byte)) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var value uint64
		var inside []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			inside, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			number(field, value)
		case protowire.BytesType:
			content(field, inside)
		}
	}
	return nil
}
