package facts

import (
	"hash/maphash"
)

// What a text names is found in one pass over its words. A word is a run of letters, digits and
// the punctuation of addresses and names, so that a mailbox, a host or the name of a tool is a
// single word, and everything else is decided inside it.
//
// The pass is linear for any text: each word is examined a bounded number of times, and what
// extends beyond a word has a bounded length.

// place is a possible destination: a mailbox, a host or an account.
type place struct {
	key  uint64 // hash of kind and name
	kind placeKind
	name []byte // lower case, without decoration; valid during the call
	sure bool   // it cannot be anything else
	// It is assembled from parts that may not belong together.
	joined bool
}

type placeKind byte

const (
	mailbox placeKind = 'm'
	host    placeKind = 'h'
	account placeKind = 'a'
)

// strength describes how a text names a tool.
type strength uint8

const (
	inCode strength = iota + 1 // as a function is defined or called
	named                      // in any other way
	told                       // near a word that orders something
)

// watcher receives what a text names.
type watcher interface {
	place(p place)
	named(key uint64, how strength)
}

// sight examines texts. It holds buffers that it reuses for each text, and is not safe for
// concurrent use.
type sight struct {
	seed  maphash.Seed
	to    watcher
	tools bool // whether names of tools are wanted

	text       []byte
	last       span // the previous word
	order      int  // end of the last word that orders something; negative if there is none near
	about      int  // a word that begins here or a little later is named as a tool
	until      int  // words that begin before this offset belong to a place, as the rest of a URL
	inner      int  // words that begin before this offset are parts of the host of a URL
	counted    int  // digits before this offset have been read
	otherWords int  // number of words that belong to no place
	joined     bool // the text is assembled from parts, see place

	work int // bytes examined; for tests of the cost of hostile text

	key     [1 + 254]byte
	cleaner cleaner
	decoder cleaner // for decoded base64
	decoded []byte

	steerer steerScanner
}

// Bits for the kinds of characters that a word contains.
const (
	ofLower = 1 << iota
	ofUpper
	ofDigit
	ofUnder
	ofDash
	ofDot
	ofAt
	ofPlus
)

var madeOf = func() (table [256]uint8) {
	for c := range table {
		switch {
		case c >= 'a' && c <= 'z' || c >= 0x80:
			table[c] = ofLower
		case c >= 'A' && c <= 'Z':
			table[c] = ofUpper
		case c >= '0' && c <= '9':
			table[c] = ofDigit
		}
	}
	table['_'], table['-'], table['.'], table['@'], table['+'] = ofUnder, ofDash, ofDot, ofAt, ofPlus
	return table
}()

const never = -1 << 30

// report reports what text names, both directly and in its runs of base64.
func (s *sight) report(text []byte, base64 *int) {
	clean := s.cleaner.clean(text)
	s.words(clean)
	alien := s.otherWords
	s.base64(clean, base64)
	s.otherWords = alien
}

// words makes the pass.
func (s *sight) words(text []byte) {
	s.text, s.last, s.order, s.about, s.until, s.inner, s.counted, s.otherWords = text, span{}, never, never, 0, 0, 0, 0
	s.work += len(text)
	for i := 0; i < len(text); {
		made := madeOf[text[i]]
		if made == 0 {
			if c := text[i]; c == '{' || c == '}' || c == '=' || c == ';' && i+1 < len(text) && text[i+1] != ' ' {
				s.order = never // code: an order does not extend beyond it
			}
			i++
			continue
		}
		start := i
		for i++; i < len(text); i++ {
			c := madeOf[text[i]]
			if c == 0 {
				break
			}
			made |= c
		}
		s.word(span{start, i}, made)
		s.last = span{start, i}
	}
}

func (s *sight) word(w span, made uint8) {
	const letters = ofLower | ofUpper
	authority, isHost := s.afterScheme(w.start)
	if made&^letters == 0 && !isHost {
		s.alienWord(w)
		if s.tools {
			s.plain(w, made)
		}
		return
	}
	inURL := w.start < s.until
	switch {
	case w.start < s.inner:
	case isHost:
		s.authority(authority)
	case made&ofAt != 0:
		s.mailboxes(w)
	case made&ofDot != 0 && !inURL:
		s.host(w)
	}
	if made&ofDigit != 0 && !inURL {
		s.numbers(w)
	}
	if w.start >= s.until {
		s.alienWord(w)
	}
	if s.tools {
		s.identifiers(w, made)
	}
}

func (s *sight) alienWord(w span) {
	if w.start >= s.until {
		s.otherWords++
	}
}

// clean returns text in the form in which it is read. The result is valid until the next report.
func (s *sight) clean(text []byte) []byte { return s.cleaner.clean(text) }

// found reports the place named by text.
func (s *sight) found(kind placeKind, text []byte, sure bool) {
	if len(text) == 0 || len(text) >= len(s.key) {
		return
	}
	s.key[0] = byte(kind)
	for i, c := range text {
		s.key[i+1] = lowerASCII(c)
	}
	key := s.key[:len(text)+1]
	s.to.place(place{key: maphash.Bytes(s.seed, key), kind: kind, name: key[1:], sure: sure, joined: s.joined})
}

// hash returns the key of the place that found reports for name.
func (s *sight) hash(kind placeKind, name []byte) uint64 {
	var key [len(s.key)]byte
	key[0] = byte(kind)
	return maphash.Bytes(s.seed, key[:1+copy(key[1:], name)])
}

// longestTool is the maximum length of a tool name that is noticed.
const longestTool = 64

// toolKeys returns the keys by which tool names are compared: of the name in lower case, and of
// its letters and digits alone.
func (s *sight) toolKeys(name []byte) (exact, letters uint64) {
	if len(name) > longestTool {
		name = name[len(name)-longestTool:]
	}
	s.key[0] = 't'
	for i, c := range name {
		s.key[i+1] = lowerASCII(c)
	}
	exact = maphash.Bytes(s.seed, s.key[:len(name)+1])
	s.key[0] = 'l'
	n := 1
	for _, c := range name {
		if madeOf[c]&(ofLower|ofUpper|ofDigit) != 0 {
			s.key[n] = lowerASCII(c)
			n++
		}
	}
	return exact, maphash.Bytes(s.seed, s.key[:n])
}

// base64 examines the decoded runs of base64 in text. budget is the number of letters that may
// still be decoded.
func (s *sight) base64(text []byte, budget *int) {
	for run := range base64Stretches(text, shortestHidden) {
		if *budget <= 0 {
			return
		}
		run = run[:min(len(run), *budget)]
		shifts := 4
		if len(run) < shortestBase64 || len(run) > mixedBase64 {
			shifts = 1
		}
		for shift := range shifts {
			if !mayBeText(run[shift:]) && len(run) <= mixedBase64 {
				continue
			}
			*budget -= len(run)
			s.work += len(run)
			s.decoded = decodeBase64(s.decoded[:0], run[shift:])
			if len(run) > mixedBase64 || looksLikeText(s.decoded) {
				s.words(s.decoder.clean(s.decoded))
			}
		}
	}
}

// shortestHidden is the length of the shortest run of base64 that is decoded, that of a short
// mail address.
const shortestHidden = 12

// mayBeText judges by the first letters of a run: in random bytes, two of three are not
// printable.
func mayBeText(run []byte) bool {
	var first [9]byte
	return unprintable(decodeBase64(first[:0], run[:min(len(run), 12)])) <= 1
}
