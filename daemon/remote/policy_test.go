package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPolicy(t *testing.T) {
	const (
		public, private, special, never = "public", "private", "special", "never"
	)
	for addr, class := range map[string]string{
		"8.8.8.8": public, "1.1.1.1": public, "2606:4700::1111": public, "::ffff:8.8.8.8": public, "64:ff9b::8.8.8.8": public, "2002:0808:0808::1": public,
		"172.15.255.255": public, "172.32.0.0": public, "100.63.255.255": public, "100.128.0.0": public, "223.255.255.255": public,
		"10.0.0.1": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.1.1": private, "127.0.0.1": private, "127.255.0.1": private, "100.64.0.1": private,
		"198.18.0.1": private, "::1": private, "fd12::1": private, "::ffff:10.0.0.1": private, "::ffff:127.0.0.1": private,
		"169.254.169.254": special, "169.254.170.2": special, "::ffff:169.254.169.254": special, "64:ff9b::169.254.169.254": special, "64:ff9b::10.0.0.1": private,
		"2002:a9fe:a9fe::1": special, "64:ff9b:1::a9fe:a9fe": special, "2002:7f00:1::1": private, "::127.0.0.1": special, "64:ff9b:1::8.8.8.8": special, "::8.8.8.8": special,
		"168.63.129.16": special, "100.100.100.200": special, "192.0.0.192": special, "fd00:ec2::254": special, "fd20:ce::254": special, "fe80::1": special, "fec0::1": special, "fe80::1%eth0": special,
		"192.0.2.1": special, "198.51.100.1": special, "203.0.113.1": special, "2001:db8::1": special, "2001::1": special, "3fff::1": special, "4000::1": special, "0.1.2.3": special,
		"240.0.0.1": special, "255.255.255.255": special, "::ffff:0:127.0.0.1": special, "192.88.99.1": special, "100::1": special, "5f00::1": special,
		"0.0.0.0": never, "::": never, "224.0.0.1": never, "239.255.255.255": never, "ff02::1": never, "::ffff:224.0.0.1": never, "64:ff9b::224.0.0.1": never,
	} {
		// For each class: a project's file, a name in the person's own file, and an address there.
		want := map[string][3]bool{
			public: {true, true, true}, private: {false, true, true}, special: {false, false, true}, never: {},
		}[class]
		ip := netip.MustParseAddr(addr)
		got := [3]bool{PublicOnly.check(ip, true) == nil, Named.check(ip, false) == nil, Named.check(ip, true) == nil}
		if PublicOnly.check(ip, false) == nil != got[0] {
			t.Errorf("%s: a project's address and name differ", addr)
		}
		if got != want {
			t.Errorf("%s: allowed %v, want %v", addr, got, want)
		}
		if err := PublicOnly.check(ip, false); err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// No form of an address that IPv6 has is more permitted than the address.
func TestPolicyForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		if rapid.Bool().Draw(t, "in a forbidden network") {
			network := rapid.SampledFrom(slices.Concat(private[:6], special[:3], unroutable[:8])).Draw(t, "network")
			first := network.Addr().As4()
			mask := net.CIDRMask(network.Bits(), 32)
			for i := range b {
				b[i] = first[i]&mask[i] | b[i]&^mask[i]
			}
		}
		plain := netip.AddrFrom4(b)
		for _, text := range []string{"::ffff:%s", "64:ff9b::%s", "::ffff:0:%s", "::%s", "64:ff9b:1::%s"} {
			form := netip.MustParseAddr(fmt.Sprintf(text, plain))
			for _, p := range []Policy{PublicOnly, Named} {
				if p.check(plain, false) != nil && p.check(form, false) == nil {
					t.Errorf("%s is allowed by %d, and %s is not", form, p, plain)
				}
			}
		}
		sixToFour := netip.AddrFrom16([16]byte{0x20, 0x02, b[0], b[1], b[2], b[3], 15: 1})
		if PublicOnly.check(plain, false) != nil && PublicOnly.check(sixToFour, false) == nil {
			t.Errorf("%s is allowed, and %s is not", sixToFour, plain)
		}
	})
}

// dialed returns a dialer that connects to nothing, and the addresses that it would have connected to.
func dialed(policy Policy, names map[string][]string) (*dialer, *answers, *[]string) {
	var all []string
	resolver := &answers{of: names}
	return &dialer{hostPort: "host:443", policy: policy, resolver: resolver, dial: func(_ context.Context, _, address string) (net.Conn, error) {
		all = append(all, address)
		if strings.HasPrefix(address, "9.") {
			return nil, errors.New("refused")
		}
		one, other := net.Pipe()
		other.Close()
		return one, nil
	}}, resolver, &all
}

