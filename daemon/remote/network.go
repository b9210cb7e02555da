package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http/httpproxy"

	"github.com/thoughtgate/thoughtgated/internal/uri"
)

// Network opens connections to servers, and owns what they share. Connections to one origin, with the
// same certificates, policy and proxy, share TCP connections.
type Network struct {
	resolver Resolver
	log      *slog.Logger
	wait     sync.WaitGroup // for the ends of connections

	mu         sync.Mutex // guards the fields below
	transports map[string]*transport
	closed     bool
}

// transport is what some connections share.
type transport struct {
	*http.Transport
	users int // guarded by the Network

	mu     sync.Mutex // guards the fields below
	conns  map[net.Conn]bool
	closed bool
}

// RoundTrip is that of the HTTP client. Its errors repeat nothing that the server has sent: they become
// texts of ours, for a model too.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var conn atomic.Pointer[keptConn]
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { conn.Store(keptConnOf(got.Conn)) }}
	resp, err := t.Transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil {
		return nil, ownWords(err)
	}
	if c := conn.Load(); c != nil && resp.ProtoMajor == 1 { // HTTP/2 has no such limit, and writes meanwhile
		c.limitIdle(resp.Header)
	}
	return resp, nil
}

// ownWords returns err without what it quotes, as the HTTP client does with what it can't read, and without
// the names in a certificate.
func ownWords(err error) error {
	var other x509.HostnameError
	if errors.As(err, &other) {
		return fmt.Errorf("the certificate of the server is not for %s", other.Host)
	}
	return &unquotedError{err}
}

// unquotedError is an error of the HTTP client without what it quotes.
type unquotedError struct{ err error }

var quotation = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)

func (e *unquotedError) Error() string { return quotation.ReplaceAllString(e.err.Error(), "…") }

func (e *unquotedError) Unwrap() error { return e.err }

// keep returns dial with its connections kept for closeAll.
func (t *transport) keep(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		k := &keptConn{Conn: conn, transport: t}
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.closed { // the request that wanted it was abandoned
			_ = conn.Close() // nothing was written
			return nil, ErrLeft
		}
		t.conns[k] = true
		return k, nil
	}
}

// closeAll closes the connections, which nobody uses any more. What the HTTP client still holds for
// busy would stay open until it has been idle for long.
func (t *transport) closeAll() {
	t.CloseIdleConnections()
	t.mu.Lock()
	t.closed = true
	conns := slices.Collect(maps.Keys(t.conns))
	t.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close() // nothing is read or written
	}
}

// keptConn is a connection that its transport forgets once it is closed, and that takes no request which its
// server would not read any more.
type keptConn struct {
	net.Conn
	transport *transport
	used      atomic.Int64 // when something was read or written, in ns since 1970
	maxIdle   atomic.Int64 // in ns; 0 for no limit
}

// keptConnOf returns the connection below c; nil in tests that have others.
func keptConnOf(c net.Conn) *keptConn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	kept, _ := c.(*keptConn)
	return kept
}

// idleMargin is how long before the server a connection is given up: a request that is written while the server
// closes the connection may or may not have been executed.
const idleMargin = time.Second

var keepAlive = regexp.MustCompile(`(?i)(?:^|[\s,])timeout=([0-9]{1,6})(?:$|[\s,])`)

// limitIdle takes in for how long the server keeps the connection of a response (RFC 2068, 19.7.1.1).
func (c *keptConn) limitIdle(h http.Header) {
	if m := keepAlive.FindStringSubmatch(h.Get("Keep-Alive")); m != nil {
		seconds, _ := strconv.Atoi(m[1]) // it has six digits at most
		c.maxIdle.Store(int64(max(time.Duration(seconds)*time.Second-idleMargin, 1)))
	}
}

var errIdle = errors.New("the connection was idle for as long as the server keeps it")

func (c *keptConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.used.Store(time.Now().UnixNano())
	return n, err
}

// Write fails before a request is written after the connection was idle for too long. The HTTP client then
// sends the request on another connection.
func (c *keptConn) Write(p []byte) (int, error) {
	if limit := c.maxIdle.Load(); limit > 0 && time.Now().UnixNano()-c.used.Load() >= limit {
		return 0, errIdle
	}
	n, err := c.Conn.Write(p)
	c.used.Store(time.Now().UnixNano()) // a server that reads slowly makes it wait
	return n, err
}

func (c *keptConn) Close() error {
	c.transport.mu.Lock()
	delete(c.transport.conns, c)
	c.transport.mu.Unlock()
	return c.Conn.Close()
}

// NewNetwork returns a Network that looks up names with resolver.
func NewNetwork(resolver Resolver, log *slog.Logger) *Network {
	return &Network{resolver: resolver, log: log, transports: map[string]*transport{}}
}

// Close waits until the connections, which the caller has left, have ended. No more can be opened.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.wait.Wait()
}

const (
	maxHeaderBytes = 64 << 10 // of a response
	maxPEMBytes    = 4 << 20  // of a file with certificates or a key
	pingInterval   = 30 * time.Second
	pingTimeout    = 15 * time.Second
)

