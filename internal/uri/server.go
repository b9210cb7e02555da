package uri

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// maxServerBytes is the maximum length of a server's address.
const maxServerBytes = 8 << 10

// Server is the address of an MCP server.
type Server struct {
	URL    *url.URL // without user and fragment
	User   *url.Userinfo
	Socket string // path of a Unix socket to connect to; empty for none
}

// ParseServer parses an http or https URL, or the path of a Unix socket with an optional path of the URL:
// unix:///run/server.sock#/mcp. Errors continue "server x: " and quote nothing, since an address may hold a
// secret.
func ParseServer(text string) (*Server, error) {
	if len(text) > maxServerBytes {
		return nil, fmt.Errorf("its address is longer than %d bytes", maxServerBytes)
	}
	u, err := url.Parse(text)
	if err != nil || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, errors.New("its address is not a URL")
	}
	s := &Server{URL: u, User: u.User}
	switch {
	case u.Scheme == "unix":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") || u.RawQuery != "" || u.User != nil || strings.Contains(u.Path, "\x00") {
			return nil, errors.New("its address names a socket in another way than unix:///path or unix:///path#/path-of-the-url")
		}
		s.Socket = u.Path
		s.URL = &url.URL{Scheme: "http", Host: "localhost", Path: "/" + strings.TrimPrefix(u.Fragment, "/")}
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("its address is neither http, https nor unix://")
	case u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("its address has no host")
	}
	s.URL.User, s.URL.Fragment, s.URL.RawFragment = nil, "", ""
	if host := u.Hostname(); !strings.Contains(host, ":") && strings.IndexFunc(host, func(r rune) bool { return r > '~' }) >= 0 {
		ascii, err := idna.Lookup.ToASCII(host) // the form that is dialed
		if err != nil {
			return nil, errors.New("the host of its address is not a name")
		}
		s.URL.Host = ascii + strings.TrimPrefix(u.Host, host)
	}
	return s, nil
}

// Identity returns what identifies the server: origin and path, in one form. User and query, which may be
// secret, are left out. The name in the server's certificate is that of the origin.
func (s *Server) Identity() string {
	if s.Socket != "" {
		return (&url.URL{Scheme: "unix", Path: s.Socket, Fragment: s.URL.Path}).String()
	}
	bare := url.URL{Scheme: s.URL.Scheme, Host: strings.TrimSuffix(HostPort(s.URL), ":"+DefaultPort(s.URL.Scheme)), Path: cmp.Or(s.URL.Path, "/"), RawPath: s.URL.RawPath}
	return bare.String()
}

// DefaultPort returns the port that a URL has if it names none, or "".
func DefaultPort(scheme string) string { return defaultPorts[scheme] }

// HostPort returns host and port of u in one form, as they are dialed.
func HostPort(u *url.URL) string {
	return net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(u.Port(), DefaultPort(u.Scheme)))
}
