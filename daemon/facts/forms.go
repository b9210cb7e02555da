package facts

import (
	"bytes"
	"encoding/base64"
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