func TestDialer(t *testing.T) {
	for name, test := range map[string]struct {
		policy  Policy
		answers []string
		to      string
		want    []string
		err     string
	}{
		"public":                   {answers: []string{"8.8.8.8"}, want: []string{"8.8.8.8:443"}},
		"mapped":                   {answers: []string{"::ffff:8.8.8.8"}, want: []string{"8.8.8.8:443"}},
		"private":                  {answers: []string{"10.0.0.1"}, err: "a project's file may not send anything (host)"},
		"public and private":       {answers: []string{"8.8.8.8 10.0.0.1"}, err: "forbidden address"},
		"none":                     {answers: nil, err: "look up host"},
		"empty":                    {answers: []string{" "}, err: "no address"},
		"the next one":             {answers: []string{"9.9.9.9 8.8.8.8"}, want: []string{"9.9.9.9:443", "8.8.8.8:443"}},
		"all fail":                 {answers: []string{"9.9.9.9"}, want: []string{"9.9.9.9:443"}, err: "refused"},
		"many":                     {answers: []string{strings.Repeat("9.9.9.9 ", 20)}, want: slices.Repeat([]string{"9.9.9.9:443"}, maxAddresses), err: "refused"},
		"named private":            {policy: Named, answers: []string{"10.0.0.1"}, want: []string{"10.0.0.1:443"}},
		"named, but metadata":      {policy: Named, answers: []string{"169.254.169.254"}, err: "write the address instead of the name"},
		"another host":             {answers: []string{"8.8.8.8"}, to: "other:443", err: "other:443 is not host:443"},
		"another port":             {answers: []string{"8.8.8.8"}, to: "host:80", err: "host:80 is not host:443"},
		"changes to private":       {answers: []string{"8.8.8.8", "127.0.0.1"}, want: []string{"8.8.8.8:443"}},
		"public after private":     {answers: []string{"127.0.0.1", "8.8.8.8"}, err: "forbidden address"},
		"through NAT64":            {answers: []string{"64:ff9b::8.8.8.8"}, want: []string{"[64:ff9b::808:808]:443"}},
		"through NAT64, private":   {answers: []string{"64:ff9b::10.0.0.1"}, err: "forbidden address"},
		"named, NAT64 to metadata": {policy: Named, answers: []string{"64:ff9b::169.254.169.254"}, err: "forbidden address"},
	} {
		t.Run(name, func(t *testing.T) {
			d, resolver, all := dialed(test.policy, map[string][]string{"host": test.answers})
			if test.to == "" {
				test.to = "host:443"
			}
			conn, err := d.DialContext(t.Context(), "tcp", test.to)
			if err == nil {
				conn.Close()
			}
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %v, want %q", err, test.err)
			}
			if !slices.Equal(*all, test.want) {
				t.Errorf("it connects to %v, want %v", *all, test.want)
			}
			if resolver.n > 1 {
				t.Errorf("the name was looked up %d times", resolver.n)
			}
		})
	}
}

// A name that is looked up again for another connection is checked again: what was public may have
// become this machine.
func TestRebinding(t *testing.T) {
	d, _, all := dialed(PublicOnly, map[string][]string{"host": {"8.8.8.8", "169.254.169.254", "127.0.0.1"}})
	for i := range 3 {
		conn, err := d.DialContext(t.Context(), "tcp", "host:443")
		if (err == nil) != (i == 0) {
			t.Errorf("connection %d: %v", i, err)
		}
		if err == nil {
			conn.Close()
		}
	}
	if !slices.Equal(*all, []string{"8.8.8.8:443"}) {
		t.Errorf("it connects to %v", *all)
	}
}

// A connection is given up after ten seconds, and an address that does not answer takes only its share.
func TestDialTimeout(t *testing.T) {
	d, _, _ := dialed(PublicOnly, map[string][]string{"host": {"8.8.8.8 8.8.4.4"}})
	var limits []time.Duration
	d.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		deadline, _ := ctx.Deadline()
		limits = append(limits, time.Until(deadline).Round(time.Second))
		return nil, errors.New("no")
	}
	if _, err := d.DialContext(t.Context(), "tcp", "host:443"); err == nil || !slices.Equal(limits, []time.Duration{connectTimeout / 2, connectTimeout}) {
		t.Errorf("limits %v, %v", limits, err)
	}
}
