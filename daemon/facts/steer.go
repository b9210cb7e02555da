package facts

import (
	"bytes"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/phrases"
)

// In a result, a server can tell a model what it could not tell it in a definition. So results
// are searched for the same phrases. Many honest pages quote them, so they alone cause no
// question: they are recorded, and are a fact of all later calls of the session.

// Steer reports text of a server that is worded to steer a model.
type Steer struct {
	Session    string // empty for a shim without one
	Attachment string
	Server     string
	Profile    gate.Profile
	Method     string // of the message, or of the request that it answers
	Quote      string // the match, in the server's words
	Count      uint64 // such messages in the session, including this one
}

const (
	// mostTried is the number of bytes of a message on which expressions are tried. A message
	// with more text that resembles orders counts as one that gives orders.
	mostTried = 64 << 10
	// longestSteer is the maximum length of the quote, in bytes.
	longestSteer = 80
)

// steerScanner parses messages into buffers that it reuses.
type steerScanner struct {
	joined  []byte // values of members, separated by blanks
	glued   []byte // the same without separators
	rest    []byte // member names, values of the members in apart, and decoded base64
	parts   int
	name    []byte
	decode  int // base64 letters that may still be decoded
	cleaner cleaner
}

// nonTextMembers are members whose values do not interrupt the text around them: no agent shows them to a
// model as text.
var nonTextMembers = set("type", "mimetype", "role", "audience", "priority", "lastmodified", "uri", "jsonrpc", "id", "method", "data", "blob")

// pinnedLists are lists whose elements are checked before they are shown at all.
var pinnedLists = set("tools/list", "prompts/list", "resources/templates/list")

// detectSteering searches the text of a server for phrases that steer a model, and records them in the
// memory.
func (f *Finder) detectSteering(memory *memory, by uint16, m *gate.Observation, s *steerScanner) {
	if pinnedLists[m.Method] {
		return
	}
	quote, tries := "", mostTried
	search := func(text []byte) {
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
			quote = "more possible orders than can be checked"
		}
	}
	head, tail := headAndTail(m.Text)
	s.read(head, false)
	s.each(search)
	s.read(tail, false)
	s.each(search)
	if len(tail) >= shortestPiece { // it may be a piece that begins inside a string
		s.read(tail, true)
		s.each(search)
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

// shortestPiece is the minimum length of the pieces in which a long message is observed.
const shortestPiece = 8 << 10

// read parses a JSON text or a piece of one. within reports that the text begins inside a string.
func (s *steerScanner) read(text []byte, within bool) {
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

func (s *steerScanner) value(said []byte) {
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
	if isOneOf(nonTextMembers, s.name) {
		s.rest = append(say(s.rest, clean), " . "...)
		return
	}
	s.parts++
	start := len(s.glued)
	s.glued = say(s.glued, clean)
	s.joined = append(append(s.joined, ' '), s.glued[start:]...)
}

// say appends the text of a string in the form in which phrases are searched for.
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

// each calls at with the texts that read has collected: the concatenated values, and the rest.
func (s *steerScanner) each(at func(text []byte)) {
	at(s.joined)
	if s.parts > 1 {
		at(s.glued)
	}
	at(s.rest)
}
