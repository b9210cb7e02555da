package hostile

import (
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/behind"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

var sessions = flag.Int("sessions", 24, "how many sessions share connections")

// atOnce is how many sessions of the test begin at once.
const atOnce = 8

// counter is a server that counts what it is asked for, and its connections.
type counter struct {
	offers                            bool // a stream for what it says by itself
	connections, open, streams, ended atomic.Int32
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m, err := readMessage(body)
	switch {
	case r.Method == http.MethodDelete:
		c.ended.Add(1)
	case r.Method == http.MethodGet && c.offers:
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		c.streams.Add(1)
		<-r.Context().Done()
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case err != nil || !m.has("id"):
		w.WriteHeader(http.StatusAccepted)
	default:
		result := `{"content":[]}`
		if m.text("method") == "initialize" {
			w.Header().Set("Mcp-Session-Id", fmt.Sprint(c.streams.Load()))
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.raw("id"), result)
	}
}

func (c *counter) note(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.connections.Add(1)
		c.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		c.open.Add(-1)
	}
}

// Sessions with one server share its connections. Over HTTP/1.1 each stream for what the server says by
// itself holds one, and calls share what there is besides; over HTTP/2 all of that is in a few. When the
// sessions have ended, so have the connections.
func TestSessionsShareConnections(t *testing.T) {
	for _, test := range []struct {
		name           string
		secure, offers bool
		most           int
	}{
		{"http-1", false, false, 3 * atOnce},
		{"http-1-streams", false, true, *sessions + 3*atOnce},
		{"http-2-streams", true, true, atOnce}, // each of the first sessions has to find out that one is enough
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &counter{offers: test.offers}
			s := httptest.NewUnstartedServer(c)
			s.Config.ConnState = c.note
			s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 250}
			fixture := rig.NewFixture(t)
			config := rig.Configuration
			if s.EnableHTTP2 = test.secure; test.secure {
				s.StartTLS()
				ca := fixture.Path("config/thoughtgate/ca.pem")
				if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
					t.Fatal(err)
				}
				config += "sources: [{id: shared, ca_file: ca.pem}]\n"
			} else {
				s.Start()
			}
			defer s.Close()
			defer s.CloseClientConnections()
			fixture.Configure(config)
			fixture.Shipped = true
			fixture.StartDaemon()
			env := behind.Session(t, fixture, map[string]string{"shared": s.URL})
			t.Run("sessions", func(t *testing.T) { callTogether(t, fixture, env, c, test.most) })
			for end := time.Now().Add(rig.Timeout); c.open.Load() > 0 || int(c.ended.Load()) < *sessions; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the server was told of the end of %d sessions, of %d, and has %d connections", c.ended.Load(), *sessions, c.open.Load())
				}
			}
		})
	}
}

// callTogether begins the sessions, and has each make a call, alone and together.
func callTogether(t *testing.T, fixture *rig.Fixture, env []string, c *counter, most int) {
	shims := make([]*rig.Shim, *sessions)
	for i := range shims {
		shims[i] = fixture.Shim(t, rig.Options{Server: "shared", Env: env, Remote: true, Shipped: true})
	}
	all := func(id int, lines ...string) {
		var wait sync.WaitGroup
		slots := make(chan struct{}, atOnce)
		for _, shim := range shims {
			wait.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				err := shim.Send([]byte(strings.Join(lines, "\n") + "\n"))
				if err == nil {
					_, err = shim.Agent.Await(0, rig.Timeout, answerTo(fmt.Sprint(id)))
				}
				if err != nil {
					t.Errorf("request %d: %v\n%s", id, err, shim.Stderr())
				}
			})
		}
		wait.Wait()
	}
	all(1, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}}`)
	all(2, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	for id := 3; id < 6; id++ {
		all(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{}}}`, id))
	}
	t.Logf("%d sessions have had %d connections, and %d streams", len(shims), c.connections.Load(), c.streams.Load())
	if got := int(c.connections.Load()); got > most {
		t.Errorf("%d sessions have had %d connections, of at most %d", len(shims), got, most)
	}
	// Nothing that is answered tells that a stream is open.
	for end := time.Now().Add(rig.Timeout); c.offers && int(c.streams.Load()) < len(shims) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if got := int(c.streams.Load()); c.offers && got != len(shims) {
		t.Errorf("%d sessions have %d streams", len(shims), got)
	}
}
