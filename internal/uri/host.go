package uri

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// cutAuthority cuts what begins with an authority into that and the path.
func cutAuthority(s string) (authority, path string) {
	if i := strings.IndexByte(s, '/'); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// splitAuthority returns the host and the port of an authority. The host of IPv6
// loses its brackets.
func splitAuthority(authority string) (host, port string) {
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	if host, port, ok := strings.Cut(authority, "]"); ok && strings.HasPrefix(host, "[") {
		return host[1:], strings.TrimPrefix(port, ":")
	}
	host, port, _ = strings.Cut(authority, ":")
	return host, port
}

// Host returns the name of a host as it compares: percent-decoded, in lower case
// and in ASCII, without a dot at its end, and an address in its usual form however
// it was written (as one number, in hexadecimal, in full width digits, as IPv4
// within IPv6).
func Host(name string) string {
	name = plainHost(name)
	if addr, ok := ipv4(name, inetAton); ok {
		return addr.String()
	}
	return name
}

// OtherHosts returns each other address than Host(name) that some reader takes the name
// for, or that it leads to: numbers that begin with a zero are decimal to Java, numbers
// that are too large lose their upper bits, and within some addresses of IPv6 stands
// the one of IPv4 that they are sent on to.
func OtherHosts(name string) []string { return otherHosts(plainHost(name)) }

// plainHost is Host but for the forms of an address of IPv4.
func plainHost(name string) string {
	if name = Decoded(name); strings.Contains(name, ":") {
		bare, _, _ := strings.Cut(name, "%")
		if addr, err := netip.ParseAddr(bare); err == nil {
			return addr.Unmap().String()
		}
	}
	name, _, _ = strings.Cut(name, "\x00") // where a name ends for what is written in C
	return strings.TrimRight(asciiHost(strings.TrimFunc(name, isBlank)), ".")
}

// otherHosts is OtherHosts for a plain host.
func otherHosts(name string) []string {
	if strings.Contains(name, ":") {
		if addr, ok := within(name); ok {
			return []string{addr.String()}
		}
		return nil
	}
	usual, known := ipv4(name, inetAton)
	var others []string
	for _, as := range []manner{{decimal: true}, {wraps: true}, {decimal: true, wraps: true}} {
		addr, ok := ipv4(name, as)
		if text := addr.String(); ok && !(known && addr == usual) && !slices.Contains(others, text) {
			others = append(others, text)
		}
	}
	return others
}

// carriers are the networks of IPv6 in whose addresses one of IPv4 stands, and at
// which byte.
var carriers = []struct {
	network netip.Prefix
	at      int
}{
	{netip.MustParsePrefix("::/96"), 12},           // compatible with IPv4, RFC 4291
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64, RFC 6052
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},  // NAT64 of one's own, RFC 8215, as /96
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // SIIT, RFC 2765
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4, RFC 3056
}

// within returns the address of IPv4 that stands in one of IPv6 and that this is sent
// on to. That of the machine itself, and that of none, have none.
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

// IsHere reports whether a host as Host returns it is the machine itself.
func IsHere(host string) bool {
	if host != "" && '0' <= host[0] && host[0] <= '9' || strings.Contains(host, ":") {
		addr, err := netip.ParseAddr(host)
		return err == nil && (addr.IsLoopback() || addr.IsUnspecified())
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// names maps hosts as URL readers do. transitional maps them as IDNA 2003 has it, by
// which Python still goes: to it straße is strasse.
var names, transitional = profile(false), profile(true)

// profile refuses no host: what readers refuse is compared as far as it could be mapped.
func profile(transitional bool) *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.Transitional(transitional), idna.StrictDomainName(false), idna.ValidateLabels(false),
		idna.CheckHyphens(false), idna.CheckJoiners(false), idna.VerifyDNSLength(false))
}

func asciiHost(name string) string {
	lower := strings.ToLower(name)
	if isASCII(lower) && !strings.Contains(lower, "xn--") {
		return lower
	}
	mapped, _ := names.ToASCII(lower) // with an error too it returns what it could map
	return mapped
}

func unicodeHost(name string) string {
	if !strings.Contains(name, "xn--") {
		return name
	}
	mapped, _ := names.ToUnicode(name)
	return mapped
}

// earlyHost is Host for a name that is no address, by IDNA 2003.
func earlyHost(name string) string {
	mapped, _ := transitional.ToASCII(strings.ToLower(unicodeHost(strings.TrimFunc(Decoded(name), isBlank))))
	return strings.TrimRight(mapped, ".")
}

// number is a port as the most lenient reader has it: Python's int takes blanks
// around it, a sign, underscores within, and digits of any script.
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

// manner is how a reader of addresses differs from inet_aton.
type manner struct {
	decimal bool // a number that begins with 0 is not octal
	wraps   bool // of a number that is too large the lower bits count
}

var inetAton manner

// ipv4 reads the forms of an address that inet_aton knows: one to four numbers,
// each decimal, octal after 0 or hexadecimal after 0x, of which the last fills
// what the others leave.
func ipv4(name string, as manner) (netip.Addr, bool) {
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
