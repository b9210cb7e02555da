package facts

import (
	"hash/maphash"
)

// What a text names is found in one pass over its words. A word is a run of
// letters, digits and the marks that addresses and names are made of, so that a
// mailbox, a host and the name of a tool are each one word, and all that is
// decided afterwards is decided within it.
//
// The pass is linear whatever the text holds: each word is looked at a bounded
// number of times, and what reaches beyond a word has a bounded length.

// place is what can be sent to: a mailbox, a host or an account.
type place struct {
	key  uint64 // of what kind and which
	kind placeKind
	name []byte // as it compares: in lower case, without ornament; valid during the call
	sure bool   // written so that it can be nothing else
	// It is put together from parts that may not belong together.
	joined bool
}

type placeKind byte

const (
	mailbox placeKind = 'm'
	host    placeKind = 'h'
	account placeKind = 'a'
)

// strength says how a text names a tool.
type strength uint8

const (
	inCode strength = iota + 1 // as a function is defined or called
	named                      // anyhow else
	told                       // near a word that orders something
)

// watcher is told what a text names.
type watcher interface {
	place(p place)
	named(key uint64, how strength)
}

// sight looks at texts. It holds what would otherwise be allocated anew for each;
// it is not safe for concurrent use.
type sight struct {
	seed  maphash.Seed
	to    watcher
	tools bool // names of tools are wanted

	text    []byte
	last    span // the word before
	order   int  // where the last word stood that orders something, less than 0 for none near
	about   int  // a word that begins here, or a little later, is named as a tool
	until   int  // words that begin before this belong to a place: the rest of an URL
	inner   int  // words that begin before this are parts of the host of an URL
	counted int  // digits before this have been read
	alien   int  // how many words belong to no place
	joined  bool // what is found is put together, see place

	work int // bytes looked at, for the tests of what hostile text costs

	key     [1 + 254]byte
	cleaner cleaner
	decoder cleaner // for what base64 stood for
	decoded []byte

	steerer steerer
}

// Bits say what a word is made of.
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

// look finds what text names, in what it says and in what its runs of base64
// stand for.
func (s *sight) look(text []byte, base64 *int) {
	clean := s.cleaner.clean(text)
	s.words(clean)
	alien := s.alien
	s.base64(clean, base64)
	s.alien = alien
}

// words makes the pass.
func (s *sight) words(text []byte) {
	s.text, s.last, s.order, s.about, s.until, s.inner, s.counted, s.alien = text, span{}, never, never, 0, 0, 0, 0
	s.work += len(text)
	for i := 0; i < len(text); {
		made := madeOf[text[i]]
		if made == 0 {
			if c := text[i]; c == '{' || c == '}' || c == '=' || c == ';' && i+1 < len(text) && text[i+1] != ' ' {
				s.order = never // code: what stands behind is not what an order was about
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
		s.alien++
	}
}

// clean returns text as it reads; the result is valid until the next look.
func (s *sight) clean(text []byte) []byte { return s.cleaner.clean(text) }

// found reports a place; text is its name.
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

// hash returns the key of a place whose name found has reported.
func (s *sight) hash(kind placeKind, name []byte) uint64 {
	var key [len(s.key)]byte
	key[0] = byte(kind)
	return maphash.Bytes(s.seed, key[:1+copy(key[1:], name)])
}

// longestTool is how long the name of a tool may be to be noticed.
const longestTool = 64

// toolKeys returns what the name of a tool compares by: as it is written but
// for case, and as its letters alone.
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

// base64 looks at what runs of base64 in text stand for. budget is how many
// more letters of it are decoded.
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

// shortestHidden is the length of the shortest run of base64 that is decoded:
// that of a short mail address.
const shortestHidden = 12

// mayBeText looks at the first letters of a run only: of what was never text
// two bytes in three are not printable.
func mayBeText(run []byte) bool {
	var first [9]byte
	return unprintable(decodeBase64(first[:0], run[:min(len(run), 12)])) <= 1
}
