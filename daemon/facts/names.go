package facts

import (
	"bytes"
)

// What a value is often stands only in its name: no rule knows hunter2 for a
// password but by the member it is in. So names are split into words and the
// last ones looked up; what stands before them may take it back (a page token
// opens nothing).

// wordList is a name split into words, in lower case.
type wordList struct {
	text [96]byte
	from uint8 // where the first word begins
	ends [12]uint8
	n    int
}

// split splits snake, kebab, dotted, camel and spaced names. Of a name that is
// too long the end is kept, since there the noun stands.
func split(name []byte) (w wordList) {
	if len(name) > len(w.text) {
		name = name[len(name)-len(w.text):]
	}
	start, size := 0, 0
	end := func() {
		if size == start {
			return
		}
		if w.n == len(w.ends) {
			w.from = w.ends[0]
			copy(w.ends[:], w.ends[1:])
			w.n--
		}
		w.ends[w.n] = uint8(size)
		w.n++
		start = size
	}
	for i, c := range name {
		if !isWord(c) && c < 0x80 || c == '_' {
			end()
			// A separator is kept out of the text; words follow each other.
			continue
		}
		upper := c >= 'A' && c <= 'Z'
		if upper && i > 0 {
			lowerBefore := name[i-1] >= 'a' && name[i-1] <= 'z' || isDigit(name[i-1])
			lowerAfter := i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z'
			if lowerBefore || lowerAfter && name[i-1] >= 'A' && name[i-1] <= 'Z' {
				end()
			}
		}
		if upper {
			c |= 0x20
		}
		w.text[size] = c
		size++
	}
	end()
	return w
}

// word returns the i-th word, counted from the end when i is negative; nil
// where there is none.
func (w *wordList) word(i int) []byte {
	if i < 0 {
		i += w.n
	}
	if i < 0 || i >= w.n {
		return nil
	}
	start := w.from
	if i > 0 {
		start = w.ends[i-1]
	}
	return w.text[start:w.ends[i]]
}

// has reports whether one of the words is in the table.
func (w *wordList) has(table map[string]bool) bool {
	for i := range w.n {
		if table[string(w.word(i))] {
			return true
		}
	}
	return false
}

// nameKind says what a name promises of its value.
type nameKind uint8

const (
	plainName    nameKind = iota
	tokenName             // a machine made it: the value must look so
	bareSecret            // `secret` alone: often the name of one
	passwordName          // a person may have made it: any value will do
)

// judgeName says what the value under a name is, if it is a secret.
func judgeName(name []byte) (kind nameKind, what string) {
	w := split(name)
	last, before := w.word(-1), w.word(-2)
	if last == nil || vetoes[string(w.word(0))] && w.n > 1 {
		return plainName, ""
	}
	for _, suffix := range gluedSuffixes {
		if len(last) > len(suffix) && bytes.HasSuffix(last, []byte(suffix)) {
			last, before = last[len(last)-len(suffix):], last[:len(last)-len(suffix)]
			break
		}
	}
	switch string(last) {
	case "password", "passwords", "passwd", "pwd", "passphrase", "passphrases", "passcode", "passwort", "psk":
		return passwordName, "password"
	case "pass":
		if before == nil || string(before) == "db" || string(before) == "user" || string(before) == "smtp" {
			return passwordName, "password"
		}
	case "secret", "secrets":
		if before == nil {
			return bareSecret, "secret"
		}
		return passwordName, "secret"
	case "token", "tokens":
		if before == nil || !openNothing[string(before)] {
			return tokenName, "token"
		}
	case "apikey", "apikeys", "credential", "credentials", "bearer", "jwt", "authorization":
		return tokenName, string(last)
	case "cookie", "cookies":
		return tokenName, "cookie"
	case "key", "keys":
		if before != nil && keyOf[string(before)] {
			return tokenName, string(before) + " key"
		}
	}
	return plainName, ""
}

var gluedSuffixes = []string{"password", "passwd", "passphrase", "secret", "tokens", "token", "apikey", "key"}

// vetoes begin names that talk about a secret instead of holding one.
var vetoes = set("is", "public", "has", "no", "show", "hide", "forgot", "reset", "enable", "disable", "use", "uses", "require", "requires",
	"required", "allow", "needs", "with", "without", "min", "max", "count", "num", "total", "hash", "hashed", "encrypted")

// openNothing are words before token that make it something else.
var openNothing = set("page", "next", "prev", "previous", "continuation", "continue", "cursor", "cancel", "cancellation", "progress",
	"sync", "change", "max", "min", "stop", "start", "end", "eos", "bos", "pad", "unk", "mask", "sep", "cls", "special", "total",
	"num", "input", "output", "prompt", "completion", "cached", "reasoning", "resume", "watch", "delta", "idempotency", "pagination",
	"design", "color", "style", "scroll", "skip", "list", "erc20", "nft", "base", "quote", "used", "remaining", "context")

