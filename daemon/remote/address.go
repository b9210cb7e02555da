package remote

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/uri"
)

// maxAddressBytes is the maximum length of an address to which a server refers.
const maxAddressBytes = 8 << 10

// address is a parsed address of a server.
type address struct{ *uri.Server }

// origin returns scheme, host and port of u in one form.
func origin(u *url.URL) string {
	return u.Scheme + "://" + uri.HostPort(u)
}

// shown returns u without what may be secret: user, query and fragment.
func (a address) shown(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if a.Socket != "" {
		bare = url.URL{Scheme: "unix", Path: a.Socket}
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
func (a address) resolve(base *url.URL, ref string) (*url.URL, error) {
	if len(ref) > maxAddressBytes {
		return nil, errors.New("the server refers to an address that is too long")
	}
	to, err := base.Parse(ref)
	if err != nil || to.Opaque != "" {
		return nil, errors.New("the server refers to something that is not an address")
	}
	if origin(to) != origin(a.URL) {
		return nil, fmt.Errorf("the server refers to another origin, %s; if that is right, write that address into the configuration", (address{&uri.Server{}}).shown(&url.URL{Scheme: to.Scheme, Host: to.Host}))
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	return to, nil
}
