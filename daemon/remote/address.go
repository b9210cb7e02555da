package remote

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/idna"
)

// maxAddressBytes is the maximum length of an address.
const maxAddressBytes = 8 << 10

// address is a parsed address of a server.
type address struct {
	url    *url.URL // without user and fragment
	user   *url.Userinfo
	socket string // path of a Unix socket to connect to; empty for none
}

// parseAddress parses an http or https URL, or the path of a Unix socket with an optional path of the
// URL: unix:///run/server.sock#/mcp.
func parseAddress(text string) (*address, error) {
	if len(text) > maxAddressBytes {
		return nil, fmt.Errorf("the address is longer than %d bytes", maxAddressBytes)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the address is not a URL") // err repeats all of it
	}
	a := &address{url: u, user: u.User}
	switch {
	case u.Opaque != "":
		return nil, errors.New("the address is not a URL with a host")
	case u.Scheme == "unix":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") || u.RawQuery != "" || u.User != nil || strings.Contains(u.Path, "\x00") {
			return nil, errors.New("write the address of a socket as unix:///path or unix:///path#/path-of-the-url")
		}
		a.socket = u.Path
		a.url = &url.URL{Scheme: "http", Host: "localhost", Path: "/" + strings.TrimPrefix(u.Fragment, "/")}
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the address begins neither with http:// nor with https:// nor with unix://")
	case u.Hostname() == "":
		return nil, errors.New("the address has no host")
	}
	a.url.User, a.url.Fragment, a.url.RawFragment = nil, "", ""
	if host := u.Hostname(); !strings.Contains(host, ":") && strings.IndexFunc(host, func(r rune) bool { return r > '~' }) >= 0 {
		ascii, err := idna.Lookup.ToASCII(host) // the form that is dialed
		if err != nil {
			return nil, errors.New("the host of the address is not a name")
		}
		a.url.Host = ascii + strings.TrimPrefix(u.Host, host)
	}
	return a, nil
}

// origin returns scheme, host and port of u in one form.
func origin(u *url.URL) string {
	return u.Scheme + "://" + hostPort(u)
}

// hostPort returns host and port of u, as they are dialed.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// shown returns u without what may be secret: user, query and fragment.
func (a *address) shown(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if a.socket != "" {
		bare = url.URL{Scheme: "unix", Path: a.socket}
	}
	text := bare.String()
	if len(text) > 256 {
		text = strings.ToValidUTF8(text[:256], "") + "…"
	}
	return text
}

// resolve returns the address to which the server refers by ref, of a redirect or of the endpoint of
// 2024-11-05. It must have the same origin: headers may hold secrets, and other addresses were not
// checked.
func (a *address) resolve(base *url.URL, ref string) (*url.URL, error) {
	if len(ref) > maxAddressBytes {
		return nil, errors.New("the server refers to an address that is too long")
	}
	to, err := base.Parse(ref)
	if err != nil || to.Opaque != "" {
		return nil, errors.New("the server refers to something that is not an address")
	}
	if origin(to) != origin(a.url) {
		return nil, fmt.Errorf("the server refers to another origin, %s; if that is right, write that address into the configuration", (&address{}).shown(&url.URL{Scheme: to.Scheme, Host: to.Host}))
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	return to, nil
}