// keyOf are words before key that make it one.
var keyOf = set("api", "access", "secret", "private", "auth", "account", "master", "encryption", "signing", "service", "deploy",
	"subscription", "ssh", "admin", "shared", "consumer", "hmac", "jwt", "root", "app", "license", "decryption", "webhook")

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}

// judgeMember says what the value of a member is, if it is a secret. value is
// the text of a string, or a number as it is written.
func judgeMember(name, value []byte) (what string, is bool) {
	kind, what := judgeName(name)
	if kind == plainName {
		return "", false
	}
	value = bytes.TrimSpace(value)
	if isPlaceholder(value) || isVersion(value) || isWorkingFolder(name, value) {
		return "", false
	}
	switch kind {
	case passwordName:
		return what, len(value) >= 4 && !isLabel(value)
	case bareSecret:
		return what, machineMade(value) || len(value) >= 6 && hasDigit(value) && !bytes.ContainsAny(value, "/ ")
	}
	if what == "cookie" {
		return what, bytes.IndexByte(value, '=') > 0 && machineMade(afterLast(value, '='))
	}
	if rest, ok := cutFold(value, "basic "); ok {
		return what, isBasic(bytes.TrimSpace(rest))
	}
	return what, machineMade(withoutScheme(value))
}

// cutFold cuts a prefix off without regard to ASCII case; prefix is lower case.
func cutFold(value []byte, prefix string) ([]byte, bool) {
	if len(value) < len(prefix) || !containsFold(value[:len(prefix)], prefix) {
		return value, false
	}
	return value[len(prefix):], true
}

// withoutScheme takes `Bearer`, `Basic` or `Token` off the value of a header.
func withoutScheme(value []byte) []byte {
	scheme, rest, found := bytes.Cut(value, []byte(" "))
	if found && isOneOf(schemes, scheme) {
		return bytes.TrimSpace(rest)
	}
	return value
}

var schemes = set("bearer", "basic", "token", "apikey", "digest", "negotiate")

func afterLast(value []byte, c byte) []byte { return value[bytes.LastIndexByte(value, c)+1:] }

// isLabel reports whether a value is what a form says beside its field.
func isLabel(value []byte) bool {
	if bytes.Count(value, []byte(" ")) > 8 {
		return true
	}
	return !hasDigit(value) && namesSecret(value)
}

// machineMade reports whether a value looks as if no person had chosen it.
func machineMade(v []byte) bool {
	if len(v) < 8 || isPlaceholder(v) || bytes.Contains(v, []byte("://")) || v[0] == '/' || v[0] == '.' {
		return false
	}
	if len(v) == 42 && v[0] == '0' && v[1] == 'x' {
		return false // an account's address, known to everybody
	}
	var digits, lower, upper int
	for _, c := range v {
		switch {
		case c <= ' ' || c >= 0x7f || bytes.IndexByte(notInTokens, c) >= 0:
			return false
		case isDigit(c):
			digits++
		case c >= 'a' && c <= 'z':
			lower++
		case c >= 'A' && c <= 'Z':
			upper++
		}
	}
	switch {
	case lower+upper == 0:
		return digits >= 16
	case len(v) < 12:
		return digits >= 2 && !namesSecret(v)
	}
	return digits >= 1 && !namesSecret(v)
}

var notInTokens = []byte("*\"'`()[]{}<>,;\\")

// namesSecret reports whether v, like testRSA2048PrivateKey, is made of words
// one of which names a secret: then it is the name of one.
func namesSecret(v []byte) bool {
	w := split(v)
	for i := range w.n {
		word := w.word(i)
		changes := 0 // from letters to digits and back
		for j := 1; j < len(word); j++ {
			if isDigit(word[j]) != isDigit(word[j-1]) {
				changes++
			}
		}
		if changes > 2 {
			return false // no word
		}
	}
	return w.has(variables)
}

// isVersion reports whether v is a version or a range of them, as in a list of
// dependencies.
func isVersion(v []byte) bool {
	v = bytes.TrimLeft(v, "^~>=v ")
	dots := 0
	for i, c := range v {
		if c == '.' && i > 0 {
			dots++
		} else if !isDigit(c) {
			return dots >= 2 && (c == '-' || c == '+')
		}
	}
	return dots > 0
}

// isWorkingFolder reports whether a pwd is the variable PWD of shells.
func isWorkingFolder(name, value []byte) bool {
	return value[0] == '/' && len(name) >= 3 && bytes.EqualFold(name[len(name)-3:], []byte("pwd"))
}

func hasDigit(v []byte) bool { return bytes.ContainsAny(v, "0123456789") }