// reserved lists headers that describe the message or the connection, so that no configuration may set
// them.
var reserved = []string{
	"Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Keep-Alive",
	"Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// checkHeaders checks the headers of a configuration.
func checkHeaders(headers http.Header) error {
	for name, values := range headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("%q can't be the name of a header", name)
		case slices.Contains(reserved, canonical) || strings.HasPrefix(canonical, paramPrefix):
			return fmt.Errorf("the header %s can't be set: ThoughtGate sets it as the protocol requires", canonical)
		case slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }):
			return fmt.Errorf("the value of the header %s has characters that no header may have", canonical) // it may be secret
		}
	}
	return nil
}

// acquire returns the transport for a server. It must be released.
func (n *Network) acquire(s *Server, to address) (t *transport, release func(), err error) {
	proxy, err := proxyOf(s, to)
	if err != nil {
		return nil, nil, err
	}
	config, files, err := s.tlsConfig()
	if err != nil {
		return nil, nil, err
	}
	key := fmt.Sprintf("%q %q %x %d %q", origin(to.URL), to.Socket, files, s.Policy, proxy)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, nil, errors.New("the daemon ends")
	}
	t = n.transports[key]
	if t == nil {
		t = n.transport(s, to, config, proxy)
		n.transports[key] = t
	}
	t.users++
	n.wait.Add(1)
	return t, func() {
		n.mu.Lock()
		if t.users--; t.users == 0 {
			delete(n.transports, key)
			t.closeAll()
		}
		n.mu.Unlock()
		n.wait.Done()
	}, nil
}

func (n *Network) transport(s *Server, to address, config *tls.Config, proxy *url.URL) *transport {
	var system net.Dialer
	t := &transport{conns: map[net.Conn]bool{}, Transport: &http.Transport{
		TLSClientConfig: config, TLSHandshakeTimeout: connectTimeout, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 32, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: maxHeaderBytes,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingInterval, PingTimeout: pingTimeout},
	}}
	switch {
	case to.Socket != "":
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return system.DialContext(ctx, "unix", to.Socket)
		}
	case proxy != nil:
		system.Timeout = connectTimeout
		t.Proxy, t.DialContext = http.ProxyURL(proxy), system.DialContext
	default:
		d := &dialer{hostPort: uri.HostPort(to.URL), policy: s.Policy, resolver: n.resolver, dial: system.DialContext}
		t.DialContext = d.DialContext
	}
	t.DialContext = t.keep(t.DialContext)
	return t
}

// proxyOf returns the proxy for a server; nil for none. A proxy looks up the server's name itself, so
// that no policy can hold for what it connects to: an address that must be public needs a direct
// connection. To resolve the name here, and to send the proxy an address instead, would not help where
// it matters: networks with a proxy often resolve no public names, and their proxies admit names.
func proxyOf(s *Server, to address) (*url.URL, error) {
	if to.Socket != "" {
		return nil, nil
	}
	get := func(name string) (value string) {
		for _, entry := range s.Environ { // the last one counts, and lower case before upper case
			if v, ok := strings.CutPrefix(entry, name+"="); ok {
				value = v
			}
		}
		return value
	}
	first := func(name string) string {
		if v := get(strings.ToLower(name)); v != "" {
			return v
		}
		return get(name)
	}
	config := httpproxy.Config{HTTPProxy: first("HTTP_PROXY"), HTTPSProxy: first("HTTPS_PROXY"), NoProxy: first("NO_PROXY")}
	proxy, err := config.ProxyFunc()(to.URL)
	switch {
	case err != nil:
		return nil, errors.New("the proxy in the environment is not a URL") // err may repeat its password
	case proxy != nil && s.Policy == PublicOnly:
		return nil, fmt.Errorf("the environment names a proxy (%s), through which ThoughtGate can't check where the address of a project leads; write the server into a file of your own, or its host into NO_PROXY", proxy.Host)
	}
	return proxy, nil
}

// tlsConfig returns the TLS configuration of a server, and a digest of the files that it was read
// from.
func (s *Server) tlsConfig() (*tls.Config, []byte, error) {
	config, digest := &tls.Config{MinVersion: tls.VersionTLS12}, sha256.New()
	read := func(path string) ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxPEMBytes))
		fmt.Fprintf(digest, "%d ", len(text))
		digest.Write(text)
		return text, err
	}
	if s.CAFile != "" {
		text, err := read(s.CAFile)
		if err != nil {
			return nil, nil, fmt.Errorf("read ca_file: %w", err)
		}
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool() // a system without certificates
		}
		if !roots.AppendCertsFromPEM(text) {
			return nil, nil, fmt.Errorf("read ca_file: %s has no certificate in PEM form", s.CAFile)
		}
		config.RootCAs = roots
	}
	if s.CertFile != "" {
		certificate, err := read(s.CertFile)
		if err != nil {
			return nil, nil, fmt.Errorf("read the client certificate: %w", err)
		}
		key, err := read(cmp.Or(s.KeyFile, s.CertFile))
		if err != nil {
			return nil, nil, fmt.Errorf("read the key of the client certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, nil, fmt.Errorf("read the client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, digest.Sum(nil), nil
}
