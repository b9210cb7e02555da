package wire

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
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

// maxBatch is how many members of a batch are looked at.
const maxBatch = 16384

// Batch calls each for the messages in line, which was refused as a batch, with the id
// of each that has exactly one that can be read, and whether it asks for something. A
// refused batch runs nothing; but who waits for an answer under one of these ids must
// be told. An id that comes again is left out, and what comes behind a fault is.
func Batch(line []byte, from Side, each func(id []byte, asks bool)) {
	dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if open, err := dec.ReadToken(); err != nil || open.Kind() != '[' {
		return
	}
	seen := map[string]bool{}
	for range maxBatch {
		value, err := dec.ReadValue()
		if err != nil {
			return
		}
		r := errBatch.in(value, from)
		id := r.ID.Of(value)
		key, err := Key(id)
		if id == nil || err != nil || seen[key] {
			continue
		}
		seen[key] = true
		each(bytes.Clone(id), r.Answer)
	}
}

// OpensMessage reports whether somebody who reads one JSON value after the other could
// take text for a message, or for several in an array.
func OpensMessage(text []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := d.ReadToken()
		depth := d.StackDepth()
		if err != nil || depth == 0 {
			return false
		}
		outermost, _ := d.StackIndex(1)
		kind, n := d.StackIndex(depth)
		if kind == '{' && n%2 == 1 && (depth == 1 || depth == 2 && outermost == '[') {
			if name := token.String(); name == "jsonrpc" || name == "method" {
				return true
			}
		}
	}
}

// IsHTTP2Preface reports whether line is the first line that every HTTP/2
// connection opens with. What follows is not text: there is nothing to go on
// with.
func IsHTTP2Preface(line []byte) bool {
	return bytes.Equal(line, []byte("PRI * HTTP/2.0"))
}

// IsHeader reports whether line looks like a header of ContentLength framing,
// which a peer that was written for a language server sends. The lines are
// refused like any other bad line; it is worth telling a person once.
func IsHeader(line []byte) bool {
	name, _, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return false
	}
	return bytes.EqualFold(name, []byte("Content-Length")) || bytes.EqualFold(name, []byte("Content-Type"))
}
