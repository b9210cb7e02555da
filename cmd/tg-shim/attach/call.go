// Package attach is tg-shim's side of the Gate service: it hands the descriptors of an agent
// and a server to the daemon and makes the few calls that go with that.
//
// A tg-shim runs beside every server, so it links no library for gRPC or HTTP. A unary call
// needs little: this package implements as much of HTTP/2, gRPC and protobuf as it uses, for a
// peer whose uid was checked. A tg-shim usually makes three calls, so each has a connection of
// its own. Everything that the peer sends is limited in size.
package attach

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/thoughtgate/thoughtgated/internal/sock"
)

const (
	// maxReply is the maximum size of a reply, in bytes.
	maxReply = 1 << 20
	// ourStream is the number of the only stream of a connection.
	ourStream = 1
)

// Daemon is the path of the daemon's socket.
type Daemon string

// call calls method with a request, passes fds to the daemon, and returns the reply. The caller
// keeps its fds. The error is a [*Status] if the daemon returned one, and wraps [ErrLost] if
// the connection was made and ended without an answer.
func (d Daemon) call(ctx context.Context, method string, request []byte, fds ...int) ([]byte, error) {
	conn, err := sock.Dial(ctx, string(d))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if len(fds) > 0 {
		if err := sock.Pass(ctx, conn.(*net.UnixConn), fds...); err != nil {
			return nil, err
		}
	}
	return exchange(ctx, conn, method, request)
}

// exchange makes one call on a new connection.
func exchange(ctx context.Context, conn net.Conn, method string, request []byte) ([]byte, error) {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	x := stream{
		conn: conn, frames: frameReader{r: bufio.NewReaderSize(conn, 512)}, connWindow: initialWindow, window: initialWindow, initial: initialWindow,
		unsent: append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request))), request...), // 0: not compressed
	}
	err := x.run(requestHeaders(ctx, method))
	var status *Status
	switch {
	case err == nil:
		return onlyMessage(x.body)
	case errors.As(err, &status):
		return nil, err
	case ctx.Err() != nil:
		return nil, fmt.Errorf("wait for the daemon's answer: %w", context.Cause(ctx))
	}
	return nil, fmt.Errorf("%w: %w", ErrLost, err)
}

// requestHeaders returns the headers of a unary call.
func requestHeaders(ctx context.Context, method string) []byte {
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method}, {Name: ":authority", Value: "localhost"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}, {Name: "user-agent", Value: "tg-shim"},
	}
	if end, ok := ctx.Deadline(); ok {
		const most = 99_999_999 // eight digits
		left := min(max(1, time.Until(end).Milliseconds()), most)
		fields = append(fields, hpack.HeaderField{Name: "grpc-timeout", Value: strconv.FormatInt(left, 10) + "m"})
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range fields {
		_ = encoder.WriteField(f) // block does not fail
	}
	return block.Bytes()
}

// onlyMessage returns the only message in the body of a reply.
func onlyMessage(body []byte) ([]byte, error) {
	const head = 5
	if len(body) < head || body[0] != 0 || int64(binary.BigEndian.Uint32(body[1:])) != int64(len(body)-head) {
		return nil, &Status{Code: codeInternal, Message: fmt.Sprintf("the daemon's answer of %d bytes is not one message", len(body))}
	}
	return body[head:], nil
}

// stream is a call in progress.
type stream struct {
	conn    net.Conn
	frames  frameReader
	decoder *hpack.Decoder
	fields  []hpack.HeaderField // of the header block being decoded
	size    int                 // size of fields

	unsent             []byte
	connWindow, window int64 // bytes that may be sent, on the connection and on the stream
	initial            int64 // initial size of window

	begun bool   // the headers of the reply have arrived
	over  bool   // the whole reply has arrived
	body  []byte // what has arrived of the reply's body
}

// run sends the call and handles frames until the reply is complete. The error is a [*Status]
// if the daemon returned one.
func (s *stream) run(headers []byte) error {
	s.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if s.size += int(f.Size()); s.size <= maxHeaders {
			s.fields = append(s.fields, f)
		}
	})
	s.decoder.SetMaxStringLength(maxHeaders)
	var settings []byte
	for _, set := range []struct {
		id    uint16
		value uint32
	}{{settingPush, 0}, {settingHeaderList, maxHeaders}} {
		settings = binary.BigEndian.AppendUint16(settings, set.id)
		settings = binary.BigEndian.AppendUint32(settings, set.value)
	}
	out := appendFrame([]byte(preface), frameSettings, 0, 0, settings)
	out = appendFrame(out, frameHeaders, flagEndHeaders, ourStream, headers)
	if err := s.send(out); err != nil {
		return err
	}
	var f frame
	for first := true; !s.over; first = false {
		if err := s.frames.next(&f); err != nil {
			return err
		}
		if first && f.kind != frameSettings {
			return fmt.Errorf("it does not begin with its settings: %w", errProtocol)
		}
		if err := s.handle(&f); err != nil {
			return err
		}
	}
	return nil
}

// send writes out, and then as much of the request as flow control allows.
func (s *stream) send(out []byte) error {
	for len(s.unsent) > 0 {
		n := min(int64(len(s.unsent)), s.connWindow, s.window, maxPayload)
		if n <= 0 {
			break
		}
		var flags byte
		if n == int64(len(s.unsent)) {
			flags = flagEndStream
		}
		out = appendFrame(out, frameData, flags, ourStream, s.unsent[:n])
		s.unsent, s.connWindow, s.window = s.unsent[n:], s.connWindow-n, s.window-n
	}
	if len(out) == 0 {
		return nil
	}
	_, err := s.conn.Write(out)
	return err
}

