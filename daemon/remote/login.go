package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/uri"
)

// LoginClient returns a client for the login to a server. Besides the server it reaches what the server
// and its issuer name, under the policy of the server: a server that itself has a public address may not
// refer to private ones. It keeps no connections.
func (n *Network) LoginClient(s Server) (*http.Client, error) {
	to, err := uri.ParseServer(s.Address)
	if err == nil && to.Socket != "" {
		err = errors.New("there is no login to a server on a socket")
	}
	if err != nil {
		return nil, fmt.Errorf("log in to server %s: %w", s.ID, err)
	}
	config, _, err := s.tlsConfig()
	if err != nil {
		return nil, fmt.Errorf("log in to server %s: %w", s.ID, err)
	}
	d := &loginDialer{server: uri.HostPort(to.URL), host: to.URL.Hostname(), policy: s.Policy, resolver: n.resolver, dial: new(net.Dialer).DialContext}
	transport := func(config *tls.Config) *http.Transport {
		return &http.Transport{
			TLSClientConfig: config, TLSHandshakeTimeout: connectTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
			DisableKeepAlives: true, DialContext: d.DialContext, Proxy: func(r *http.Request) (*url.URL, error) { return d.proxy(&s, r.URL) },
		}
	}
	others := config.Clone()
	others.Certificates = nil // they say who the person is
	return &http.Client{Transport: &loginTransport{d.server, transport(config), transport(others)}}, nil
}

// loginTransport shows a client certificate to the server alone.
type loginTransport struct {
	server      string // host and port
	own, others *http.Transport
}

// RoundTrip implements [http.RoundTripper].
func (t *loginTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if uri.HostPort(r.URL) == t.server {
		return t.own.RoundTrip(r)
	}
	return t.others.RoundTrip(r)
}

// loginDialer connects to a server, and to what it refers to.
type loginDialer struct {
	server   string // host and port
	host     string
	policy   Policy
	resolver Resolver
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	proxies  sync.Map // by host and port
}

// proxy returns the proxy for an address; nil for none. A proxy looks up names itself, so only an address
// without a name can be checked.
func (l *loginDialer) proxy(s *Server, to *url.URL) (*url.URL, error) {
	proxy, err := proxyOf(s, address{&uri.Server{URL: to}})
	if proxy == nil || err != nil {
		return nil, err
	}
	if addr, err := netip.ParseAddr(to.Hostname()); err == nil && uri.HostPort(to) != l.server {
		if err := PublicOnly.check(addr, true); err != nil {
			return nil, err
		}
	}
	l.proxies.Store(uri.HostPort(proxy), true)
	return proxy, nil
}

func (l *loginDialer) DialContext(ctx context.Context, network, hostPort string) (net.Conn, error) {
	if _, ok := l.proxies.Load(hostPort); ok {
		return l.dial(ctx, network, hostPort)
	}
	d := &dialer{hostPort: hostPort, policy: l.policy, resolver: l.resolver, dial: l.dial}
	if hostPort != l.server && d.policy != PublicOnly {
		own := &dialer{policy: PublicOnly, resolver: l.resolver}
		if _, err := own.resolve(ctx, l.host); err == nil {
			d.policy = PublicOnly
		} else if !errors.Is(err, ErrAddress) {
			return nil, err
		}
	}
	return d.DialContext(ctx, network, hostPort)
}
