package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/uri"
)

// names is a resolver for tests.
type names map[string]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if text, ok := n[host]; ok {
		return []netip.Addr{netip.MustParseAddr(text)}, nil
	}
	return nil, errors.New("no such host")
}

// What a server refers to in a login is reached under its policy, and a server with a public address can't
// refer to private ones. Nothing is connected to before that is clear.
func TestLoginAddresses(t *testing.T) {
	known := names{"public.example": "93.184.216.34", "other.example": "93.184.216.35", "inside.example": "10.1.2.3", "issuer.inside.example": "10.1.2.4", "meta.example": "169.254.169.254"}
	for _, test := range []struct {
		server  string
		policy  Policy
		to      string
		allowed bool
	}{
		{"https://public.example/mcp", Named, "other.example:443", true},
		{"https://public.example/mcp", Named, "inside.example:443", false},
		{"https://public.example/mcp", Named, "127.0.0.1:443", false},
		{"https://public.example/mcp", Named, "10.1.2.3:443", false},
		{"https://public.example/mcp", Named, "169.254.169.254:80", false},
		{"https://inside.example/mcp", Named, "inside.example:443", true},
		{"https://inside.example/mcp", Named, "issuer.inside.example:443", true},
		{"https://inside.example/mcp", Named, "public.example:443", true},
		{"https://inside.example/mcp", Named, "meta.example:443", false},
		{"http://127.0.0.1:8080/mcp", Named, "127.0.0.1:9090", true},
		{"https://public.example/mcp", PublicOnly, "other.example:443", true},
		{"https://inside.example/mcp", PublicOnly, "inside.example:443", false},
		{"https://inside.example/mcp", PublicOnly, "issuer.inside.example:443", false},
		{"https://unknown.example/mcp", Named, "inside.example:443", false},
	} {
		a, err := uri.ParseServer(test.server)
		if err != nil {
			t.Fatal(err)
		}
		dialed := errors.New("dialed")
		d := &loginDialer{server: uri.HostPort(a.URL), host: a.URL.Hostname(), policy: test.policy, resolver: known, dial: func(context.Context, string, string) (net.Conn, error) { return nil, dialed }}
		if _, err := d.DialContext(t.Context(), "tcp", test.to); errors.Is(err, dialed) != test.allowed {
			t.Errorf("%s (policy %d) refers to %s: %v, want allowed %v", test.server, test.policy, test.to, err, test.allowed)
		}
	}
}

// A login goes through the proxy of the agent, wherever that is, and not on to private addresses.
func TestLoginThroughProxy(t *testing.T) {
	var asked atomic.Value
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked.Store(r.Host) }))
	defer proxy.Close()
	n := NewNetwork(names{"public.example": "93.184.216.34"}, newAgent(t).logger())
	defer n.Close()
	s := Server{ID: "s", Address: "http://public.example/mcp", Policy: Named, Environ: []string{"HTTP_PROXY=" + proxy.URL}}
	client, err := n.LoginClient(s)
	if err != nil {
		t.Fatal(err)
	}
	for address, allowed := range map[string]bool{"http://public.example/mcp": true, "http://issuer.example/token": true, "http://10.1.2.3/token": false, "http://169.254.169.254/": false} {
		asked.Store("")
		answer, err := client.Get(address)
		if err == nil {
			answer.Body.Close()
		}
		if (err == nil) != allowed || (asked.Load() != "") != allowed {
			t.Errorf("%s: %v; the proxy was asked for %v", address, err, asked.Load())
		}
	}
	s.Policy = PublicOnly
	if client, err = n.LoginClient(s); err == nil {
		_, err = client.Get("http://issuer.example/token")
	}
	if err == nil {
		t.Error("the login to a project's server goes through a proxy")
	}
}

// A client certificate is shown to the server, and to nobody to whom it refers.
func TestLoginCertificate(t *testing.T) {
	var shown atomic.Int32
	start := func() *httptest.Server {
		h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			shown.Add(int32(len(r.TLS.PeerCertificates)))
		}))
		h.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
		h.StartTLS()
		t.Cleanup(h.Close)
		return h
	}
	own, other := start(), start()
	dir := t.TempDir()
	cert := own.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	path := filepath.Join(dir, "client.pem")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	n := NewNetwork(net.DefaultResolver, newAgent(t).logger())
	defer n.Close()
	client, err := n.LoginClient(Server{ID: "s", Address: own.URL + "/mcp", Policy: Named, CAFile: path, CertFile: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		url  string
		want int32
	}{{own.URL, 1}, {other.URL, 0}} {
		shown.Store(0)
		answer, err := client.Get(test.url)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := shown.Load(); got != test.want {
			t.Errorf("%s was shown %d certificates, want %d", test.url, got, test.want)
		}
	}
	if _, err := n.LoginClient(Server{ID: "s", Address: "unix:///run/s.sock"}); err == nil {
		t.Error("there is a login to a socket")
	}
}
