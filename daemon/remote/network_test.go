package remote

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/uri"
)

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"https://Example.com/mcp?k=s#f": "https://example.com:443 https://Example.com/mcp",
		"http://h:8080":                 "http://h:8080 http://h:8080",
		"https://user:pass@h/x%2Fy":     "https://h:443 https://h/x%2Fy",
		"https://BÜCHER.example:8443/x": "https://xn--bcher-kva.example:8443 https://xn--bcher-kva.example:8443/x",
		"http://[::1]:80/":              "http://[::1]:80 http://[::1]:80/",
		"unix:///run/s.sock":            "http://localhost:80 unix:///run/s.sock",
		"unix:///run/s.sock#/mcp":       "http://localhost:80 unix:///run/s.sock",
		"ftp://h/":                      "", "h/mcp": "", "https:///x": "", "http:h": "", "unix://host/s": "", "unix:s": "", "unix:///s?x": "", "http://a b/": "", "https://h:x/": "", "": "", "http://:80/": "",
		"https://h/" + strings.Repeat("x", maxAddressBytes): "",
	} {
		s, err := uri.ParseServer(text)
		got := ""
		if a := (address{s}); err == nil {
			got = origin(a.URL) + " " + a.shown(a.URL)
		}
		if got != want {
			t.Errorf("%.100s: got %q, %v, want %q", text, got, err, want)
		}
	}
}

// What can't be kept is said before anything is sent, without what may be secret.
func TestOpenRefuses(t *testing.T) {
	n := NewNetwork(net.DefaultResolver, slog.New(slog.DiscardHandler))
	defer n.Close()
	proxy := []string{"HTTPS_PROXY=http://user:secret@proxy.local:3128", "NO_PROXY=direct.example"}
	for name, test := range map[string]struct {
		server Server
		want   string
	}{
		"no URL":               {Server{Address: "secret"}, "is neither http"},
		"no valid URL":         {Server{Address: "http://secret\x7f/"}, "not a URL"},
		"a header of ours":     {Server{Address: "http://h/", Headers: http.Header{"mcp-session-id": {"secret"}}}, "Mcp-Session-Id can't be set"},
		"a header of a tool":   {Server{Address: "http://h/", Headers: http.Header{"Mcp-Param-X": {"secret"}}}, "can't be set"},
		"a header of HTTP":     {Server{Address: "http://h/", Headers: http.Header{"Transfer-Encoding": {"secret"}}}, "can't be set"},
		"a header's name":      {Server{Address: "http://h/", Headers: http.Header{"a b": {"x"}}}, "can't be the name"},
		"a header's value":     {Server{Address: "http://h/", Headers: http.Header{"A": {"secret\r\nB: c"}}}, "characters"},
		"a project's socket":   {Server{Address: "unix:///run/docker.sock"}, "project's file may not name a socket"},
		"a project's proxy":    {Server{Address: "https://h/", Environ: proxy}, "proxy.local:3128"},
		"no certificates":      {Server{Address: "https://h/", CAFile: "/dev/null"}, "no certificate"},
		"no file":              {Server{Address: "https://h/", CAFile: "/does/not/exist"}, "read ca_file"},
		"no client's":          {Server{Address: "https://h/", CertFile: "/does/not/exist"}, "client certificate"},
		"direct past a proxy":  {Server{Address: "https://direct.example/", Environ: proxy}, ""},
		"the person's proxy":   {Server{Address: "https://h/", Policy: Named, Environ: proxy}, ""},
		"not a proxy for HTTP": {Server{Address: "http://h/", Environ: proxy}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.server.ID = "github"
			c, err := n.Open(test.server, newAgent(t))
			if err == nil {
				c.Leave()
			}
			if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "remote server github: ")) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error says too much: %v", err)
			}
		})
	}
}

// counted counts the connections to a server.
func counted(s *httptest.Server) *atomic.Int32 {
	var n atomic.Int32
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
	return &n
}

