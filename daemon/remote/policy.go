package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/uri"
)

// Policy says which network addresses a server may have. It is chosen by who wrote the server's
// address.
type Policy uint8

const (
	// PublicOnly is for an address from a project's file. Somebody else wrote it, and may want to reach
	// what only this machine can reach.
	PublicOnly Policy = iota
	// Named is for an address from the person's own file. A host name may resolve to a private network
	// or to this machine. Link-local addresses, where clouds have their metadata, must be written as
	// such: a name's owner can make it resolve to anything.
	Named
)

// ErrAddress reports that a server's name resolves to an address that the policy forbids.
var ErrAddress = errors.New("forbidden address")

// Resolver looks up host names. [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// private lists networks that a Named host may be in.
var private = prefixes(
	"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10", "198.18.0.0/15",
	"::1/128", "fc00::/7",
)

// special lists what no other network contains: addresses in public or private networks that are not
// what these are for.
var special = prefixes(
	"168.63.129.16/32",   // Azure's services for its machines
	"100.100.100.200/32", // Alibaba Cloud's metadata
	"192.0.0.192/32",     // Oracle Cloud's metadata
	"fd00:ec2::/32",      // Amazon's metadata, time and DNS
	"fd20:ce::/32",       // Google Cloud's metadata
)

// unroutable lists networks within 0.0.0.0/0 and 2000::/3 that are not public, by the registries of
// special-purpose addresses. All of IPv6 outside 2000::/3 is not public.
var unroutable = prefixes(
	"0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
	"2001::/23", "2001:db8::/32", "3fff::/20",
)

var (
	publicIPv6  = netip.MustParsePrefix("2000::/3")
	translation = netip.MustParsePrefix("64:ff9b::/96") // NAT64: how networks without IPv4 reach it
)

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func isIn(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// check returns an error that wraps ErrAddress if p forbids addr. isLiteral says that addr itself is
// written in the server's address, and no name.
func (p Policy) check(addr netip.Addr, isLiteral bool) error {
	addr = addr.Unmap()
	if addr.Zone() != "" && !(p == Named && isLiteral) || !addr.IsValid() {
		return fmt.Errorf("%w: %s", ErrAddress, addr)
	}
	addr = addr.WithZone("")
	isPublic := !isIn(unroutable, addr) && !isIn(private, addr) && !isIn(special, addr)
	if addr.Is6() {
		// An embedded IPv4 address may be reached through a gateway.
		for _, inner := range uri.OtherHosts(addr.String()) {
			if err := p.check(netip.MustParseAddr(inner), isLiteral); err != nil {
				return fmt.Errorf("%s: %w", addr, err)
			}
		}
		isPublic = isPublic && publicIPv6.Contains(addr) || translation.Contains(addr)
	}
	switch {
	case isPublic:
		return nil
	case p == Named && isLiteral && !addr.IsMulticast() && !addr.IsUnspecified():
		return nil
	case p == Named && isIn(private, addr) && !isIn(special, addr):
		return nil
	}
	return fmt.Errorf("%w: %s", ErrAddress, addr)
}

const (
	connectTimeout = 10 * time.Second // also of a TLS handshake
	maxAddresses   = 16               // of a name that are tried
)

// dialer connects to one host and port. It resolves the host once for each connection, checks every
// address, and connects to the addresses that it has checked: another lookup could have another
// answer.
type dialer struct {
	hostPort string
	policy   Policy
	resolver Resolver
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
}

func (d *dialer) DialContext(ctx context.Context, _, hostPort string) (net.Conn, error) {
	if !strings.EqualFold(hostPort, d.hostPort) { // nothing refers to another one; see address.resolve
		return nil, fmt.Errorf("%w: %s is not %s", ErrAddress, hostPort, d.hostPort)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("no connection after %s", connectTimeout))
	defer cancel()
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	addrs, err := d.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var failed []error
	for i, addr := range addrs {
		conn, err := d.dialOne(ctx, len(addrs)-i, addr.Unmap().String(), port)
		if err == nil {
			return conn, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// dialOne dials one address, with its share of the time if others are left.
func (d *dialer) dialOne(ctx context.Context, left int, addr, port string) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(deadline)/time.Duration(left), time.Second))
		defer cancel()
	}
	return d.dial(ctx, "tcp", net.JoinHostPort(addr, port))
}

// resolve returns the addresses of host, all of which the policy allows.
func (d *dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, d.explain(host, d.policy.check(addr, true))
	}
	addrs, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", host, err)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("look up %s: it has no address", host)
	}
	for _, addr := range addrs { // one that is forbidden makes the others suspicious, too
		if err := d.policy.check(addr, false); err != nil {
			return nil, d.explain(host, err)
		}
	}
	return addrs[:min(len(addrs), maxAddresses)], nil
}

// explain says what to do about an error of check.
func (d *dialer) explain(host string, err error) error {
	switch {
	case err == nil:
		return nil
	case d.policy == PublicOnly:
		return fmt.Errorf("%w, to which a project's file may not send anything (%s); if you want that, write the server into a file of your own", err, host)
	}
	return fmt.Errorf("%w, to which a name should not resolve (%s); if you want that, write the address instead of the name", err, host)
}
