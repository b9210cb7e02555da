package facts

import (
	"bytes"
)

// numbers reports the numbers that a word contains or begins and that can be account numbers:
// eight digits or more, in a row or in groups separated by a blank or a dash. It skips dates,
// parts of hashes, and fractions.
func (s *sight) numbers(w span) {
	text := s.text
	if isUUID(text[w.start:w.end]) {
		return
	}
	if kind := text[w.start:w.end]; isWallet(kind) {
		s.found(account, kind, true)
		return
	}
	for i := max(w.start, s.counted); i < w.end; {
		if !isDigit(text[i]) {
			i++
			continue
		}
		i = s.number(w, i)
	}
}

// number reads the number at start and returns its end. All groups of a number have the same
// length, except the first and the last; a longer group begins another number.
func (s *sight) number(w span, start int) int {
	text := s.text
	var digits [longestAccount + 6]byte
	n, i, groups, usual := 0, start, 0, 0
	for {
		from := i
		for i < len(text) && isDigit(text[i]) {
			if n < len(digits) {
				digits[n] = text[i]
			}
			n++
			i++
		}
		size := i - from
		if groups > 1 && size > usual || groups == 1 && size > longestGroup {
			n -= size
			i = from - 1
			break
		}
		groups++
		ends := groups > 2 && size < usual
		if groups == 2 {
			usual = size
		}
		if ends || size < 2 || size > longestGroup || n > longestAccount || i+1 >= len(text) || text[i] != ' ' && text[i] != '-' || !isDigit(text[i+1]) {
			break
		}
		i++
	}
	s.work += i - start
	s.counted = i
	if n < shortestAccount || n > longestAccount || !s.standsAlone(w, start, i) || isDate(digits[:n], groups) {
		return i
	}
	s.until = max(s.until, i)
	s.found(account, digits[:n], false)
	return i
}

const (
	shortestAccount = 8
	longestAccount  = 34
	longestGroup    = 6
	longestHead     = 12 // letters and digits before the number of an account, as in GB29NWBK
)

// standsAlone reports whether the context of text[start:end] allows it to be an account number:
// no letter follows, and nothing precedes it but the head of an account, such as DE or GB29NWBK.
func (s *sight) standsAlone(w span, start, end int) bool {
	text := s.text
	if end < len(text) && (madeOf[text[end]]&(ofLower|ofUpper|ofUnder) != 0 || text[end] == '.' && end+1 < len(text) && isDigit(text[end+1])) {
		return false
	}
	from := start
	for from > w.start && start-from <= longestHead && madeOf[text[from-1]]&(ofLower|ofUpper|ofDigit) != 0 {
		from--
	}
	s.work += start - from
	if from > w.start && text[from-1] == '.' && from-1 > w.start && isDigit(text[from-2]) {
		return false
	}
	head := text[from:start]
	letters := 0
	for letters < len(head) && !isDigit(head[letters]) {
		letters++
	}
	if letters == len(head) {
		return letters <= 6
	}
	return letters == 2 && len(head) <= longestHead && isDigit(head[2]) && len(head) > 3 && isDigit(head[3])
}

// isDate reports whether digits, written in the given number of groups, are a date.
func isDate(digits []byte, groups int) bool {
	between := func(at int, low, high byte) bool {
		v := (digits[at]-'0')*10 + digits[at+1] - '0'
		return low <= v && v <= high
	}
	switch {
	case groups > 1 && len(digits) > 10, groups == 1 && len(digits) != 8 && len(digits) != 12 && len(digits) != 14:
		return false
	case between(0, 19, 20) && between(4, 1, 12) && between(6, 1, 31):
		return true
	}
	return groups == 3 && between(4, 19, 20)
}

// isUUID reports whether word has the form of a UUID.
func isUUID(word []byte) bool {
	return len(word) == 36 && word[8] == '-' && word[13] == '-' && word[18] == '-' && word[23] == '-'
}

// isWallet reports whether word is an account address of Bitcoin or Ethereum, whose addresses can
// be distinguished from other words.
func isWallet(word []byte) bool {
	hex := len(word) == 42 && word[0] == '0' && word[1]|0x20 == 'x'
	if !hex && (len(word) < 42 || len(word) > 62 || !bytes.HasPrefix(word, []byte("bc1"))) {
		return false
	}
	for _, c := range word[3:] {
		if hex && hexValue(c) > 15 || madeOf[c]&(ofLower|ofUpper|ofDigit) == 0 {
			return false
		}
	}
	return true
}
