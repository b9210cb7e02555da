package facts

import (
	"bytes"
)

const (
	longestHost = 253
	longestURL  = 4096 // of the rest of an URL that is taken to belong to it
)

// authority reads the part of an URL that says which host, from at on.
func (s *sight) authority(at int) {
	end := at
	for end < len(s.text) && end-at < 2*longestHost && !endsAuthority[s.text[end]] {
		end++
	}
	s.work += end - at
	whole := s.text[at:end]
	whole = whole[bytes.LastIndexByte(whole, '@')+1:]
	if i := bytes.LastIndexByte(whole, ':'); i >= 0 && bytes.IndexByte(whole[i:], ']') < 0 {
		whole = whole[:i]
	}
	s.inner = end
	if end >= s.until { // an URL within another ends with it
		s.until = s.restOfURL(end)
	}
	s.hostNamed(bytes.Trim(whole, ".[]"), true)
}

var endsAuthority = func() (table [256]bool) {
	for c := range table {
		table[c] = c <= ' ' || bytes.IndexByte([]byte("/?#\"'`<>(){}|,;\\"), byte(c)) >= 0
	}
	return table
}()

// restOfURL returns where an URL ends of which at is a part.
func (s *sight) restOfURL(at int) int {
	end := at
	for end < len(s.text) && end-at < longestURL {
		if c := s.text[end]; c <= ' ' || c == '"' || c == '<' || c == '>' || c == '`' {
			break
		}
		end++
	}
	s.work += end - at
	return end
}

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
		if string(local) == "git" { // the user of every forge
			s.hostNamed(domain, true)
			continue
		}
		if i := bytes.IndexByte(local, '+'); i > 0 {
			local = local[:i] // the same box
		}
		var box [64 + 1 + longestHost]byte
		name := append(append(append(box[:0], local...), '@'), domain...)
		s.found(mailbox, name, true)
	}
}

// host reports a word with dots in it, if it can be a host. Many are none: names
// of files and members of objects look alike, and folders are named after hosts.
// As said by a server they cost nothing; of a call only those count that are sure,
// or stand where hosts do.
func (s *sight) host(w span) {
	text := s.text[w.start:w.end]
	name := bytes.TrimRight(text, ".-_+")
	if i := len(name); w.start+i < w.end {
		w.end = w.start + i
	}
	name = bytes.TrimLeft(name, ".-_+")
	s.work += 2 * len(text)
	if !isHost(name) {
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
	if len(name) == 0 || len(name) > longestHost || isHere(name) {
		return
	}
	s.found(host, name, sure)
}

// isHost reports whether name has the form of a host: two labels or more, of
// which the last is a word, or four numbers.
func isHost(name []byte) bool {
	if len(name) < 4 || len(name) > longestHost {
		return false
	}
	labels, size, numbers := 1, 0, true
	last := 0
	for i, c := range name {
		if c == '.' {
			if size == 0 {
				return false
			}
			labels++
			size, last = 0, i+1
			continue
		}
		if madeOf[c]&(ofLower|ofUpper|ofDigit|ofDash|ofUnder) == 0 {
			return false
		}
		numbers = numbers && isDigit(c)
		size++
	}
	if labels < 2 || size == 0 {
		return false
	}
	if numbers {
		return labels == 4 && len(name) <= 15
	}
	return isEnding(name[last:])
}

// isEnding reports whether a label can be the last one of a host.
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

// isHere reports whether name is this machine, or one that stands for none.
func isHere(name []byte) bool {
	for _, end := range nowhere {
		if i := len(name) - len(end); i >= 0 && (i == 0 || name[i-1] == '.') && hasSuffixFold(name, end) {
			return true
		}
	}
	return bytes.HasPrefix(name, []byte("127."))
}

var nowhere = []string{"localhost", "0.0.0.0", "::1", "host.docker.internal", "example", "example.com", "example.org", "example.net", "invalid", "test"}

// hasSuffixFold is bytes.HasSuffix without regard to ASCII case; suffix is
// lower case, and no longer than text.
func hasSuffixFold(text []byte, suffix string) bool {
	text = text[len(text)-len(suffix):]
	for i := range len(suffix) {
		if lowerASCII(text[i]) != suffix[i] {
			return false
		}
	}
	return true
}

// hostEndings are the last labels that make a word with dots a host wherever it
// stands: those in wide use that are neither endings of files nor usual names of
// members.
var hostEndings = set("com", "net", "org", "edu", "gov", "mil", "io", "co", "dev", "biz", "xyz", "online", "cloud", "tech",
	"uk", "de", "fr", "es", "nl", "be", "ch", "at", "se", "dk", "fi", "no", "pl", "cz", "eu", "ru", "ua", "cn", "jp", "kr", "tw", "hk",
	"au", "nz", "ca", "br", "mx", "ar", "za", "tr", "il", "ie", "pt", "gr", "ro", "hu", "ai", "tv", "ly", "gg", "onion")
