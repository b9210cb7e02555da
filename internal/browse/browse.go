// Package browse checks addresses that a person is to open, and opens them.
package browse

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/uri"
)

// maxAddressBytes bounds an address; browsers and servers take no longer ones.
const maxAddressBytes = 8 << 10

// launchTime is how long Open waits for the program that it starts. One that runs longer has
// become the browser.
const launchTime = 5 * time.Second

// Check parses address and writes it again from its parts, so that every reader finds the same host in
// the result. It must be https; with loopback it may also be http, on this machine. Errors contain
// nothing of the address, which may come from anybody.
func Check(address string, loopback bool) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case len(address) > maxAddressBytes:
		return nil, fmt.Errorf("the address has %d bytes, more than %d", len(address), maxAddressBytes)
	case err != nil:
		return nil, errors.New("the address is no valid URL")
	case u.Opaque != "" || u.User != nil || u.Fragment != "" || u.Hostname() == "":
		return nil, errors.New("the address must have a host, and neither a user's name nor a fragment")
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"%<>\^{|}`+"`", r) }):
		return nil, errors.New("the address must name its host in plain ASCII; write a name in another script in its xn-- form")
	case u.Scheme == "http" && loopback && IsLoopback(u.Hostname()):
	case u.Scheme != "https":
		return nil, errors.New("the address must begin with https://")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the query of the address is invalid")
	}
	checked := &url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath, RawQuery: query.Encode()}
	if port := u.Port(); port == "" || port == uri.DefaultPort(u.Scheme) {
		checked.Host = strings.TrimSuffix(strings.TrimSuffix(checked.Host, port), ":")
	}
	return checked, nil
}

// IsLoopback reports whether host is this machine by its text alone: nobody else can answer for it.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Zone() == "" && addr.IsLoopback()
}

// OpenFile has the person's browser show a page that the caller has just written. path must be absolute
// and name a regular file of this user that nobody else may read or write, since a browser trusts what a
// local file says. See Open for the rest.
func OpenFile(ctx context.Context, path string) error {
	var is unix.Stat_t
	switch err := unix.Lstat(path, &is); {
	case err != nil:
		return fmt.Errorf("open %s in a browser: %w", path, err)
	case !filepath.IsAbs(path) || is.Mode&unix.S_IFMT != unix.S_IFREG || is.Mode&0o077 != 0 || int(is.Uid) != os.Getuid():
		return fmt.Errorf("open %s in a browser: it must be an absolute path of a file that only you may read and write", path)
	}
	return open(ctx, &url.URL{Scheme: "file", Path: path})
}

// Open has the person's browser show a checked address. No shell sees it. It returns when the program
// that was started has ended, or has been running for some seconds.
func Open(ctx context.Context, address *url.URL) error { return open(ctx, address) }

func open(ctx context.Context, address *url.URL) error {
	cmd := exec.Command(opener, address.String()) // it may become the browser, so ctx doesn't kill it
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err := cmd.Start()
	if err == nil {
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }() // ends with the program
		select {
		case err = <-ended:
		case <-time.After(launchTime):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return fmt.Errorf("open a browser with %s: %w", opener, err)
	}
	return nil
}
