package mcp

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// maxPageBytes is the maximum length of a page address, in bytes. The programs that open
// pages have the same limit.
const maxPageBytes = 8 << 10

// plainInPage are the characters other than letters and digits that a page address may
// contain. Shell metacharacters are not among them, since agents have passed such
// addresses to a shell. The exception is &, which must separate query parameters and is
// allowed only there; % begins an escape.
const plainInPage = "-._~:/?#@=+,%&[]"

// CheckPage returns an error if a server must not send a person to the page at address.
// It accepts an https address, or an http address on this machine, that every program
// parses alike, that a person sees as it is, and that no shell takes for a command.
func CheckPage(address string) error {
	if len(address) > maxPageBytes {
		return fmt.Errorf("the address has more than %d bytes", maxPageBytes)
	}
	for i, r := range address {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		case r == '&' && !strings.ContainsAny(address[:i], "?#"):
			return errors.New("the address has & before its query")
		case !strings.ContainsRune(plainInPage, r):
			return fmt.Errorf("the address has the character U+%04X, which must be escaped", r)
		}
	}
	u, err := url.Parse(address)
	if err != nil {
		return errors.New("the address is invalid") // url.Error quotes the whole address
	}
	scheme, rest, _ := strings.Cut(address, "://")
	switch scheme = strings.ToLower(scheme); {
	case scheme != "https" && scheme != "http":
		return errors.New("the address is not an https URL")
	case u.Host == "" || u.User != nil || strings.HasPrefix(rest, "/"):
		return errors.New("the address has no host, or contains a user")
	case strings.ContainsAny(address[len(scheme)+len("://")+len(u.Host):], "[]"):
		return errors.New("the address has brackets, which must be escaped")
	}
	here, err := checkPageHost(u.Hostname(), strings.HasPrefix(u.Host, "["))
	if err != nil {
		return err
	}
	if scheme == "http" && !here {
		return errors.New("the address is an http URL to another machine")
	}
	for _, part := range []string{u.EscapedPath(), u.RawQuery, u.EscapedFragment()} {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return errors.New("the address has an invalid % escape")
		}
		if strings.ContainsFunc(plain, wire.Unseen) {
			return errors.New("the address has an escaped control character or an invisible character")
		}
	}
	return nil
}

// checkPageHost reports whether host is this machine. It fails if host must not be the
// host of a page.
func checkPageHost(host string, bracketed bool) (here bool, err error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" || bracketed != ip.Is6() {
			return false, errors.New("the host of the address is ambiguous")
		}
		return ip.IsLoopback(), nil
	}
	host = strings.ToLower(host)
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false, errors.New("the host of the address is ambiguous")
		}
	}
	// Some programs parse 127.1, 0x7f.1 and 2130706433 as addresses.
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return false, errors.New("the host of the address is a number, which programs parse differently")
	}
	return host == "localhost", nil
}
