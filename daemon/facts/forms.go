package facts

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
)

// schemed looks for the credential that follows `Bearer` or `Basic`.
func schemed(text []byte, start, end int) (find, bool) {
	if start > 0 && isWord(text[start-1]) {
		return find{}, false
	}
	basic := text[end-1] == ' '
	at := end
	for at < len(text) && at-end < 4 && (text[at] == ' ' || text[at] == '\t') {
		at++
	}
	if at == end && !basic {
		return find{}, false
	}
	to := at
	for to < len(text) && to-at < longestValue && (base64Value[text[to]] != 0 || text[to] == '.' || text[to] == '~' || text[to] == '=') {
		to++
	}
	v := text[at:to]
	if basic {
		return find{start: at, end: to, kind: "basic authorization", looked: to - start}, isBasic(v)
	}
	return find{start: at, end: to, kind: "bearer token", looked: to - start}, len(v) >= 16 && machineMade(v)
}

// isBasic reports whether v is the base64 of a user and a password. It ignores the pair of RFC
// 7617, which appears in too many documents.
func isBasic(v []byte) bool {
	plain, err := base64.StdEncoding.DecodeString(string(v))
	_, password, colon := bytes.Cut(plain, []byte(":"))
	return err == nil && colon && len(password) > 0 && looksLikeText(plain) && !containsFold(plain, "aladdin:open")
}

// inURL looks for user:password@ after the :// that ends at end. In prose, a password that is a
// word such as password or token is an example.
func inURL(text []byte, end int, prose bool) (find, bool) {
	colon, at := -1, -1
	var f find
	for i := end; i < len(text) && i-end < 1024; i++ {
		c := text[i]
		f.looked++
		if c <= ' ' || c == '/' || c == '?' || c == '#' || c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' || c == '\\' {
			break
		}
		if c == ':' && colon < 0 {
			colon = i
		}
		if c == '@' {
			at = i
		}
	}
	if colon < 0 || at <= colon+1 || text[end] == '[' {
		return f, false
	}
	password := text[colon+1 : at]
	if bytes.ContainsAny(password, "{}$") || isPlaceholder(password) || bytes.Equal(password, []byte("%s")) || prose && variables[strings.ToLower(string(password))] {
		return f, false
	}
	f.start, f.end, f.kind = colon+1, at, "password in a URL"
	return f, true
}

const (
	longestKey  = 64 << 10
	shortestKey = 32 // letters of base64 in one line; every key has more
)

// privateKey looks for a private key that begins with the marker text[start:end]. The key need
// not have an end: half a key must be hidden, too.
func privateKey(text []byte, start, end int) (find, bool) {
	body := end
	if text[end-1] != ':' { // -----BEGIN
		close := bytes.Index(text[end:min(len(text), end+128)], []byte("-----"))
		if close < 0 || !containsFold(text[end:end+close], "private key") {
			return find{}, false
		}
		body = end + close + 5
	}
	stop := min(len(text), body+longestKey)
	if i := bytes.Index(text[body:stop], []byte("-----")); i >= 0 {
		stop = body + i
	}
	f := find{looked: stop - start}
	run, last := 0, 0
	found := false
	for i := body; i < stop; i++ {
		// The n of a doubly escaped \n is not part of the key.
		if base64Value[text[i]] == 0 && text[i] != '=' || i > 0 && text[i-1] == '\\' {
			run = 0
			continue
		}
		if run++; run >= shortestKey {
			found = true
		}
		last = i + 1
	}
	if !found {
		return f, false
	}
	if i := bytes.Index(text[stop:min(len(text), stop+128)], []byte("KEY")); i >= 0 {
		if j := bytes.Index(text[stop+i:min(len(text), stop+i+32)], []byte("-----")); j >= 0 {
			last = stop + i + j + 5
		}
	}
	f.start, f.end, f.kind = start, last, "private key"
	return f, true
}

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

// isPlaceholder reports whether a value stands for one that is filled in elsewhere, or is not a
// real value.
func isPlaceholder(v []byte) bool {
	if len(v) == 0 || isOneOf(noValues, v) {
		return true
	}
	last := v[len(v)-1]
	switch v[0] {
	case '$':
		if len(v) == 1 || v[1] == '{' || v[1] == '(' || isVariable(v[1:]) {
			return true
		}
	case '<':
		return last == '>'
	case '{', '[':
		return last == '}' || last == ']'
	case '%':
		return len(v) < 3 || last == '%'
	}
	if same := bytes.Count(v, v[:1]); same == len(v) && !isDigit(v[0]) {
		return true
	}
	return slices.ContainsFunc(placeholders, func(p string) bool { return containsFold(v, p) })
}

// isVariable reports whether v is a name in one case, as after a $.
func isVariable(v []byte) bool {
	var lower, upper bool
	for i, c := range v {
		lower = lower || c >= 'a' && c <= 'z'
		upper = upper || c >= 'A' && c <= 'Z'
		if !isWord(c) || isDigit(c) && (i == 0 || lower) {
			return false
		}
	}
	return !(lower && upper)
}

var noValues = set("null", "none", "nil", "true", "false", "yes", "no", "undefined", "unknown", "empty", "n/a", "string", "str", "text",
	"number", "integer", "boolean", "bool", "object", "required", "optional", "redacted", "masked", "hidden", "default", "bytes", "any",
	"expired", "invalid", "missing", "changeme", "todo", "tbd", "xxx", "basic", "bearer", "field", "input")

var placeholders = []string{"****", "••••", "xxxxxx", "process.env", "os.environ", "getenv", "your-", "your_", "yourpassword", "yourtoken",
	"redacted", "placeholder", "example_", "<insert", "{{", "${", "$(", "secrets.", "vault:", "_here"}

// containsFold is bytes.Contains ignoring ASCII case. word must be lower case.
func containsFold(text []byte, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		j := 0
		for j < len(word) && lowerASCII(text[i+j]) == word[j] {
			j++
		}
		if j == len(word) {
			return true
		}
	}
	return false
}

func lowerASCII(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}
