package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// State is what a reader knows of the text it stands in besides what the window
// holds, nil for nothing: that a line which was too long is not over, or that an
// earlier one has ended inside a string. It may be asked for while the window is
// filled, and between two lines.
func (r *Reader) State() []byte {
	if !r.overlong && r.torn.lines == 0 {
		return nil
	}
	var b []byte
	numbers, flags, texts := r.state()
	for _, n := range numbers {
		b = binary.AppendVarint(b, int64(*n))
	}
	for _, f := range flags {
		b = binary.AppendVarint(b, int64(btoi(*f)))
	}
	for _, text := range texts {
		b = append(binary.AppendVarint(b, int64(len(*text))), *text...)
	}
	return append(b, byte(r.scan.capture))
}

// Restore makes a new reader one that has such a state. A state that no reader can
// have is an error, and the reader is of no use then.
func (r *Reader) Restore(state []byte) error {
	if len(state) == 0 {
		return nil
	}
	b := state
	number := func(most int64) (n int64) {
		n, size := binary.Varint(b)
		if size <= 0 || n < -1 || n > most {
			b = nil
			return -1
		}
		b = b[size:]
		return n
	}
	numbers, flags, texts := r.state()
	for _, n := range numbers {
		*n = int(number(1 << 40))
	}
	for _, f := range flags {
		*f = number(1) == 1
	}
	for _, text := range texts {
		n := number(mostHeld + 1)
		if n < 0 || n > int64(len(b)) {
			return errState
		}
		*text, b = bytes.Clone(b[:n]), b[n:]
	}
	if len(b) != 1 || capture(b[0]) > anID || len(r.prefix) > keptPrefix {
		return errState
	}
	r.scan.capture = capture(b[0])
	if len(r.scan.found) == 0 {
		r.scan.found = nil
	}
	if !bytes.Equal(r.State(), state) {
		return errState
	}
	return nil
}

var errState = errors.New("the state of a reader is none that there is")

// state lists what is kept of r, once for both ways.
func (r *Reader) state() (numbers []*int, flags []*bool, texts []*[]byte) {
	t, s := &r.torn, &r.scan
	numbers = []*int{&t.lines, &t.bytes, &t.readings[0].depth, &t.readings[1].depth, &s.offset, &s.depth, &s.start, &s.name, &s.ids, &s.place.Start, &s.place.End}
	flags = []*bool{&r.overlong, &t.readings[0].quoted, &t.readings[1].quoted, &s.quoted, &s.escaped, &s.begun, &s.array, &s.bad, &s.wantsName}
	for i := range s.member {
		flags = append(flags, &s.member[i])
	}
	return numbers, flags, []*[]byte{&r.prefix, &s.held, &s.found}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// IDOf returns the id of a line that is not to be read as a message, nil where it can't
// be told, and whether the line is a request. It does no more than to look for it.
func IDOf(line []byte) (id []byte, asks bool) {
	var s scan
	s.feed(line)
	if _, ok := s.id(); !ok {
		return nil, false
	}
	return s.found, s.asks()
}
