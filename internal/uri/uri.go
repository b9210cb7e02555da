// Package uri takes URIs apart in the ways in which programs do.
//
// A URI that is judged here is read again by a server, and by the programs that
// it hands it to. They don't agree on what a URI says. Some go by RFC 3986 and
// take the text as it is. Most go by the WHATWG's URL standard, which tidies it
// up first: blanks at the ends and line breaks within are dropped, a backslash is
// a slash, `file:/x` and `http:x` have an authority, a host may be written as one
// number or in full width letters. Whoever judges only one of these readings can
// be walked round with the other, so Spellings gives all of them, and the
// stricter verdict counts.
package uri

import (
	"bytes"
	"encoding/hex"
	"path"
	"strings"
	"unicode"
)

// Reading is a URI taken apart. Every text has one, since a URI that could not
// be read would escape the policies that look at it.
type Reading struct {
	Scheme string // lower case, empty when there is none
	Host   string // lower case, without user and port
	Path   string // percent-decoded, with . and .. resolved
	Text   string // the URI put together from these
}

// Parse reads text as RFC 3986 does. Text keeps user, port and query. It never
// fails.
func Parse(text string) Reading {
	var r Reading
	rest, tail := text, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest, tail = rest[:i], rest[i:]
	}
	if scheme, after, ok := strings.Cut(rest, ":"); ok && isScheme(scheme) {
		r.Scheme, rest = strings.ToLower(scheme), after
	}
	authority, hasAuthority := "", false
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		hasAuthority = true
		authority, rest = cutAuthority(after)
	}
	switch r.Scheme {
	case "file", "http", "https", "ws", "wss", "ftp", "ssh", "git":
		authority = strings.ToLower(authority)
	}
	if r.Scheme == "file" && authority == "localhost" {
		authority = ""
	}
	host, _ := splitAuthority(authority)
	r.Host = strings.ToLower(host)
	r.Path = cleanPath(Decoded(rest))
	r.Text = joined(r.Scheme, hasAuthority, authority, r.Path+tail)
	return r
}

// joined puts a URI together. The scheme may be empty.
func joined(scheme string, hasAuthority bool, authority, rest string) string {
	if hasAuthority {
		rest = "//" + authority + rest
	}
	if scheme != "" {
		rest = scheme + ":" + rest
	}
	return rest
}

// Tidy reads text as URL readers do that tidy up. A text that is a path is read
// as one of a file. Text has no user, no port that goes without saying, no
// fragment, and for files no query. It never fails.
func Tidy(text string) Reading {
	t := tidy(text, true)
	return t.reading(t.host, t.path)
}

// tidied is what Tidy makes of a URI before it is put together.
type tidied struct {
	scheme, host, port, path, query string
	early                           string   // host as readers by IDNA 2003 have it
	others                          []string // see otherHosts
	led                             string   // where a path through /proc leads, else empty
	authority                       bool
}

// defaultPorts are the schemes that URL readers tidy up most, and the ports that
// go without saying.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "file": ""}

// mostDecoded is how often a path is percent-decoded: one reader may hand it to
// another that decodes it again.
const mostDecoded = 4

