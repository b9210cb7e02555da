package fleet

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	rules "github.com/thoughtgate/thoughtgated/daemon/fleet"
	format "github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/tuf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// authority signs the certificates of servers on this machine.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tests"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{key, cert}
}

// digest is how a token names the authority.
func (a *authority) digest() string { return format.Digest(a.cert.Raw) }

// serve serves HTTPS with a certificate for an IP address, until the test ends.
func (a *authority) serve(t *testing.T, ip string, handler http.Handler) *httptest.Server {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	form := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.ParseIP(ip)}}
	der, err := x509.CreateCertificate(rand.Reader, form, a.cert, key.Public(), a.key)
	must(t, err)
	s := httptest.NewUnstartedServer(handler)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key}}}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// A server that is addressed by an IP number must be certified for one of those that are configured,
// and one that is addressed by a name for that name, whoever else of the fleet has a certificate.
func TestServersNames(t *testing.T) {
	a := newAuthority(t)
	ca, err := hex.DecodeString(a.digest())
	must(t, err)
	for _, tt := range []struct {
		certified string
		addresses []string
		ok        bool
	}{
		{"127.0.0.1", []string{"tls://127.0.0.1:4222"}, true},
		{"127.0.0.1", []string{"wss://engine.example:443", "tls://127.0.0.1:4222"}, true},
		{"127.0.0.2", []string{"tls://127.0.0.1:4222", "tls://127.0.0.3:4222"}, false},
		{"127.0.0.1", []string{"tls://engine.example:4222"}, false},
		{"127.0.0.1", nil, false},
	} {
		s := a.serve(t, tt.certified, http.NotFoundHandler())
		for host, ok := range map[string]bool{"": tt.ok, "engine.example": false} {
			config := engine.Pinned(ca, tt.addresses...)
			config.ServerName = cmp.Or(host, "127.0.0.1")
			c, err := tls.Dial("tcp", s.Listener.Addr().String(), config)
			if (err == nil) != ok {
				t.Errorf("certified for %s, configured %q, name %q: %v", tt.certified, tt.addresses, host, err)
			}
			if err == nil {
				c.Close()
			}
		}
	}
}

// site is a web server with what an administrator has exported.
type site struct {
	*authority
	url     string
	repo    tuf.Repository
	version uint64

	mu    sync.Mutex
	files map[string][]byte
	lie   http.HandlerFunc // answers instead; nil: nobody lies
	asked map[string]int   // by name and status
}

func keyOf(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func signers(name string) tuf.Signers {
	return tuf.Signers{Keys: []ed25519.PublicKey{keyOf(name).Public().(ed25519.PublicKey)}, Threshold: 1}
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{authority: newAuthority(t), files: map[string][]byte{}, asked: map[string]int{}}
	s.url = s.serve(t, "127.0.0.1", s).URL + "/acme/"
	roles := tuf.Roles{Root: signers("root"), Timestamp: signers("timestamp"), Snapshot: signers("snapshot"), Targets: signers("targets")}
	must(t, s.repo.AddRoot(roles, time.Now().Add(time.Hour), keyOf("root")))
	must(t, s.repo.Delegate([]tuf.Group{{Name: "dev", Paths: []string{"dev/*"}, Signers: signers("dev")}}, time.Now().Add(time.Hour), keyOf("targets")))
	s.publish(t)
	return s
}

// publish signs and exports the next policy of the group dev.
func (s *site) publish(t *testing.T) {
	t.Helper()
	s.version++
	b := format.Bundle{V: format.BundleVersion, Fleet: "acme", Group: "dev", Mode: format.ModeFloor, Version: s.version, Values: format.ValuesNone, Overflow: format.OverflowRefuse}
	must(t, s.repo.Publish("dev", map[string][]byte{"dev/bundle.json": b.Encode()}, time.Now().Add(time.Hour), keyOf("dev")))
	must(t, s.repo.Collect(time.Now().Add(time.Hour), keyOf("snapshot")))
	must(t, s.repo.Confirm(time.Now().Add(time.Hour), keyOf("timestamp")))
	files, err := s.repo.Directory()
	must(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range files {
		s.files[f.Name] = f.Content
	}
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/acme/")
	s.mu.Lock()
	lie, content, there := s.lie, s.files[name], false
	_, there = s.files[name]
	tag := `"` + format.Digest(content)[:16] + `"`
	status := http.StatusOK
	switch {
	case !there:
		status = http.StatusNotFound
	case r.Header.Get("If-None-Match") == tag:
		status = http.StatusNotModified
	}
	s.asked[fmt.Sprint(name, " ", status)]++
	s.mu.Unlock()
	if lie != nil {
		lie(w, r)
		return
	}
	w.Header().Set("ETag", tag)
	w.WriteHeader(status)
	if status == http.StatusOK {
		_, _ = w.Write(content)
	}
}

func (s *site) answer(with http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lie = with
}

func (s *site) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[what]
}

func (s *site) token() *format.Token {
	return &format.Token{
		V: format.TokenVersion, Fleet: "acme", Policy: s.url, CA: s.digest(), Root: format.Digest(s.repo.Roots[0]), Group: "dev", Mode: format.ModeFloor, Role: format.RoleDevice,
	}
}

// verifier is a daemon whose policy is the real one.
type verifier struct {
	*testDaemon
	*rules.Policy
	dir string

	mu      sync.Mutex
	inForce uint64   // the version of the bundle
	records []string // verdicts
}

func (v *verifier) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.records = append(v.records, r.Verdict)
	return nil
}

