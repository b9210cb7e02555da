package wire

import "bytes"

// torn remembers that a line ended inside a string. Its writer meant the line break as
// part of the text, so the following lines are text too, up to the end of that string,
// even if they look like messages. This is how a message is smuggled through a program
// that does not escape what it quotes.
//
// The end of the string can only be guessed, since quotes in such a text are not escaped
// either. Two readings are followed: in one the next line begins inside the string, in
// the other outside. The message has ended when all its objects and arrays are closed in
// either reading. A whole message in between closes its own, so it ends nothing.
type torn struct {
	lines    int // since the torn line; 0 if there is none
	bytes    int
	readings [2]reading
}

type reading struct {
	quoted bool
	depth  int
}

// Limits, so that a peer that merely lost the end of one line is not cut off for good.
const (
	mostTornLines = 16
	mostTornBytes = MaxMessage
)

// begin records a line that ended inside a string with depth objects and arrays open.
func (t *torn) begin(depth int) {
	depth = max(depth, 1)
	*t = torn{lines: 1, readings: [2]reading{{true, depth}, {false, depth}}}
}

// covers reports whether line is part of the torn message, and updates the readings.
func (t *torn) covers(line []byte) bool {
	if t.lines == 0 {
		return false
	}
	ended := false
	for i := range t.readings {
		ended = t.readings[i].follow(line) || ended
	}
	t.lines++
	t.bytes += len(line)
	if ended || t.lines > mostTornLines || t.bytes > mostTornBytes {
		*t = torn{}
	}
	return true
}

// follow reads the next line and reports whether everything was closed.
func (r *reading) follow(line []byte) (closed bool) {
	escaped := false
	for _, c := range line {
		switch {
		case r.quoted && escaped:
			escaped = false
		case r.quoted && c == '\\':
			escaped = true
		case c == '"':
			r.quoted = !r.quoted
		case r.quoted:
		case c == '{' || c == '[':
			r.depth++
		case c == '}' || c == ']':
			if r.depth--; r.depth <= 0 {
				closed = true
			}
		}
	}
	return closed
}

// tears reports whether line begins like a message and ends inside a string, and how many
// objects and arrays are open there.
func tears(line []byte) (depth int, ok bool) {
	if !beginsMessage(line) || !oddQuotes(line) {
		return 0, false
	}
	r := reading{}
	r.follow(line)
	return r.depth, r.quoted
}

// beginsMessage reports whether line begins like an object with a member or an array of
// objects. A log line with a stray quote does not.
func beginsMessage(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	if len(line) == 0 || line[0] != '{' && line[0] != '[' {
		return false
	}
	next := byte('"')
	if line[0] == '[' {
		next = '{'
	}
	line = bytes.TrimLeft(line[1:], " \t")
	return len(line) > 0 && line[0] == next
}

// oddQuotes reports whether line, begun outside a string, ends inside one.
func oddQuotes(line []byte) bool {
	for {
		i := bytes.IndexByte(line, '"')
		if i < 0 {
			return false
		}
		line = line[i+1:]
		n := stringLength(line)
		if n == 0 || line[n-1] != '"' || endsEscaped(line[:n-1]) {
			return true
		}
		line = line[n:]
	}
}

// endsEscaped reports whether text ends in an odd number of backslashes.
func endsEscaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}
