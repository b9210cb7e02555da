package policy

import (
	"net/url"
	"path"
	"strings"
)

// address is a resource URI taken apart as a server would. Every text has one,
// since a URI that could not be read would escape the policies that look at it.
type address struct {
	scheme string // lower case, empty when there is none
	host   string // lower case, without user and port
	path   string // percent-decoded, with . and .. resolved
	clean  string // the URI put together from these, with user, port and query
}

// parseURI takes uri apart. It never fails.
func parseURI(uri string) address {
	var a address
	rest, tail := uri, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest, tail = rest[:i], rest[i:]
	}
	if scheme, after, ok := strings.Cut(rest, ":"); ok && isScheme(scheme) {
		a.scheme, rest = strings.ToLower(scheme), after
	}
	authority, hasAuthority := "", false
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		hasAuthority = true
		authority, rest = after, ""
		if i := strings.IndexByte(after, '/'); i >= 0 {
			authority, rest = after[:i], after[i:]
		}
	}
	switch a.scheme {
	case "file", "http", "https", "ws", "wss", "ftp", "ssh", "git":
		authority = strings.ToLower(authority)
	}
	if a.scheme == "file" && authority == "localhost" {
		authority = ""
	}
	a.host = strings.ToLower(hostOf(authority))
	a.path = cleanPath(rest)
	if a.scheme != "" {
		a.clean = a.scheme + ":"
	}
	if hasAuthority {
		a.clean += "//" + authority
	}
	a.clean += a.path + tail
	return a
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

func hostOf(authority string) string {
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:]
	}
	if strings.HasPrefix(authority, "[") {
		if i := strings.IndexByte(authority, ']'); i > 0 {
			return authority[1:i]
		}
	}
	host, _, _ := strings.Cut(authority, ":")
	return host
}

// cleanPath decodes p once and resolves what goes up.
func cleanPath(p string) string {
	if decoded, err := url.PathUnescape(p); err == nil {
		p = decoded
	}
	if p == "" {
		return ""
	}
	clean := path.Clean(p)
	if clean != "/" && strings.HasSuffix(p, "/") {
		clean += "/" // the folder and the file are two resources
	}
	return clean
}