func (v *verifier) version() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.inForce
}

func (v *verifier) InstallPolicy(ctx context.Context, r *pb.InstallPolicyRequest) (*pb.InstallPolicyResponse, error) {
	installed, err := v.Install(ctx, tuf.Update{Roots: r.GetRoots(), Timestamp: r.GetTimestamp(), Snapshot: r.GetSnapshot(), Targets: r.GetTargets(), Delegated: r.GetDelegated(), Target: r.GetBundle()})
	return &pb.InstallPolicyResponse{Installed: installed}, err
}

// join enrols a machine with a token, and runs its courier until the test ends.
func (s *site) join(t *testing.T, token *format.Token) *verifier {
	t.Helper()
	id, root, err := courier.Enrol(t.Context(), token)
	must(t, err)
	device, err := id.Device()
	must(t, err)
	v := &verifier{dir: t.TempDir()}
	v.Policy = rules.NewPolicy(rules.PolicyOptions{
		Dir: v.dir, Recorder: v, Remove: func() {}, Damaged: func(err error) { t.Error(err) },
		Check: func(b *format.Bundle, _ func() bool) (func(), error) {
			return func() {
				v.mu.Lock()
				defer v.mu.Unlock()
				v.inForce = b.Version
			}, nil
		},
	})
	t.Cleanup(v.Close)
	member := rules.Member{V: 1, Device: device, Fleet: "acme", Group: "dev", Mode: token.Mode, Policy: token.Policy, OTLP: token.OTLP, Root: token.Root}
	must(t, member.Check())
	must(t, v.Join(member, root))
	d := &daemon{dir: v.dir, records: 256}
	must(t, d.write(t.Context()))
	must(t, id.Write(d.identity()))
	v.testDaemon = &testDaemon{device: device, root: 1, log: d, changed: make(chan struct{})}
	v.start(t)
	return v
}

