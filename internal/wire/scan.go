package wire

import (
	"bytes"
	"unicode/utf8"
)

// scan looks for the id in what is not a message: a line that the strict
// reader refused, or one too long to be kept. It takes the bytes as they come,
// in pieces of any size, and holds no more than a name and an id. It is lenient
// on purpose: it has to find its way through what is wrong with the line.
type scan struct {
	offset int // of the next byte

	quoted  bool // inside a string
	escaped bool // after a backslash inside a string
	begun   bool // an object or array has been opened
	depth   int  // objects and arrays that are open
	array   bool // the outermost value is an array
	bad     bool // closes what was never opened, or begins with other text

	// Within the outermost object.
	wantsName bool
	capture   capture
	held      []byte // what is being captured
	start     int    // where that began
	name      int    // index in topNames of the member whose value follows

	ids    int // members that are an id, or that some reader takes for one
	found  []byte
	place  Span
	member [topError + 1]bool // seen, by index in topNames
}

type capture uint8

const (
	nothing capture = iota
	aName
	anID
)

// mostHeld is the longest raw text that can be a name or an id of interest.
const mostHeld = 6*MaxID + 2

// feed takes the next bytes.
func (s *scan) feed(text []byte) {
	for i := 0; i < len(text); {
		if s.quoted && s.capture == nothing && !s.escaped {
			// Most of a long message is inside strings of no interest.
			n := bytes.IndexAny(text[i:], `"\`)
			if n < 0 {
				s.offset += len(text) - i
				return
			}
			i += n
			s.offset += n
		}
		s.next(text[i])
		i++
		s.offset++
	}
}

func (s *scan) next(c byte) {
	if s.quoted {
		s.hold(c)
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.quoted = false
			if s.capture == aName {
				s.endName()
			}
		}
		return
	}
	switch c {
	case '"':
		s.quoted = true
		s.bad = s.bad || !s.begun
		if s.depth == 1 && !s.array && s.wantsName {
			s.capture, s.held, s.start = aName, s.held[:0], s.offset
		}
		s.hold(c)
	case '{', '[':
		if s.depth == 0 {
			s.array, s.begun = c == '[', true
			s.wantsName = true
		}
		s.depth++
		s.hold(c)
	case '}', ']':
		if s.depth == 1 {
			s.endValue()
		} else {
			s.hold(c)
		}
		if s.depth--; s.depth < 0 {
			s.depth, s.bad = 0, true
		}
	case ':':
		if s.depth == 1 && s.name == topID && !s.wantsName {
			s.capture, s.held, s.start = anID, s.held[:0], s.offset+1
			return
		}
		s.hold(c)
	case ',':
		if s.depth == 1 {
			s.endValue()
			s.wantsName = true
			return
		}
		s.hold(c)
	default:
		if s.depth == 0 && !s.begun && c > ' ' && c < utf8.RuneSelf {
			s.bad = true // a line of a log, which may quote a message
		}
		s.hold(c)
	}
}

// hold adds a byte to what is being captured.
func (s *scan) hold(c byte) {
	if s.capture != nothing && len(s.held) <= mostHeld {
		s.held = append(s.held, c)
	}
}

// endName notes which member follows.
func (s *scan) endName() {
	s.capture, s.wantsName, s.name = nothing, false, unknown
	if len(s.held) > mostHeld {
		return
	}
	name, _ := unquoteName(nil, s.held)
	index, twin := topNames.find(name)
	if twin {
		if topNames[topID : topID+1].folds(name) {
			s.ids++
		}
		return
	}
	if s.name = index; index == unknown {
		return
	}
	s.member[index] = true
	if index == topID {
		s.ids++
	}
}

// endValue notes the id that has just ended.
func (s *scan) endValue() {
	if s.capture == anID {
		raw := bytes.Trim(s.held, " \t\r\n")
		if validID(raw) && s.found == nil {
			start := s.start + bytes.Index(s.held, raw)
			s.found = bytes.Clone(raw)
			s.place = Span{start, start + len(raw)}
		}
	}
	s.capture, s.name = nothing, unknown
}

// id returns where the id lies, if there is exactly one that can be read.
func (s *scan) id() (Span, bool) {
	return s.place, s.ids == 1 && s.found != nil && !s.array && !s.bad && s.message()
}

// asks reports whether the members are those of a request.
func (s *scan) asks() bool {
	return (s.member[topMethod] || s.member[topParams]) && !s.member[topResult] && !s.member[topError]
}

// message reports whether any member but the id is one of JSON-RPC. An object
// without is more likely a log entry that has an id of its own.
func (s *scan) message() bool {
	m := &s.member
	return m[topJSONRPC] || m[topMethod] || m[topParams] || m[topResult] || m[topError]
}
