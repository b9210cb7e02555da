package facts

import (
	"bytes"
)

// This file has the forms that the borrowed rules do not cover, or not well: an assignment to a
// telling name, a scheme of HTTP authentication, a password in a URL, and a private key, complete
// or truncated.

// nameKeywords are parts of the names that judgeName recognizes.
var nameKeywords = []string{"passw", "passphrase", "passcode", "pwd", "psk", "secret", "token", "apikey", "api_key", "api-key", "api key",
	"access_key", "access-key", "accesskey", "access key", "private_key", "privatekey", "account_key", "accountkey", "auth_key", "authkey",
	"master_key", "masterkey", "encryption_key", "encryptionkey", "signing_key", "signingkey", "admin_key", "credential", "authorization"}

const (
	longestName  = 64
	longestValue = 4096
)

// assigned looks for a secret that is assigned to the name around text[start:end]. nameEnd is the
// end of the name. f.looked is set even if nothing is found.
func assigned(text []byte, start, end int) (f find, nameEnd int, ok bool) {
	from, to := start, end
	for from > 0 && start-from < longestName && isNamePart(text[from-1]) {
		from--
	}
	for to < len(text) && to-end < longestName && isNamePart(text[to]) {
		to++
	}
	f.looked = to - from
	name := bytes.Trim(text[from:to], "-.")
	kind, what := judgeName(name)
	if kind == plainName {
		return f, to, false
	}
	a := assignment{text: text, kind: kind, from: from, at: to}
	if !a.operator() {
		return f, to, false
	}
	v := a.value()
	f.looked = a.far - from
	if v.start == v.end || !a.holds(name, text[v.start:v.end], what) {
		return f, to, false
	}
	f.start, f.end, f.kind = v.start, v.end, what
	return f, to, true
}

func isNamePart(c byte) bool { return isWord(c) || c == '-' || c == '.' }

// assignment parses what follows a name.
type assignment struct {
	text   []byte
	kind   nameKind
	from   int // start of the name
	at     int
	far    int  // end of the text that was examined for the value
	tight  bool // no blank before the value
	quoted bool
	option bool // --name, with = or a blank before its value
	basic  bool // the scheme before the value is Basic
	blank  bool // a blank is the only operator
}

func (a *assignment) peek() byte {
	if a.at < len(a.text) {
		return a.text[a.at]
	}
	return 0
}

func (a *assignment) blanks() (n int) {
	for n < 4 && (a.peek() == ' ' || a.peek() == '\t') {
		a.at++
		n++
	}
	return n
}

// operator reads `=`, `:`, `:=`, `=>` or, for an option, a blank. It reports whether there was
// one.
func (a *assignment) operator() bool {
	for range 3 { // the quote that closes the name, possibly escaped
		if c := a.peek(); c == '\\' || c == '"' || c == '\'' || c == '`' || c == ']' {
			a.at++
		}
	}
	a.option = a.from < len(a.text) && a.text[a.from] == '-' && (a.peek() == ' ' || a.peek() == '=')
	spaced := a.blanks()
	switch c := a.peek(); {
	case c == '=':
		a.at++
		if a.peek() == '>' {
			a.at++
		} else if a.peek() == '=' {
			return false // a comparison
		}
	case c == ':':
		a.at++
		if a.peek() == '=' {
			a.at++
		} else if a.peek() == ':' || a.peek() == '/' && a.at+1 < len(a.text) && a.text[a.at+1] == '/' {
			return false
		}
	default:
		a.blank = true
		return a.option && spaced > 0
	}
	a.tight = a.blanks()+spaced == 0
	return true
}

// value reads the value.
func (a *assignment) value() span {
	if a.peek() == '\\' {
		a.at++
	}
	start := a.at
	if q := a.peek(); q == '"' || q == '\'' || q == '`' {
		a.quoted = true
		start++
		for i := start; i < len(a.text) && i-start < longestValue && a.text[i] != '\n'; i++ {
			a.far = i + 1
			if a.text[i] == q {
				if i > start && a.text[i-1] == '\\' {
					i--
				}
				return span{start, i}
			}
		}
		return span{start, start}
	}
	end := endBefore(&isValueEnd, a.text, start, longestValue)
	// The value of a header is two words; the scheme says how to judge the second.
	if end < len(a.text) && a.text[end] == ' ' && isOneOf(schemes, a.text[start:end]) {
		_, a.basic = cutFold(a.text[start:end], "basic")
		for start = end + 1; start < len(a.text) && a.text[start] == ' '; {
			start++
		}
		end = endBefore(&isValueEnd, a.text, start, longestValue)
	}
	a.far = end
	for end > start && (a.text[end-1] == '.' || a.text[end-1] == '\\') {
		end--
	}
	return span{start, end}
}

var isValueEnd = blanksAnd("\"'`;,&<>)}]|")

// holds reports whether the value is a secret. Unquoted text is judged more strictly, since it
// may be prose or the name of another variable.
func (a *assignment) holds(name, v []byte, what string) bool {
	if a.basic {
		return isBasic(v)
	}
	if a.quoted || a.kind == tokenName {
		_, is := judgeMember(name, v)
		return is && !(isCode(v) && !a.quoted)
	}
	if isPlaceholder(v) || isVersion(v) || isWorkingFolder(name, v) || len(v) < 4 || isCode(v) || isLabel(v) {
		return false
	}
	if hasDigit(v) || bytes.ContainsAny(v, "!@#$%^*+?~") {
		return len(v) >= 6 || a.tight
	}
	if a.kind != passwordName {
		return false
	}
	// Letters only: a word of prose or of a program, unless everything looks like a setting:
	// NAME=value, ?name=value, or a line of its own.
	return a.tight && !a.blank && (isUpper(name) || a.option || a.from > 0 && (a.text[a.from-1] == '?' || a.text[a.from-1] == '&')) ||
		len(v) >= 6 && a.wholeLine(v)
}

// isCode reports whether a value is an expression in a program.
func isCode(v []byte) bool {
	// a.b.c has no digits.
	return bytes.ContainsAny(v, "([{") || !hasDigit(v) && (namesSecret(v) || bytes.IndexByte(v, '.') > 0)
}

// variables are words that mark a value as the name of a secret.
var variables = set("password", "passwd", "pwd", "passphrase", "secret", "token", "credential", "credentials", "key", "pass")

func isUpper(name []byte) bool {
	return !bytes.ContainsAny(name, "abcdefghijklmnopqrstuvwxyz")
}

// wholeLine reports whether the line contains only the name and the value.
func (a *assignment) wholeLine(v []byte) bool {
	lineStart := 1 + bytes.LastIndexByte(a.text[max(0, a.from-longestName):a.from], '\n') + max(0, a.from-longestName)
	before := bytes.Trim(a.text[lineStart:a.from], " \t-")
	at := a.at + len(v)
	rest := a.text[min(at, len(a.text)):]
	return len(before) == 0 && (len(rest) == 0 || rest[0] == '\n' || rest[0] == '\r')
}
