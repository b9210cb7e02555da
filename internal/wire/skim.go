package wire

import (
	"bytes"
	"encoding/binary"
	"sort"
	"unicode/utf8"
)

// skim checks a long message while it arrives. Most of such a message is text that
// decides nothing. skim scans it quickly and writes its skeleton: the message with long
// strings emptied, except member names. Each string is checked as the strict reader
// checks it, so the strict reader only has to read the short skeleton.
//
// skim never refuses. If something is wrong with a message, or too intricate for a
// skeleton, the strict reader reads the message itself and finds the fault.
type skim struct {
	begun bool
	sound bool // nothing wrong or too intricate was found
	at    int  // bytes of the message that were scanned
	start int  // of the string that contains at, or of the last one before at
	end   int  // of the last string before at
	open  bool // at is inside a string
	lone  bool // a lone surrogate escape was found

	skeleton []byte // the skeleton of the message up to copied
	copied   int
	cuts     []cut
}

// cut is a place where a string was emptied.
type cut struct {
	at  int // offset in the skeleton, after the string
	gap int // how much longer the message is up to this place
}

const (
	shortest  = 256       // longest string that a skeleton keeps, in bytes
	mostBones = 256 << 10 // longest skeleton, in bytes
	mostCuts  = 8 << 10
	stride    = 16 << 10 // bytes scanned at once, so that they stay in the L1 cache
)

// forget discards the message and releases unusually large buffers.
func (s *skim) forget() {
	if cap(s.skeleton) > smallBuffer || cap(s.cuts) > smallBuffer/16 {
		s.skeleton, s.cuts = nil, nil
	}
	*s = skim{skeleton: s.skeleton[:0], cuts: s.cuts[:0]}
}

// feed scans the new bytes of line, which has grown since the last call.
func (s *skim) feed(line []byte) {
	if !s.begun {
		s.begun, s.sound = true, true
	}
	for s.sound && s.at < len(line) {
		if s.open {
			if before := s.at; !s.inside(line) && s.at == before {
				return // the rest is too short to be scanned
			}
			continue
		}
		i := bytes.IndexByte(line[s.at:], '"')
		if i < 0 {
			s.at = len(line)
			return
		}
		s.at += i
		s.settle(line, line[s.end:s.at])
		s.start, s.open = s.at, true
		s.at++
	}
}

// inside scans more of the current string. It reports whether the string has ended.
func (s *skim) inside(line []byte) bool {
	text := line[s.at:min(s.at+stride, len(line))]
	n, ended := s.hop(text, line[s.at:])
	text = text[:min(n, len(text))] // an escape may reach further
	ascii, controls := look(text)
	if !ascii {
		if !ended && n == len(text) {
			n -= unfinished(text)
		}
		s.sound = s.sound && utf8.Valid(text[:min(n, len(text))])
	}
	s.sound = s.sound && !controls
	if s.at += n; !ended {
		return false
	}
	s.at++
	s.end, s.open = s.at, false
	return true
}

// hop moves from escape to escape in text, which rest continues. It returns how far it
// got: to the quote that ends the string, to an incomplete escape, or past the end of
// text.
func (s *skim) hop(text, rest []byte) (n int, ended bool) {
	quote := n + index(text, '"')
	for {
		i := bytes.IndexByte(text[n:quote], '\\')
		if i < 0 {
			return quote, quote < len(text)
		}
		n += i
		k := s.escape(rest[n:])
		if n += k; k == 0 || n >= len(text) {
			return n, false
		}
		if quote < n {
			quote = n + index(text[n:], '"')
		}
	}
}

// index returns the index of c in text, or len(text).
func index(text []byte, c byte) int {
	if i := bytes.IndexByte(text, c); i >= 0 {
		return i
	}
	return len(text)
}

// escape returns the length of the escape at the start of text; 0 if it is incomplete.
func (s *skim) escape(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case 'u':
		return s.unicode(text)
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
	default:
		s.sound = false
	}
	return 2
}

// unicode is escape for \u. A surrogate pair is one escape of 12 bytes.
func (s *skim) unicode(text []byte) int {
	if len(text) < 6 {
		return 0
	}
	unit, ok := hex4(text[2:6])
	if s.sound = s.sound && ok; unit&^0x7ff != 0xd800 {
		return 6
	}
	if len(text) < 12 {
		return 0
	}
	low, ok := hex4(text[8:12])
	if unit >= 0xdc00 || text[6] != '\\' || text[7] != 'u' || !ok || low&^0x3ff != 0xdc00 {
		s.lone = true
		return 6
	}
	return 12
}

func hex4(digits []byte) (n uint16, ok bool) {
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		n = n<<4 | uint16(c)
	}
	return n, true
}

// settle decides whether the last string is emptied, now that the bytes after it are
// known: a member name never is.
func (s *skim) settle(line, after []byte) {
	after = bytes.TrimLeft(after, " \t")
	if s.end-s.start > shortest && len(after) > 0 && bytes.IndexByte([]byte(",}]"), after[0]) >= 0 {
		s.skeleton = append(append(s.skeleton, line[s.copied:s.start]...), `""`...)
		s.copied, s.cuts = s.end, append(s.cuts, cut{len(s.skeleton), s.end - len(s.skeleton)})
	}
	s.sound = s.sound && len(s.skeleton)+s.at-s.copied <= mostBones && len(s.cuts) <= mostCuts
}

// finish scans the rest of line, which is complete now. It reports whether there is a
// skeleton. If so, the line ends outside of strings.
func (s *skim) finish(line []byte) bool {
	s.feed(line)
	if s.sound = s.sound && !s.open; s.sound {
		s.settle(line, line[s.end:])
	}
	if s.sound {
		s.skeleton = append(s.skeleton, line[s.copied:]...)
	}
	return s.sound
}

// read is Read for the line that was scanned. It reports false if the strict reader must
// read the line itself.
func (s *skim) read(line []byte, from Side, e *Envelope) bool {
	if s.lone && from == FromAgent || len(line) > MaxMessage || read(s.skeleton, from, e) != nil {
		return false
	}
	for _, place := range e.spans() {
		place.Start, place.End = s.place(place.Start), s.place(place.End)
	}
	return !e.ID.Present() || validID(e.ID.Of(line)) // the length of a string id is that in the message
}

// place returns the offset in the message of the byte at offset in the skeleton.
func (s *skim) place(offset int) int {
	i := sort.Search(len(s.cuts), func(i int) bool { return s.cuts[i].at > offset })
	if i == 0 {
		return offset
	}
	return offset + s.cuts[i-1].gap
}

// look reports whether text is ASCII, and whether it contains control characters.
func look(text []byte) (ascii, controls bool) {
	const low, high = 0x2020202020202020, 0x8080808080808080
	var wide, odd uint64
	for ; len(text) >= 32; text = text[32:] {
		a, b := binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[8:])
		c, d := binary.LittleEndian.Uint64(text[16:]), binary.LittleEndian.Uint64(text[24:])
		wide |= a | b | c | d
		odd |= (a-low)&^a | (b-low)&^b | (c-low)&^c | (d-low)&^d // sets the high bit of each byte below a blank
	}
	for ; len(text) >= 8; text = text[8:] {
		a := binary.LittleEndian.Uint64(text)
		wide |= a
		odd |= (a - low) &^ a
	}
	for _, c := range text {
		wide |= uint64(c)
		odd |= uint64(c-' ') &^ uint64(c)
	}
	return wide&high == 0, odd&high != 0
}

// unfinished returns the length of an incomplete character at the end of text.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if utf8.FullRune(text[len(text)-n:]) {
				return 0
			}
			return n
		}
	}
	return 0
}