// 200 sessions with one server share few connections, each with its stream open and a call under way.
// Those with other certificates or another policy have their own.
func TestSharedConnections(t *testing.T) {
	const sessions = 200
	arrived, all := make(chan bool, sessions), make(chan struct{})
	rec := record(streamable(map[string]handlerFunc{
		"GET": func(w http.ResponseWriter, r *http.Request, _ string) {
			writeStream(w)("")
			<-r.Context().Done()
		},
		`"id":1,`: func(w http.ResponseWriter, _ *http.Request, _ string) {
			arrived <- true
			<-all
			writeJSON(w, answer(1))
		},
	}))
	s := httptest.NewUnstartedServer(rec)
	connections := counted(s)
	s.EnableHTTP2 = true
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 250}
	s.StartTLS()
	defer stop(t, s)
	n := NewNetwork(net.DefaultResolver, slog.New(slog.DiscardHandler))
	defer n.Close()
	server := Server{Address: s.URL, Policy: Named, CAFile: writePEM(t, s.Certificate().Raw)}
	agents := make([]*agent, sessions)
	for i := range agents {
		agents[i] = newAgent(t)
		agents[i].open(n, server)
		agents[i].shakeHands()
	}
	for _, a := range agents {
		a.write(call(1))
		<-arrived // all at once would each begin a connection, since the first has no room for them
	}
	close(all)
	for _, a := range agents {
		a.expect(answer(1))
	}
	if got := connections.Load(); got > 4 {
		t.Errorf("%d sessions have %d connections", sessions, got)
	}
	if len(n.transports) != 1 {
		t.Errorf("there are %d transports", len(n.transports))
	}
	before := connections.Load()
	server.CAFile = writePEM(t, s.Certificate().Raw) // with the same content
	same := newAgent(t)
	same.open(n, server)
	same.shakeHands()
	if got := connections.Load(); got != before {
		t.Errorf("another file with the same certificates has a connection of its own")
	}
	server.Policy = PublicOnly
	other := newAgent(t)
	other.open(n, server)
	other.write(initialize)
	other.expectError("0", "forbidden address: 127.0.0.1", "not executed")
	for i, a := range append(agents, same, other) {
		a.conn.Leave()
		if i%20 == 0 { // a busy machine can't end all sessions at once in the time that each may take
			rec.await(t, i+1, "DELETE")
		}
	}
	n.Close()
	if len(n.transports) != 0 {
		t.Errorf("%d transports are left", len(n.transports))
	}
	if got := len(rec.requests("DELETE")); got != sessions+1 {
		t.Errorf("%d sessions were ended", got)
	}
	if _, err := n.Open(server, other); err == nil {
		t.Error("a closed network opens a connection")
	}
}

// Nothing is left running when a network has been closed, whatever its connections were doing.
func TestNothingIsLeft(t *testing.T) {
	rec := record(streamable(map[string]handlerFunc{
		"GET": func(w http.ResponseWriter, r *http.Request, _ string) {
			writeStream(w)(event(note))
			<-r.Context().Done()
		},
		`"id":1,`: func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() },
		`"id":2,`: func(w http.ResponseWriter, r *http.Request, _ string) {
			writeStream(w)("id: 1\n" + event(note))
			panic(http.ErrAbortHandler)
		},
	}))
	for proto, secure := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(proto, func(t *testing.T) {
			server := serve(t, rec, secure)
			before := runtime.NumGoroutine()
			n := NewNetwork(net.DefaultResolver, slog.New(slog.DiscardHandler))
			for range 10 {
				a := newAgent(t)
				a.open(n, server)
				a.shakeHands()
				a.expect(note)
				a.write(call(1), call(2))
				a.expect(note)
				a.conn.Leave()
			}
			n.Close()
			for until := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) { // the server's end too
				if time.Now().After(until) {
					buf := make([]byte, 1<<20)
					t.Fatalf("%d goroutines, and %d before\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
				}
			}
		})
	}
}

// Calls one after the other over HTTP/1.1 use one connection, whatever form the answers have.
func TestConnectionIsReused(t *testing.T) {
	rec := record(streamable(map[string]handlerFunc{`"id":2,`: func(w http.ResponseWriter, _ *http.Request, _ string) {
		writeStream(w)(event(note) + event(answer(2)))
	}}))
	s := httptest.NewUnstartedServer(rec)
	connections := counted(s)
	s.Start()
	defer stop(t, s)
	a := connect(t, Server{Address: s.URL, Policy: Named})
	a.shakeHands()
	rec.await(t, 1, "GET")
	for range 10 {
		a.write(call(1))
		a.expect(answer(1))
		a.write(call(2))
		a.expect(note, answer(2))
		for until := time.Now().Add(patience); !a.conn.isIdle.Load() && time.Now().Before(until); { // the answer arrives before the end of its stream
			time.Sleep(time.Millisecond)
		}
	}
	if n := connections.Load(); n > 3 {
		t.Errorf("there were %d connections", n)
	}
}

func TestSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	paths := make(chan string, 8)
	rec := record(streamable(nil))
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths <- r.URL.Path
		rec.ServeHTTP(w, r)
	})}}
	s.Start()
	defer stop(t, s)
	a := connect(t, Server{Address: "unix://" + l.Addr().String() + "#/mcp", Policy: Named})
	a.shakeHands()
	a.write(call(1))
	a.expect(answer(1))
	if path := next(t, paths); path != "/mcp" {
		t.Errorf("the path is %q", path)
	}
}

