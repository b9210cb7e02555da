package attach

import (
	"fmt"

	"golang.org/x/net/http2/hpack"
)

// reader takes in what the peer sends. It has a goroutine of its own.
type reader struct {
	*Conn
	frames  frameReader
	decoder *hpack.Decoder
	fields  []hpack.HeaderField // of the block that is being decoded
	size    int                 // of fields
}

// run handles frames until the connection ends or the peer breaks the rules.
func (r *reader) run() error {
	r.decoder = hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if r.size += int(f.Size()); r.size <= maxHeaders {
			r.fields = append(r.fields, f)
		}
	})
	r.decoder.SetMaxStringLength(maxHeaders)
	var f frame
	for first := true; ; first = false {
		if err := r.frames.next(&f); err != nil {
			return err
		}
		if first && f.kind != frameSettings {
			return fmt.Errorf("it does not begin with its settings: %w", errProtocol)
		}
		if err := r.handle(&f); err != nil {
			return err
		}
	}
}

func (r *reader) handle(f *frame) error {
	switch f.kind {
	case frameHeaders:
		return r.headers(f)
	case framePush, frameContinuation:
		return fmt.Errorf("a frame of kind %d, which nobody waits for: %w", f.kind, errProtocol)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch f.kind {
	case frameData:
		return r.data(f)
	case frameReset:
		return r.reset(f)
	case frameSettings:
		return r.settings(f)
	case framePing:
		if len(f.payload) != 8 || f.stream != 0 {
			return fmt.Errorf("a ping of %d bytes: %w", len(f.payload), errProtocol)
		}
		if f.has(flagAck) {
			return nil
		}
		return r.write(appendFrame(nil, framePing, flagAck, 0, f.payload))
	case frameGoAway:
		return r.goAway(f)
	case frameWindowUpdate:
		return r.widen(f)
	}
	return nil // kinds that are not known are to be ignored
}

// headers handles HEADERS and the CONTINUATIONs behind it.
func (r *reader) headers(f *frame) error {
	if err := f.unpad(); err != nil {
		return err
	}
	stream, ends := f.stream, f.has(flagEndStream)
	r.fields, r.size = r.fields[:0], 0
	for blocks := len(f.payload); ; blocks += len(f.payload) {
		if blocks > maxHeaders {
			return fmt.Errorf("headers of more than %d bytes: %w", maxHeaders, errProtocol)
		}
		if _, err := r.decoder.Write(f.payload); err != nil {
			return fmt.Errorf("%w: %w", err, errProtocol)
		}
		if f.has(flagEndHeaders) {
			break
		}
		if err := r.frames.next(f); err != nil {
			return err
		}
		if f.kind != frameContinuation || f.stream != stream {
			return fmt.Errorf("headers that do not go on: %w", errProtocol)
		}
	}
	if err := r.decoder.Close(); err != nil {
		return fmt.Errorf("%w: %w", err, errProtocol)
	}
	if r.size > maxHeaders {
		return fmt.Errorf("headers of %d bytes: %w", r.size, errProtocol)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.calls[stream]
	switch {
	case k == nil: // it was given up
		return nil
	case ends:
		var err error
		if status := statusOf(r.fields); status != nil {
			err = status
		}
		r.finish(k, err)
		return nil
	case k.begun:
		return fmt.Errorf("headers in the middle of an answer: %w", errProtocol)
	}
	k.begun = true
	for _, h := range r.fields {
		if h.Name == ":status" && h.Value != "200" {
			r.abandon(k, statusOf(r.fields))
		}
	}
	return nil
}

// data handles DATA. r.mu is held, as for those below.
func (r *reader) data(f *frame) error {
	taken := uint32(len(f.payload)) // also what is padding
	if err := f.unpad(); err != nil {
		return err
	}
	k := r.calls[f.stream]
	if f.stream == 0 || k != nil && !k.begun {
		return fmt.Errorf("data before its headers: %w", errProtocol)
	}
	if taken > 0 {
		back := appendNumber(nil, frameWindowUpdate, 0, taken)
		if k != nil && !f.has(flagEndStream) {
			back = appendNumber(back, frameWindowUpdate, f.stream, taken)
		}
		if err := r.write(back); err != nil {
			return err
		}
	}
	switch {
	case k == nil:
	case len(k.body)+len(f.payload) > maxReply:
		r.abandon(k, &Status{Code: codeInternal, Message: fmt.Sprintf("the daemon's answer has more than %d bytes", maxReply)})
	case f.has(flagEndStream):
		r.finish(k, statusOf(nil))
	default:
		k.body = append(k.body, f.payload...)
	}
	return nil
}

func (r *reader) reset(f *frame) error {
	code, err := f.number()
	if err != nil {
		return err
	}
	if k := r.calls[f.stream]; k != nil {
		const refused, cancelled = 0x7, 0x8
		status := &Status{Code: codeInternal, Message: fmt.Sprintf("the daemon gave the call up (HTTP/2 error %d)", code)}
		switch code {
		case refused:
			status.Code = codeUnavailable
		case cancelled:
			status.Code = codeCanceled
		}
		r.finish(k, status)
	}
	return nil
}

func (r *reader) settings(f *frame) error {
	if f.has(flagAck) {
		return nil
	}
	err := f.settings(func(id uint16, value uint32) error {
		if id != settingInitialWindow {
			return nil
		}
		if value > maxWindow {
			return fmt.Errorf("a window of %d bytes: %w", value, errProtocol)
		}
		for _, k := range r.calls {
			k.window += int64(value) - r.initial
		}
		r.initial = int64(value)
		r.changed.Broadcast()
		return nil
	})
	if err != nil {
		return err
	}
	return r.write(appendFrame(nil, frameSettings, flagAck, 0, nil))
}

// goAway handles GOAWAY: calls that the peer has seen are still answered.
func (r *reader) goAway(f *frame) error {
	if len(f.payload) < 8 || f.stream != 0 {
		return fmt.Errorf("a farewell of %d bytes: %w", len(f.payload), errProtocol)
	}
	seen := frame{payload: f.payload[:4]}
	last, _ := seen.number() // it has four bytes
	r.leaving = fmt.Errorf("%w: it is ending", ErrLost)
	for _, k := range r.calls {
		if k.stream > last&maxWindow {
			r.finish(k, r.leaving)
		}
	}
	return nil
}

func (r *reader) widen(f *frame) error {
	by, err := f.number()
	if err != nil {
		return err
	}
	by &= maxWindow
	window := &r.window
	if f.stream != 0 {
		k := r.calls[f.stream]
		if k == nil {
			return nil
		}
		window = &k.window
	}
	if *window += int64(by); by == 0 || *window > maxWindow {
		return fmt.Errorf("a window that grows by %d bytes to %d: %w", by, *window, errProtocol)
	}
	r.changed.Broadcast()
	return nil
}