// tidy reads text. slashes says whether a backslash is a slash before the path,
// too: where it is not, what stands before an @ behind it is a user.
func tidy(text string, slashes bool) tidied {
	var t tidied
	rest := strings.TrimFunc(text, isBlank)
	if strings.ContainsAny(rest, "\t\n\r") {
		rest = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(rest)
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, t.query, _ = strings.Cut(rest, "?")
	if t.query != "" {
		t.query = "?" + t.query
	}
	scheme, after, ok := strings.Cut(rest, ":")
	if ok && isScheme(scheme) {
		t.scheme, rest = strings.ToLower(scheme), after
	}
	if slashes {
		rest = strings.ReplaceAll(rest, `\`, "/")
	}
	if t.scheme == "" && strings.HasPrefix(rest, "/") {
		t.scheme = "file"
	}
	_, special := defaultPorts[t.scheme]
	var authority string
	switch {
	case t.scheme == "file":
		t.authority, t.query = true, ""
		if after, ok := strings.CutPrefix(rest, "//"); ok {
			authority, rest = cutAuthority(after)
		}
	case special:
		t.authority = true
		authority, rest = cutAuthority(strings.TrimLeft(rest, "/"))
	case strings.HasPrefix(rest, "//"):
		t.authority = true
		authority, rest = cutAuthority(rest[2:])
	}
	host, port := splitAuthority(authority)
	t.host = Host(host)
	t.others = otherHosts(plainHost(host))
	if t.scheme == "file" && IsHere(t.host) {
		t.host = ""
	}
	if t.early = t.host; strings.Contains(t.host, "xn--") {
		t.early = earlyHost(host)
	}
	if port = number(port); port != "" && port != defaultPorts[t.scheme] && t.scheme != "file" { // files have none
		t.port = ":" + port
	}
	rest = decodedWhole(rest)
	rest = strings.ReplaceAll(rest, `\`, "/")
	rest, _, _ = strings.Cut(rest, "\x00") // where a path ends for what is written in C
	if special && !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	if t.path = cleanPath(rest); t.scheme == "file" {
		t.led = throughProc(rest)
	}
	return t
}

func (t *tidied) reading(host, path string) Reading {
	r := Reading{Scheme: t.scheme, Host: host, Path: t.path}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	r.Text = joined(t.scheme, t.authority, host+t.port, path+t.query)
	return r
}

// HasHost reports whether text, as URL readers tidy it up, begins with a scheme
// that they look for a host behind, or with two slashes.
func HasHost(text []byte) bool {
	const longest = len("https:") + 32 // with what is dropped within it
	head := bytes.TrimLeftFunc(text, isBlank)
	scheme, slashes := make([]byte, 0, len("https")), 0
	for i := 0; i < len(head) && i < longest; i++ {
		switch c := head[i]; {
		case c == '\t', c == '\n', c == '\r':
		case (c == '/' || c == '\\') && len(scheme) == 0:
			if slashes++; slashes == 2 {
				return true
			}
		case c == ':':
			_, special := defaultPorts[strings.ToLower(string(scheme))]
			return special
		case slashes > 0 || len(scheme) == cap(scheme):
			return false
		default:
			scheme = append(scheme, c)
		}
	}
	return false
}

// isBlank reports whether r at the end of a URI is dropped by some reader: blanks
// of any kind, control characters, and what no screen shows.
func isBlank(r rune) bool {
	return r <= ' ' || unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

func isScheme(s string) bool {
	if s == "" {
		return false
	}
	for i, r := range s {
		letter := 'a' <= r|0x20 && r|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", r)) {
			return false
		}
	}
	return true
}

// Decoded reads %XX once; what is no such escape stays.
func Decoded(s string) string {
	at := strings.IndexByte(s, '%')
	if at < 0 {
		return s
	}
	out := append(make([]byte, 0, len(s)), s[:at]...)
	for i := at; i < len(s); i++ {
		char := [1]byte{s[i]}
		if s[i] == '%' && i+2 < len(s) {
			if _, err := hex.Decode(char[:], []byte(s[i+1:i+3])); err == nil {
				i += 2
			}
		}
		out = append(out, char[0])
	}
	return string(out)
}

// encoded writes a path as URL readers write it: what can't stand in one as
// %XX.
func encoded(p string) string {
	const plain = "!$%&'()*+,-./:;=@[\\]^_|~"
	out := make([]byte, 0, len(p))
	for i := range len(p) {
		c := p[i]
		if 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte(plain, c) >= 0 {
			out = append(out, c)
		} else {
			out = append(out, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
		}
	}
	return string(out)
}

// cleanPath resolves what goes up.
func cleanPath(p string) string {
	if p == "" {
		return ""
	}
	clean := path.Clean(p)
	if clean != "/" && strings.HasSuffix(p, "/") {
		clean += "/" // the folder and the file are two resources
	}
	return clean
}
