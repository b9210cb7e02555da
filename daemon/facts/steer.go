package facts

import (
	"bytes"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/phrases"
)

// A server can say to a model in an answer what it would not be let say in a
// definition. So the same words are looked for in what it answers. Many an honest
// page quotes them, so nothing is asked for them alone: they are on record, and a
// fact of what the agent does from then on in its session.

// Steer is a text of a server that is worded to steer a model.
type Steer struct {
	Session    string // empty for a shim without one
	Attachment string
	Server     string
	Profile    gate.Profile
	Method     string // of the message, or of the request that it answers
	Quote      string // what was found, in the server's words
	Count      uint64 // of such messages in the session, with this one
}

const (
	// mostTried is how many bytes of one message expressions are tried on. A
	// message with more that looks like orders is taken for one that gives them.
	mostTried = 64 << 10
	// longestSteer is how much of what was found is told, in bytes.
	longestSteer = 80
)

// steerer takes messages apart, in room that the next one uses again.
type steerer struct {
	joined  []byte // what members say, one behind the other
	glued   []byte // the same without a blank between
	rest    []byte // names of members, and what says what others are
	parts   int
	name    []byte
	decode  int // letters of base64 that may still be decoded
	cleaner cleaner
}

// apart are members that do not part what stands before and behind them: no client
// shows them to a model as text.
var apart = set("type", "mimetype", "role", "audience", "priority", "lastmodified", "uri", "jsonrpc", "id", "method", "data", "blob")

// pinnedLists are lists whose elements are looked at before they are shown at all.
var pinnedLists = set("tools/list", "prompts/list", "resources/templates/list")

// steers looks for words that mean to steer a model in what a server says, and takes
// note of them in the memory.
func (f *Finder) steers(memory *memory, by uint16, m *gate.Message, s *steerer) {
	if pinnedLists[m.Method] {
		return
	}
	quote, tries := "", mostTried
	look := func(text []byte) {
		if quote != "" || len(text) == 0 {
			return
		}
		whole := phrases.Find(string(text), &tries, func(what phrases.Kind, found string) bool {
			if what == phrases.Orders {
				quote = found
			}
			return quote == ""
		})
		if !whole && quote == "" {
			quote = "more that looks like orders than is looked at"
		}
	}
	head, tail := heard(m.Text)
	s.read(head, false)
	s.look(look)
	s.read(tail, false)
	s.look(look)
	if len(tail) >= shortestPiece { // it may be a piece that begins within a text
		s.read(tail, true)
		s.look(look)
	}
	if quote == "" {
		return
	}
	memory.mu.Lock()
	if memory.steered == 0 {
		memory.steered = by
	}
	memory.steers.n++
	count, tell := memory.steers.n, memory.steers.due()
	memory.mu.Unlock()
	if tell && f.steer != nil {
		if len(quote) > longestSteer {
			quote = quote[:longestSteer]
		}
		f.steer(Steer{Session: m.Session, Attachment: m.Attachment, Server: m.Server, Profile: m.Profile, Method: m.Method, Quote: string(bytes.ToValidUTF8([]byte(quote), nil)), Count: count})
	}
}

// shortestPiece is how long the pieces are at least in which a long message is told.
const shortestPiece = 8 << 10

// read takes apart a JSON text, or a piece of one; within says that it begins inside
// of a string.
func (s *steerer) read(text []byte, within bool) {
	s.joined, s.glued, s.rest, s.parts, s.name = s.joined[:0], s.glued[:0], s.rest[:0], 0, nil
	s.decode = mostDecoded
	for at := 0; at < len(text); {
		if !within {
			next := bytes.IndexByte(text[at:], '"')
			if next < 0 {
				return
			}
			at += next + 1
		}
		within = false
		end := at
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(text))
		said := text[at:end]
		at = end + 1
		if behind := bytes.TrimLeft(text[min(at, len(text)):], " \t\r\n"); len(behind) > 0 && behind[0] == ':' {
			s.name = said
			s.rest = append(say(s.rest, s.cleaner.clean(said)), " . "...)
			continue
		}
		s.value(said)
	}
}

func (s *steerer) value(said []byte) {
	clean := s.cleaner.clean(said)
	if n := min(len(clean), s.decode); n >= shortestBase64 {
		s.decode -= n
		left := mostRecoded
		base64Runs(clean[:n], 0, &left, func(run []byte) {
			if looksLikeText(run) {
				s.rest = append(say(s.rest, run), " . "...)
			}
		})
	}
	if isOneOf(apart, s.name) {
		s.rest = append(say(s.rest, clean), " . "...)
		return
	}
	s.parts++
	start := len(s.glued)
	s.glued = say(s.glued, clean)
	s.joined = append(append(s.joined, ' '), s.glued[start:]...)
}

// say appends what a string says, as phrases are looked for in it.
func say(dst, clean []byte) []byte {
	for i := 0; i < len(clean); i++ {
		switch c := clean[i]; {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			if len(dst) > 0 && dst[len(dst)-1] != ' ' {
				dst = append(dst, ' ')
			}
		case c == 0xe2 && i+2 < len(clean) && clean[i+1] == 0x80 && (clean[i+2] == 0x99 || clean[i+2] == 0x98):
			dst = append(dst, '\'')
			i += 2
		default:
			dst = append(dst, lowerASCII(c))
		}
	}
	return dst
}

// look looks at what was read: each part, all of them one behind the other, and
// what runs of base64 in them stand for.
func (s *steerer) look(at func(text []byte)) {
	at(s.joined)
	if s.parts > 1 {
		at(s.glued)
	}
	at(s.rest)
}
