package wire

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scan looks for the id in a line that the strict reader refused or that is too long to
// be kept. It takes the bytes in pieces of any size and holds no more than a name and an
// id. It is lenient on purpose: it has to find the id despite what is wrong with the
// line.
type scan struct {
	offset int // of the next byte

	quoted  bool // inside a string
	escaped bool // after a backslash inside a string
	begun   bool // an object or array was opened
	depth   int  // open objects and arrays
	array   bool // the outermost value is an array
	bad     bool // something is closed that was not opened, or other text comes first

	// Within the outermost object.
	wantsName bool
	capture   capture
	held      []byte // the text being captured
	start     int    // where that text began
	name      int    // index in topNames of the member whose value follows

	ids    int // members named id, or named so that some reader takes them for id
	found  []byte
	place  Span
	member [topError + 1]bool // members seen, by index in topNames
}

type capture uint8

const (
	nothing capture = iota
	aName
	anID
)

// maxHeld is the maximum raw length of a name or id that matters.
const maxHeld = 6*MaxID + 2

// feed scans the next bytes.
func (s *scan) feed(text []byte) {
	for i := 0; i < len(text); {
		if s.quoted && s.capture == nothing && !s.escaped {
			// Most of a long message is inside strings that don't matter.
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
			s.bad = true // a log line, which may quote a message
		}
		s.hold(c)
	}
}

// hold appends c to the captured text.
func (s *scan) hold(c byte) {
	if s.capture != nothing && len(s.held) <= maxHeld {
		s.held = append(s.held, c)
	}
}

// endName records which member follows.
func (s *scan) endName() {
	s.capture, s.wantsName, s.name = nothing, false, unknown
	if len(s.held) > maxHeld {
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

// endValue records the id if an id has just ended.
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

// id returns the span of the id if there is exactly one that can be read.
func (s *scan) id() (Span, bool) {
	return s.place, s.ids == 1 && s.found != nil && !s.array && !s.bad && s.message()
}

// asks reports whether the members are those of a request.
func (s *scan) asks() bool {
	return (s.member[topMethod] || s.member[topParams]) && !s.member[topResult] && !s.member[topError]
}

// message reports whether any member other than id belongs to JSON-RPC. An object without
// one is more likely a log entry with an id of its own.
func (s *scan) message() bool {
	m := &s.member
	return m[topJSONRPC] || m[topMethod] || m[topParams] || m[topResult] || m[topError]
}

// maxBatch is the maximum number of batch elements that are examined.
const maxBatch = 16384

// Batch calls each for the messages in line, which was refused as a batch. It passes the
// id of each message that has exactly one readable id, and whether the message is a
// request. Nothing in a refused batch is executed, but a side that waits for an answer
// under one of these ids must be notified. Repeated ids and everything after a syntax
// error are left out.
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

// OpensMessage reports whether a reader of consecutive JSON values could take text for a
// message or for several in an array.
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

// IsHTTP2Preface reports whether line is the first line of every HTTP/2 connection.
// Binary data follows, so reading on is pointless.
func IsHTTP2Preface(line []byte) bool {
	return bytes.Equal(line, []byte("PRI * HTTP/2.0"))
}

// IsHeader reports whether line looks like a ContentLength header, as a peer written for
// a language server sends. Such lines are refused like any invalid line, but a person
// should be notified once.
func IsHeader(line []byte) bool {
	name, _, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return false
	}
	return bytes.EqualFold(name, []byte("Content-Length")) || bytes.EqualFold(name, []byte("Content-Type"))
}
