package facts

import (
	"bytes"
	"net/netip"

	"github.com/thoughtgate/thoughtgated/internal/uri"
)

const (
	longestHost = 253
	longestURL  = 4096 // maximum length of the rest of a URL
)

// afterScheme reports whether :// precedes the word at offset at, or what URL parsers accept for
// it after http and the like. from is the start of the authority.
func (s *sight) afterScheme(at int) (from int, ok bool) {
	colons := at
	for colons > 0 && at-colons < 2 && s.text[colons-1] == ':' {
		colons--
	}
	if colons > 0 && s.text[colons-1] == '[' { // an IPv6 address
		at = colons - 1
	}
	if at < 2 || s.text[at-1] != '/' && s.text[at-1] != ':' {
		return at, false
	}
	if at >= 3 && s.text[at-1] == '/' && s.text[at-2] == '/' && s.text[at-3] == ':' {
		return at, true
	}
	colon := at - 1
	for colon > 0 && at-colon < longestSlashes && s.text[colon] == '/' {
		colon--
	}
	if s.text[colon] != ':' {
		return at, false
	}
	from = colon
	for from > 0 && colon-from < len("https") && madeOf[s.text[from-1]]&(ofLower|ofUpper) != 0 {
		from--
	}
	return at, isOneOf(webSchemes, s.text[from:colon]) && (at-1 > colon || bytes.IndexByte(s.text[at:min(len(s.text), at+longestHost)], '.') > 0)
}

// longestSlashes is the maximum number of slashes after a scheme that are read as two.
const longestSlashes = 8

var webSchemes = set("http", "https", "ws", "wss", "ftp")

// authority reads the authority of a URL, which begins at at.
func (s *sight) authority(at int) {
	end := endBefore(&endsAuthority, s.text, at, 2*longestHost)
	s.work += end - at
	s.inner = end
	if end >= s.until { // a URL inside another ends with it
		s.until = s.restOfURL(end)
	}
	s.hostNamed(hostOf(s.text[at:end]), true)
	if end < len(s.text) && isBreak(s.text[end]) {
		s.broken(at)
	}
}

// broken reads an authority that continues after line breaks or tabs, since some URL parsers
// remove these. Usually it does not continue, so the result counts only if a server named that
// host.
func (s *sight) broken(at int) {
	var room [longestHost]byte
	joined := room[:0]
	for i := at; i < len(s.text) && i-at < 2*longestHost && len(joined) < longestHost; i++ {
		s.work++
		if c := s.text[i]; !isBreak(c) {
			if endsAuthority[c] {
				break
			}
			joined = append(joined, c)
		}
	}
	s.joined = true
	s.hostNamed(hostOf(joined), true)
	s.joined = false
}

func isBreak(c byte) bool { return c == '\t' || c == '\n' || c == '\r' }

// hostOf returns the host in an authority.
func hostOf(authority []byte) []byte {
	authority = authority[bytes.LastIndexByte(authority, '@')+1:]
	if i := bytes.LastIndexByte(authority, ':'); i >= 0 && bytes.IndexByte(authority[i:], ']') < 0 {
		authority = authority[:i]
	}
	return bytes.Trim(authority, ".[]")
}

// tidied returns text as normalized by URL parsers. It returns false unless text is a URL with a
// host or a file URL.
func tidied(text []byte) (read uri.Reading, ok bool) {
	if len(text) > longestURL || !uri.HasHost(text) {
		return uri.Reading{}, false
	}
	return uri.Tidy(string(text)), true
}

var endsAuthority = blanksAnd("/?#\"'`<>(){}|,;\\")

// restOfURL returns the end of the URL that contains the offset at.
func (s *sight) restOfURL(at int) int {
	end := endBefore(&endsURL, s.text, at, longestURL)
	s.work += end - at
	return end
}

var endsURL = blanksAnd("\"<>`")

// mailboxes reports the mail addresses in a word.
func (s *sight) mailboxes(w span) {
	text := s.text[w.start:w.end]
	from := 0
	for {
		i := bytes.IndexByte(text[from:], '@')
		if i < 0 {
			return
		}
		s.work += i
		local := bytes.Trim(text[from:from+i], ".-+")
		from += i + 1
		domain := text[from:]
		if i := bytes.IndexByte(domain, '@'); i >= 0 {
			domain = domain[:i]
		}
		s.work += len(domain)
		domain = bytes.TrimRight(domain, ".-+_")
		if len(local) == 0 || len(local) > 64 || !isHost(domain) {
			continue
		}
		s.until = max(s.until, w.end)
		if string(local) == "git" { // the user name at every forge
			s.hostNamed(domain, true)
			continue
		}
		if i := bytes.IndexByte(local, '+'); i > 0 {
			local = local[:i] // the same mailbox
		}
		var box [64 + 1 + longestHost]byte
		name := append(append(append(box[:0], local...), '@'), domain...)
		s.found(mailbox, name, true)
	}
}

