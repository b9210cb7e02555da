package wire

import "bytes"

// torn remembers that a line ended inside a string. Whoever wrote it meant the
// line break to be part of the text, so what follows is text too, up to the end
// of that string, even where it looks like a message: that is how a message is
// smuggled through a program that does not escape what it quotes.
//
// Where the string ends can only be guessed, since quotes in such a text are
// not escaped either. Two readings are followed, one in which the next line
// begins inside the string and one in which it does not, and the message has
// ended when in either of them every object and array is closed that was open.
// A whole message in between opens and closes its own, so it ends nothing.
type torn struct {
	lines    int // since the line that was torn; 0 when there is none
	bytes    int
	readings [2]reading
}

type reading struct {
	quoted bool
	depth  int
}

// A peer that just lost the end of one line must not be cut off for good.
const (
	mostTornLines = 16
	mostTornBytes = MaxMessage
)

// begin notes a line that ended inside a string, with depth objects and arrays
// open.
func (t *torn) begin(depth int) {
	depth = max(depth, 1)
	*t = torn{lines: 1, readings: [2]reading{{true, depth}, {false, depth}}}
}

// covers reports whether line is a part of the message that was torn, and
// follows it.
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

// follow takes the next line and reports whether everything got closed.
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

// tears reports whether line begins as a message does and ends inside a
// string, and how many objects and arrays are open there.
func tears(line []byte) (depth int, ok bool) {
	if !beginsMessage(line) || !oddQuotes(line) {
		return 0, false
	}
	r := reading{}
	r.follow(line)
	return r.depth, r.quoted
}

// beginsMessage reports whether line begins like an object with a member, or
// an array of objects. A line of a log that has a stray quote does not.
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

// oddQuotes reports whether line ends inside a string, if it begins outside.
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
