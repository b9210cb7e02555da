package uri

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// cutAuthority splits s, which begins with an authority, into the authority and the path.
func cutAuthority(s string) (authority, path string) {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// splitAuthority returns the host and the port of an authority. An IPv6 host is returned without
// its brackets.
func splitAuthority(authority string) (host, port string) {
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	if host, port, ok := strings.Cut(authority, "]"); ok && strings.HasPrefix(host, "[") {
		return host[1:], strings.TrimPrefix(port, ":")
	}
	host, port, _ = strings.Cut(authority, ":")
	return host, port
}

// Host returns the canonical form of a host name, for comparison: percent-decoded, lower-case
// ASCII without a trailing dot. An IP address is returned in its usual form, however it was
// written (as one number, in hexadecimal, in full-width digits, as IPv4-mapped IPv6).
func Host(name string) string {
	name = plainHost(name)
	if addr, ok := ipv4(name, inetAton); ok {
		return addr.String()
	}
	return name
}

// OtherHosts returns the addresses other than Host(name) that some program may reach for name.
// Java reads numbers with a leading zero as decimal, some programs truncate numbers that are too
// large, and some IPv6 addresses embed the IPv4 address that they are translated to.
func OtherHosts(name string) []string { return otherHosts(plainHost(name)) }

// plainHost is like Host but leaves IPv4 addresses as written.
func plainHost(name string) string {
	if name = Decoded(name); strings.Contains(name, ":") {
		bare, _, _ := strings.Cut(name, "%")
		if addr, err := netip.ParseAddr(bare); err == nil {
			return addr.Unmap().String()
		}
	}
	name, _, _ = strings.Cut(name, "\x00") // C code takes NUL as the end of the name
	return strings.TrimRight(asciiHost(strings.TrimFunc(name, isBlank)), ".")
}

// otherHosts is OtherHosts for the result of plainHost.
func otherHosts(name string) []string {
	if strings.Contains(name, ":") {
		if addr, ok := within(name); ok {
			return []string{addr.String()}
		}
		return nil
	}
	usual, known := ipv4(name, inetAton)
	var others []string
	for _, as := range []addressDialect{{decimal: true}, {wraps: true}, {decimal: true, wraps: true}} {
		addr, ok := ipv4(name, as)
		if text := addr.String(); ok && !(known && addr == usual) && !slices.Contains(others, text) {
			others = append(others, text)
		}
	}
	return others
}

// carriers lists the IPv6 networks whose addresses embed an IPv4 address, with the byte offset of
// that address.
var carriers = []struct {
	network netip.Prefix
	at      int
}{
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible, RFC 4291
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64, RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},  // local-use NAT64, RFC 8215, as /96
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // SIIT, RFC 2765
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4, RFC 3056
}

// within returns the IPv4 address embedded in the IPv6 address name. Loopback and unspecified
// addresses have none.
func within(name string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(name)
	if err != nil || addr.IsLoopback() || addr.IsUnspecified() {
		return netip.Addr{}, false
	}
	bytes := addr.As16()
	for _, c := range carriers {
		if c.network.Contains(addr) {
			return netip.AddrFrom4([4]byte(bytes[c.at : c.at+4])), true
		}
	}
	return netip.Addr{}, false
}

// IsHere reports whether host, as returned by Host, is this machine.
func IsHere(host string) bool {
	if host != "" && '0' <= host[0] && host[0] <= '9' || strings.Contains(host, ":") {
		addr, err := netip.ParseAddr(host)
		return err == nil && (addr.IsLoopback() || addr.IsUnspecified())
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// names maps host names as URL parsers do. transitional maps them by IDNA 2003, as Python still
// does: it turns straße into strasse.
var names, transitional = profile(false), profile(true)

// profile returns an IDNA profile that rejects no host: an invalid host is compared in the form
// to which it could be mapped.
func profile(transitional bool) *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.Transitional(transitional), idna.StrictDomainName(false), idna.ValidateLabels(false),
		idna.CheckHyphens(false), idna.CheckJoiners(false), idna.VerifyDNSLength(false))
}

func asciiHost(name string) string {
	lower := strings.ToLower(name)
	if isASCII(lower) && !strings.Contains(lower, "xn--") {
		return lower
	}
	mapped, _ := names.ToASCII(lower) // on error, too, it returns what it could map
	return mapped
}

func unicodeHost(name string) string {
	if !strings.Contains(name, "xn--") {
		return name
	}
	mapped, _ := names.ToUnicode(name)
	return mapped
}

// earlyHost is Host by IDNA 2003, for a name that is not an address.
func earlyHost(name string) string {
	mapped, _ := transitional.ToASCII(strings.ToLower(unicodeHost(strings.TrimFunc(Decoded(name), isBlank))))
	return strings.TrimRight(mapped, ".")
}

// number normalizes a port as the most lenient parser reads it: Python's int accepts surrounding
// blanks, a sign, underscores between digits, and digits of any script.
func number(port string) string {
	if port == "" || strings.Trim(port, "0123456789") == "" {
		return strings.TrimLeft(port, "0")
	}
	port = asciiHost(strings.TrimFunc(Decoded(port), isBlank))
	return strings.TrimLeft(strings.ReplaceAll(port, "_", ""), "+0")
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// addressDialect describes how an address parser differs from inet_aton.
type addressDialect struct {
	decimal bool // a leading 0 does not mean octal
	wraps   bool // a number that is too large is truncated to its lower bits
}

var inetAton addressDialect

// ipv4 parses the address forms of inet_aton: one to four numbers, each decimal, octal (after 0)
// or hexadecimal (after 0x). The last number fills all remaining bytes.
func ipv4(name string, as addressDialect) (netip.Addr, bool) {
	if name == "" || len(name) > 64 || name[0] < '0' || name[0] > '9' || strings.Trim(name, "0123456789abcdefxABCDEFX.") != "" {
		return netip.Addr{}, false
	}
	parts := strings.Split(name, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var sum uint64
	for i, part := range parts {
		base, digits := 10, part
		if len(part) > 1 && part[0] == '0' {
			switch {
			case part[1]|0x20 == 'x':
				base, digits = 16, part[2:]
			case !as.decimal:
				base, digits = 8, part[1:]
			}
		}
		n := uint64(0)
		if digits != "" {
			var err error
			if n, err = strconv.ParseUint(digits, base, 64); err != nil || strings.HasPrefix(digits, "+") {
				return netip.Addr{}, false
			}
		} else if base == 10 {
			return netip.Addr{}, false
		}
		most, shift := uint64(255), 8*uint(3-i)
		if i == len(parts)-1 {
			most, shift = 1<<(8*uint(4-i))-1, 0
		}
		if n > most {
			if !as.wraps {
				return netip.Addr{}, false
			}
			n &= most
		}
		sum |= n << shift
	}
	return netip.AddrFrom4([4]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}), true
}