func (s *stream) handle(f *frame) error {
	switch f.kind {
	case frameHeaders, frameData, frameReset:
		if f.stream != ourStream {
			return fmt.Errorf("a frame for stream %d, which nobody has opened: %w", f.stream, errProtocol)
		}
		// HTTP/2 allows both; the daemon sends neither.
		if f.kind != frameReset && f.has(flagPadded) || f.kind == frameHeaders && f.has(flagPriority) {
			return fmt.Errorf("a frame with padding or a priority: %w", errProtocol)
		}
	case framePush, frameContinuation:
		return fmt.Errorf("a frame of kind %d, which nobody waits for: %w", f.kind, errProtocol)
	}
	switch f.kind {
	case frameHeaders:
		return s.headers(f)
	case frameData:
		return s.data(f)
	case frameReset:
		return reset(f)
	case frameSettings:
		return s.settings(f)
	case framePing:
		if len(f.payload) != 8 || f.stream != 0 {
			return fmt.Errorf("a ping of %d bytes: %w", len(f.payload), errProtocol)
		}
		if f.has(flagAck) {
			return nil
		}
		return s.send(appendFrame(nil, framePing, flagAck, 0, f.payload))
	case frameGoAway:
		return goAway(f)
	case frameWindowUpdate:
		return s.widen(f)
	}
	return nil // unknown kinds must be ignored
}

// headers handles HEADERS and the CONTINUATION frames that follow.
func (s *stream) headers(f *frame) error {
	ends := f.has(flagEndStream)
	s.fields, s.size = s.fields[:0], 0
	for blocks := len(f.payload); ; blocks += len(f.payload) {
		if blocks > maxHeaders {
			return fmt.Errorf("headers of more than %d bytes: %w", maxHeaders, errProtocol)
		}
		if _, err := s.decoder.Write(f.payload); err != nil {
			return fmt.Errorf("%w: %w", err, errProtocol)
		}
		if f.has(flagEndHeaders) {
			break
		}
		if err := s.frames.next(f); err != nil {
			return err
		}
		if f.kind != frameContinuation || f.stream != ourStream {
			return fmt.Errorf("headers that do not go on: %w", errProtocol)
		}
	}
	if err := s.decoder.Close(); err != nil {
		return fmt.Errorf("%w: %w", err, errProtocol)
	}
	if s.size > maxHeaders {
		return fmt.Errorf("headers of %d bytes: %w", s.size, errProtocol)
	}
	if ends {
		s.over = true
		return statusOf(s.fields)
	}
	if s.begun {
		return fmt.Errorf("headers in the middle of an answer: %w", errProtocol)
	}
	s.begun = true
	for _, h := range s.fields {
		if h.Name == ":status" && h.Value != "200" {
			return statusOf(s.fields)
		}
	}
	return nil
}

func (s *stream) data(f *frame) error {
	switch {
	case !s.begun:
		return fmt.Errorf("data before its headers: %w", errProtocol)
	case len(s.body)+len(f.payload) > maxReply:
		return &Status{Code: codeInternal, Message: fmt.Sprintf("the daemon's answer has more than %d bytes", maxReply)}
	case f.has(flagEndStream):
		return statusOf(nil)
	}
	s.body = append(s.body, f.payload...)
	taken := uint32(len(f.payload))
	if taken == 0 {
		return nil
	}
	return s.send(appendNumber(appendNumber(nil, frameWindowUpdate, 0, taken), frameWindowUpdate, ourStream, taken))
}

// reset handles RST_STREAM.
func reset(f *frame) error {
	code, err := f.number()
	if err != nil {
		return err
	}
	const refused, cancelled = 0x7, 0x8
	status := &Status{Code: codeInternal, Message: fmt.Sprintf("the daemon gave the call up (HTTP/2 error %d)", code)}
	switch code {
	case refused:
		status.Code = codeUnavailable
	case cancelled:
		status.Code = codeCanceled
	}
	return status
}

func (s *stream) settings(f *frame) error {
	if f.has(flagAck) {
		return nil
	}
	if len(f.payload)%6 != 0 || f.stream != 0 {
		return fmt.Errorf("settings of %d bytes for stream %d: %w", len(f.payload), f.stream, errProtocol)
	}
	for b := f.payload; len(b) > 0; b = b[6:] {
		id, value := binary.BigEndian.Uint16(b), binary.BigEndian.Uint32(b[2:])
		if id != settingInitialWindow {
			continue
		}
		if value > maxWindow {
			return fmt.Errorf("a window of %d bytes: %w", value, errProtocol)
		}
		s.window += int64(value) - s.initial
		s.initial = int64(value)
	}
	return s.send(appendFrame(nil, frameSettings, flagAck, 0, nil))
}

// goAway handles GOAWAY. A call that the peer has seen is still answered.
func goAway(f *frame) error {
	if len(f.payload) < 8 || f.stream != 0 {
		return fmt.Errorf("a farewell of %d bytes: %w", len(f.payload), errProtocol)
	}
	if binary.BigEndian.Uint32(f.payload)&maxWindow < ourStream {
		return errors.New("it is ending")
	}
	return nil
}

// widen handles WINDOW_UPDATE.
func (s *stream) widen(f *frame) error {
	by, err := f.number()
	if err != nil {
		return err
	}
	by &= maxWindow
	window := &s.connWindow
	if f.stream != 0 {
		window = &s.window
	}
	if *window += int64(by); by == 0 || *window > maxWindow {
		return fmt.Errorf("a window that grows by %d bytes to %d: %w", by, *window, errProtocol)
	}
	return s.send(nil)
}