// A proxy of the environment is used, and it looks up the name.
func TestProxy(t *testing.T) {
	rec := record(streamable(nil))
	target := serve(t, rec, false)
	to, _ := url.Parse(target.Address)
	hosts := make(chan string, 8)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts <- r.Host
		out := r.Clone(r.Context())
		out.URL.Host, out.RequestURI = to.Host, ""
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	defer proxy.Close()
	a := connect(t, Server{Address: "http://mcp.invalid/mcp", Policy: Named, Environ: []string{"http_proxy=" + proxy.URL, "HTTP_PROXY=http://127.0.0.1:1"}})
	a.shakeHands()
	if host := next(t, hosts); host != "mcp.invalid" {
		t.Errorf("the proxy is asked for %q", host)
	}
}

// keyPair returns files with a new certificate and its key.
func keyPair(t *testing.T) (certificate, key string, parsed *x509.Certificate) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key = filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs}), 0o600); err != nil {
		t.Fatal(err)
	}
	parsed, _ = x509.ParseCertificate(raw)
	return writePEM(t, raw), key, parsed
}

func TestCertificates(t *testing.T) {
	certificate, key, parsed := keyPair(t)
	clients := x509.NewCertPool()
	clients.AddCert(parsed)
	s := httptest.NewUnstartedServer(record(streamable(nil)))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	defer stop(t, s)
	ca := writePEM(t, s.Certificate().Raw)
	for name, test := range map[string]struct {
		server Server
		want   string
	}{
		"both":              {Server{CAFile: ca, CertFile: certificate, KeyFile: key}, ""},
		"unknown authority": {Server{CertFile: certificate, KeyFile: key}, "certificate"},
		"no certificate":    {Server{CAFile: ca}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.server.Address, test.server.Policy = s.URL, Named
			a := connect(t, test.server)
			a.write(initialize)
			if name == "both" {
				a.expect(welcome)
			} else {
				a.expectError("0", test.want)
			}
		})
	}
	// The certificate must be of the name, not only of a known authority.
	n := NewNetwork(&answers{of: map[string][]string{"other.test": {"127.0.0.1"}}}, slog.New(slog.DiscardHandler))
	defer n.Close()
	b := newAgent(t)
	b.open(n, Server{Address: "https://other.test:" + s.URL[strings.LastIndex(s.URL, ":")+1:], Policy: Named, CAFile: ca, CertFile: certificate, KeyFile: key})
	defer b.conn.Leave()
	b.write(initialize)
	b.expectError("0", "other.test", "not executed")
}

// A connection is not used again when its server may be about to close it, as the server has said.
func TestKeepAlive(t *testing.T) {
	for _, test := range []struct {
		says  string
		idle  time.Duration
		conns int32
	}{
		{"", 80 * time.Second, 1},
		{"timeout=5", 3900 * time.Millisecond, 1},
		{"timeout=5", 4 * time.Second, 2},
		{"max=100, Timeout=5", 4 * time.Second, 2},
		{"timeout=5, max=100", 3900 * time.Millisecond, 1},
		{"timeout=0", time.Millisecond, 2},
		{"timeout=999999", 80 * time.Second, 1},
		{"timeout=9999999", 80 * time.Second, 1},
		{"timeout=-1", 80 * time.Second, 1},
		{"xtimeout=0", 80 * time.Second, 1},
	} {
		t.Run(fmt.Sprint(test.says, " ", test.idle), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var conns, requests atomic.Int32
				var servers sync.WaitGroup
				client := &transport{conns: map[net.Conn]bool{}, Transport: &http.Transport{IdleConnTimeout: 90 * time.Second}}
				client.DialContext = client.keep(func(context.Context, string, string) (net.Conn, error) {
					conns.Add(1)
					ours, theirs := net.Pipe()
					servers.Go(func() {
						defer theirs.Close()
						for in := bufio.NewReader(theirs); ; {
							r, err := http.ReadRequest(in)
							if err != nil {
								return
							}
							body, _ := io.ReadAll(r.Body)
							if requests.Add(1); string(body) != "a message" {
								t.Errorf("the body is %q", body)
							}
							fmt.Fprintf(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: %s\r\n\r\nok", test.says)
						}
					})
					return ours, nil
				})
				for range 2 {
					resp, err := client.RoundTrip(newHTTP(t.Context(), "POST", &url.URL{Scheme: "http", Host: "example.com"}, http.Header{}, []byte("a message")))
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					time.Sleep(test.idle)
				}
				if conns.Load() != test.conns || requests.Load() != 2 {
					t.Errorf("%d connections for %d requests, want %d", conns.Load(), requests.Load(), test.conns)
				}
				client.closeAll()
				servers.Wait()
			})
		})
	}
}
