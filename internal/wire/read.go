package wire

import (
	"bytes"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// pooled is the longest line, in bytes, whose reader is used again. A reader
// of longer ones may have grown.
const pooled = 64 << 10

var walkers = sync.Pool{New: func() any { return new(walker) }}

// A lone surrogate escape in what a server says is text that JavaScript cut; it
// is let through. The same option lets invalid bytes through, so these are
// looked for before.
var fromServer = []jsontext.Options{jsontext.AllowInvalidUTF8(true)}

// Read says what line is: one message, written by from. It fills e, whose spans
// are ranges of line. line is without its line end, is only read, and is not
// kept. The error, if any, is a *[Refusal]; e is of no use then. Read is safe for
// concurrent use and allocates nothing for small messages with known methods.
func Read(line []byte, from Side, e *Envelope) error {
	if refusal := read(line, from, e); refusal != nil {
		return refusal.in(line, from)
	}
	return nil
}

func read(line []byte, from Side, e *Envelope) *Refusal {
	switch {
	case bytes.IndexByte(line, '\r') >= 0:
		return errBareCR
	case bytes.IndexByte(line, '\n') >= 0:
		return errLineBreak
	}
	return readText(line, from, e)
}

// readText reads a message that may have line breaks between its tokens, since
// something else than a line frames it.
func readText(line []byte, from Side, e *Envelope) *Refusal {
	if fault := checkText(line, from); fault != nil {
		return fault
	}
	w := walkers.Get().(*walker)
	w.begin(line, from)
	err := w.message()
	*e = w.e
	w.release(line)
	if err != nil {
		return faultOf(err)
	}
	return nil
}

// checkText looks for what is wrong with a message before its tokens are read.
func checkText(line []byte, from Side) *Refusal {
	switch {
	case len(line) > MaxMessage:
		return errTooLong
	case from == FromServer && !utf8.Valid(line):
		return errUTF8
	case tooDeep(line):
		return errDepth
	}
	return nil
}

// in returns the refusal of line for the reason r: with the id, if there is
// exactly one.
func (r *Refusal) in(line []byte, from Side) *Refusal {
	refusal := *r
	var s scan
	s.feed(line)
	if id, ok := s.id(); ok {
		// A line that is both request and answer is taken for what its writer
		// mostly sends.
		refusal.ID = id
		refusal.Answer = s.asks() || from == FromAgent && s.member[topMethod]
	}
	return &refusal
}

// tooDeep reports whether more than MaxDepth objects and arrays are open at
// once in line. Most lines don't have so many.
func tooDeep(line []byte) bool {
	return len(line) > MaxDepth &&
		bytes.Count(line, []byte("["))+bytes.Count(line, []byte("{")) > MaxDepth &&
		nesting(line) > MaxDepth
}

// nesting returns how many objects and arrays are open at most in line. Up to
// the first fault of the line it sees strings as the decoder does, so it never
// returns less than the decoder would meet.
func nesting(line []byte) int {
	depth, most := 0, 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '"':
			i += stringLength(line[i+1:])
		case '{', '[':
			depth++
			most = max(most, depth)
		case '}', ']':
			depth--
		}
	}
	return most
}

// stringLength returns how many bytes of text belong to the string that it
// begins in, its closing quote included.
func stringLength(text []byte) int {
	for n := 0; ; n++ {
		i := bytes.IndexByte(text[n:], '"')
		if i < 0 {
			return len(text)
		}
		n += i
		if !endsEscaped(text[:n]) {
			return n + 1
		}
	}
}
