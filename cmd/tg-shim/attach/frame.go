package attach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Frame types and flags of HTTP/2 (RFC 9113, section 6) that matter to a client that makes
// small calls.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	framePush         = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9

	flagAck        = 0x1 // for SETTINGS and PING
	flagEndStream  = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20

	settingPush          = 0x2
	settingInitialWindow = 0x4
	settingHeaderList    = 0x6
)

const (
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	initialWindow = 65535 // bytes that may be sent before the first WINDOW_UPDATE
	maxWindow     = 1<<31 - 1
	maxPayload    = 16384 // bytes of one frame; a peer must not exceed it unless allowed to
	maxHeaders    = 64 << 10
)

// errProtocol reports a violation of HTTP/2, or a use of it that this client does not support.
var errProtocol = errors.New("it breaks the rules of HTTP/2")

// frame is an HTTP/2 frame. Its payload is valid until the next frame is read.
type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func (f *frame) has(flag byte) bool { return f.flags&flag != 0 }

// frameReader reads frames.
type frameReader struct {
	r      io.Reader
	header [9]byte
	buf    []byte
}

// next reads one frame into f.
func (r *frameReader) next(f *frame) error {
	if _, err := io.ReadFull(r.r, r.header[:]); err != nil {
		return err
	}
	n := int(r.header[0])<<16 | int(r.header[1])<<8 | int(r.header[2])
	if n > maxPayload {
		return fmt.Errorf("a frame of %d bytes: %w", n, errProtocol)
	}
	if n > cap(r.buf) {
		r.buf = make([]byte, n)
	}
	f.kind, f.flags = r.header[3], r.header[4]
	f.stream = binary.BigEndian.Uint32(r.header[5:]) & maxWindow
	f.payload = r.buf[:n]
	if _, err := io.ReadFull(r.r, f.payload); err != nil {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// appendFrame appends one frame.
func appendFrame(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, payload...)
}

// appendNumber appends a frame whose payload is one number: WINDOW_UPDATE or
// RST_STREAM.
func appendNumber(b []byte, kind byte, stream, number uint32) []byte {
	return appendFrame(b, kind, 0, stream, binary.BigEndian.AppendUint32(nil, number))
}

// number returns the payload of such a frame.
func (f *frame) number() (uint32, error) {
	if len(f.payload) != 4 {
		return 0, fmt.Errorf("a frame of %d bytes that should have 4: %w", len(f.payload), errProtocol)
	}
	return binary.BigEndian.Uint32(f.payload), nil
}
