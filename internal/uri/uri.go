// Package uri parses URIs in each of the ways in which other programs may parse them.
//
// A URI that is judged here is parsed again by a server, and by the programs that the server
// passes it to. They do not agree on what a URI means. Some follow RFC 3986 and take the text as
// it is. Most follow the WHATWG URL standard, which normalizes first: blanks at the ends and line
// breaks inside are dropped, a backslash is a slash, `file:/x` and `http:x` have an authority, a
// host may be written as one number or in full-width letters. A check of only one of these
// readings can be bypassed with another, so Spellings returns all of them, and the stricter
// verdict counts.
package uri

import (
	"bytes"
	"encoding/hex"
	"path"
	"strings"
	"unicode"
)

// Reading is a parsed URI. Every text has one: a URI that failed to parse would escape the
// policies that look at it.
type Reading struct {
	Scheme string // lower case; empty if there is none
	Host   string // lower case, without user and port
	Path   string // percent-decoded, with . and .. resolved
	Text   string // the URI assembled from these
}

// Parse parses text by RFC 3986. The Text of the result keeps user, port and query. Parse never
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

// joined assembles a URI. scheme may be empty.
func joined(scheme string, hasAuthority bool, authority, rest string) string {
	if hasAuthority {
		rest = "//" + authority + rest
	}
	if scheme != "" {
		rest = scheme + ":" + rest
	}
	return rest
}

// Tidy parses text as URL parsers do that normalize first. A text that is a path is parsed as a
// file URL. The Text of the result has no user, no default port, no fragment and, for files, no
// query. Tidy never fails.
func Tidy(text string) Reading {
	t := tidy(text, true)
	return t.reading(t.host, t.path)
}

// tidied holds the parts of a normalized URI.
type tidied struct {
	scheme, host, port, path, query string
	early                           string   // host by IDNA 2003
	others                          []string // see otherHosts
	led                             string   // where a path through /proc leads, or empty
	authority                       bool
}

// defaultPorts maps each scheme that URL parsers normalize most to its default port.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "file": ""}

// mostDecoded is how often a path is percent-decoded: one parser may pass it to another that
// decodes it again.
const mostDecoded = 4

// tidy parses text. If slashes is set, a backslash before the path is a slash, too. If it is not
// set, the text before an @ that follows the backslash is a user.
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
	rest, _, _ = strings.Cut(rest, "\x00") // C code takes NUL as the end of the path
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

// HasHost reports whether text, normalized as by a URL parser, begins with two slashes or with a
// scheme after which parsers expect a host.
func HasHost(text []byte) bool {
	const longest = len("https:") + 32 // leaves room for dropped characters
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

// isBlank reports whether some parser drops r at the ends of a URI: white space, control
// characters, and invisible characters.
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

// Decoded percent-decodes s once. Invalid escapes stay as they are.
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

// encoded percent-encodes a path as URL parsers do.
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

// cleanPath resolves "." and "..". A trailing slash is kept.
func cleanPath(p string) string {
	if p == "" {
		return ""
	}
	clean := path.Clean(p)
	if clean != "/" && strings.HasSuffix(p, "/") {
		clean += "/" // the folder and the file are different resources
	}
	return clean
}