// host reports a word with dots if it can be a host. Many are not: file names and member accesses
// look alike, and folders are named after hosts. In the text of a server a wrong one does no
// harm. In a call, only those count that are certain or stand where hosts do.
func (s *sight) host(w span) {
	text := s.text[w.start:w.end]
	name := bytes.TrimRight(text, ".-_+")
	if i := len(name); w.start+i < w.end {
		w.end = w.start + i
	}
	name = bytes.TrimLeft(name, ".-_+")
	s.work += 2 * len(text)
	if !isHost(name) && !isNumericHost(name) {
		return
	}
	inPath := w.start > 0 && s.text[w.start-1] == '/' && (w.start < 2 || s.text[w.start-2] != '/')
	sure := !inPath && (bytes.HasPrefix(name, []byte("www.")) || isOneOf(hostEndings, afterLast(name, '.')))
	if sure && w.end < len(s.text) && (s.text[w.end] == '/' || s.text[w.end] == ':' || s.text[w.end] == '?') {
		s.until = max(s.until, s.restOfURL(w.end))
	} else if sure {
		s.until = max(s.until, w.end)
	}
	s.hostNamed(name, sure)
}

func (s *sight) hostNamed(name []byte, sure bool) {
	if len(name) > 4 && bytes.EqualFold(name[:4], []byte("www.")) {
		name = name[4:]
	}
	if len(name) == 0 || len(name) > longestHost {
		return
	}
	if isDigit(name[0]) || bytes.IndexByte(name, ':') >= 0 || name[len(name)-1] == '.' { // may be an address in another form
		if number := bytes.TrimRight(name, "."); len(number) >= shortestAccount && len(bytes.TrimLeft(number, "0123456789")) == 0 {
			s.found(account, number, sure) // its meaning where nothing marks it as a host
		}
		text := string(name)
		name = []byte(uri.Host(text))
		for _, other := range uri.OtherHosts(text) {
			s.hostFound([]byte(other), sure)
		}
	}
	s.hostFound(name, sure)
}

func (s *sight) hostFound(name []byte, sure bool) {
	if len(name) > 0 && !uri.IsHere(string(name)) && !isOneOf(nowhere, name) {
		s.found(host, name, sure)
	}
}

// isHost reports whether name has the form of a host: at least two labels of which the last is a
// word, or four numbers.
func isHost(name []byte) bool {
	if len(name) < 4 || len(name) > longestHost {
		return false
	}
	numbers := true
	for _, c := range name {
		if madeOf[c]&(ofLower|ofUpper|ofDigit|ofDash|ofUnder|ofDot) == 0 {
			return false
		}
		numbers = numbers && (isDigit(c) || c == '.')
	}
	dots := bytes.Count(name, []byte("."))
	switch {
	case dots == 0 || name[0] == '.' || name[len(name)-1] == '.' || bytes.Contains(name, []byte("..")):
		return false
	case numbers:
		return dots == 3 && len(name) <= 15
	}
	return isEnding(afterLast(name, '.'))
}

// isNumericHost reports whether name is an address of four numbers in any notation.
func isNumericHost(name []byte) bool {
	return len(name) >= len("1.2.3.4") && len(name) <= 4*len("0x00000000") && isDigit(name[0]) && bytes.Count(name, []byte(".")) == 3 && (isAddress(uri.Host(string(name))) || len(uri.OtherHosts(string(name))) > 0)
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// isEnding reports whether label can be the last label of a host.
func isEnding(label []byte) bool {
	if len(label) < 2 {
		return false
	}
	if len(label) > 4 && bytes.EqualFold(label[:4], []byte("xn--")) {
		return true
	}
	for _, c := range label {
		if madeOf[c]&(ofLower|ofUpper) == 0 {
			return false
		}
	}
	return true
}

// nowhere holds the name of the machine that runs a container.
var nowhere = set("host.docker.internal")

// hostEndings are the last labels that make a dotted word a host in any context: those in wide
// use that are neither file extensions nor common member names.
var hostEndings = set("com", "net", "org", "edu", "gov", "mil", "io", "co", "dev", "biz", "xyz", "online", "cloud", "tech",
	"uk", "de", "fr", "es", "nl", "be", "ch", "at", "se", "dk", "fi", "no", "pl", "cz", "eu", "ru", "ua", "cn", "jp", "kr", "tw", "hk",
	"au", "nz", "ca", "br", "mx", "ar", "za", "tr", "il", "ie", "pt", "gr", "ro", "hu", "ai", "tv", "ly", "gg", "onion")

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