// start runs the courier until the test ends.
func (v *verifier) start(t *testing.T) {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	s := grpc.NewServer()
	pb.RegisterFleetServer(s, v)
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(l) })
	conn, err := grpc.NewClient("passthrough:///daemon", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	c := &courier.Courier{
		IdentityPath: v.log.identity(), StatePath: filepath.Join(v.dir, "state.json"), CursorPath: filepath.Join(v.dir, "sent.json"), Daemon: pb.NewFleetClient(conn),
		Log: slog.New(slog.DiscardHandler), Every: 200 * time.Millisecond,
	}
	running.Go(func() {
		if err := c.Run(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		conn.Close()
		s.Stop()
		running.Wait()
	})
}

// state returns what the courier tells of itself.
func (v *verifier) state(t *testing.T) courier.State {
	t.Helper()
	var s courier.State
	text, err := os.ReadFile(filepath.Join(v.dir, "state.json"))
	if err == nil {
		must(t, json.Unmarshal(text, &s))
	}
	return s
}

// A machine joins, and has each policy soon after it was exported. A server is asked for a file once, and is
// not given a byte of what it says it still has.
func TestPolicyFromWeb(t *testing.T) {
	s := newSite(t)
	v := s.join(t, s.token())
	until(t, "the first policy", func() bool { return v.version() == 1 })
	until(t, "the server says that nothing has changed", func() bool { return s.count("timestamp.json 304") > 2 })
	must(t, s.repo.RenewRoot(time.Now().Add(time.Hour), keyOf("root")))
	s.publish(t)
	until(t, "the second policy", func() bool { return v.version() == 2 })
	if v.Policy.State().Root != 2 {
		t.Errorf("root %d; want 2", v.Policy.State().Root)
	}
	for _, once := range []string{"1.targets.json 200", "1.dev.json 200", "2.dev.json 200", "2.root.json 200"} {
		if got := s.count(once); got != 1 {
			t.Errorf("%s: asked %d times", once, got)
		}
	}
	if got := v.state(t); !got.Connected || got.Engine != s.url || got.Error != "" {
		t.Errorf("state: %+v", got)
	}
}

func TestJoinFromWebRefused(t *testing.T) {
	s := newSite(t)
	other := newAuthority(t)
	elsewhere := s.serve(t, "192.0.2.1", s) // its certificate is for another address
	for want, change := range map[string]func(*format.Token){
		"root metadata are not those": func(f *format.Token) { f.Root = strings.Repeat("0", 64) },
		"certificate":                 func(f *format.Token) { f.CA = other.digest() },
		"unknown authority":           func(f *format.Token) { f.CA = "" },
		"192.0.2.1":                   func(f *format.Token) { f.Policy = elsewhere.URL + "/acme/" },
		"404":                         func(f *format.Token) { f.Policy += "other/" },
	} {
		token := s.token()
		change(token)
		if _, _, err := courier.Enrol(t.Context(), token); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// What a server lies changes nothing that is in force, and is said. Once it no longer lies, the machine has the
// next policy.
func TestLyingWebServer(t *testing.T) {
	s := newSite(t)
	old := map[string][]byte{}
	for name, content := range s.files {
		old[name] = content
	}
	s.publish(t)
	v := s.join(t, s.token())
	until(t, "the policy", func() bool { return v.version() == 2 })
	redirected := s.serve(t, "127.0.0.1", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	corrupt := func(name string, by []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			asked := strings.TrimPrefix(r.URL.Path, "/acme/")
			content, there := s.files[asked]
			switch {
			case strings.HasSuffix(asked, name) && by == nil, !there:
				http.NotFound(w, r)
				return
			case strings.HasSuffix(asked, name):
				content = by
			}
			_, _ = w.Write(content)
		}
	}
	hang := make(chan struct{})
	defer close(hang)
	for _, lie := range []struct {
		name, want string
		answer     http.HandlerFunc
	}{
		{"rolled back", "version 1, and version 2", corrupt("timestamp.json", old["timestamp.json"])},
		{"a page", "read the timestamp", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>") }},
		{"mixed", "have version 1, and the snapshot names", corrupt(".dev.json", old["1.dev.json"])},
		{"no snapshot", "snapshot.json", corrupt(".snapshot.json", nil)},
		{"another bundle", "refuses the policy", corrupt("bundle.json", []byte("{}"))},
		{"endless", "more than", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}},
		{"silent", "deadline", func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-hang:
			}
		}},
		{"elsewhere", "301", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, redirected.URL, http.StatusMovedPermanently)
		}},
		{"broken", "500", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) }},
	} {
		s.publish(t) // which the machine must not get from who lies
		before := v.version()
		s.answer(lie.answer)
		until(t, lie.name+" is said: "+lie.want, func() bool { return strings.Contains(v.state(t).Error, lie.want) })
		if got := v.version(); got != before {
			t.Errorf("%s: version %d is in force; want %d", lie.name, got, before)
		}
		s.answer(nil)
		until(t, "the policy after "+lie.name, func() bool { return v.version() == s.version && v.state(t).Error == "" })
	}
}
