package daemon

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/remote"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// A server behind an address is governed as one on pipes: a session of the relay joins it as it joins a
// server in memory, and its lines pass the gates.
func TestRemoteServerIsGoverned(t *testing.T) {
	dir := t.TempDir()
	paths := sock.Paths{Config: dir + "/config", State: dir + "/state", Runtime: dir + "/run"}
	err := paths.Prepare()
	if err == nil {
		err = os.MkdirAll(paths.Config, 0o700)
	}
	if err == nil {
		err = os.WriteFile(paths.ConfigFile(), []byte("schema: 1\ngovernance:\n  defaults: {action: forward, asks: forward}\n  rules:\n    - {match: denied, action: deny}\npins: {mode: off}\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{Paths: paths, Getenv: func(string) string { return "" }, Logger: slog.New(slog.DiscardHandler), Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()

	var calls [2]atomic.Int32
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	for i, name := range []string{"echo", "denied"} {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			calls[i].Add(1)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " was called"}}}, nil, nil
		})
	}
	h := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	defer h.Close()
	defer h.CloseClientConnections()
	network := remote.NewNetwork(net.DefaultResolver, slog.New(slog.DiscardHandler))
	defer network.Close()

	agent, lines := remoteSession(t, d, network, remote.Server{ID: "s", Address: h.URL, Policy: remote.Named})
	request := func(line string, want ...string) {
		t.Helper()
		if _, err := agent.WriteString(line + "\n"); err != nil {
			t.Fatal(err)
		}
		if len(want) == 0 {
			return
		}
		select {
		case got := <-lines:
			for _, want := range want {
				if !strings.Contains(got, want) {
					t.Errorf("the agent gets %s, want %s in it", got, want)
				}
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is not answered", line)
		}
	}
	request(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`, `"id":0`, `"serverInfo"`)
	request(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	request(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"id":1`, `"echo"`)
	request(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{}}}`, `"id":2`, "echo was called")
	request(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"denied","arguments":{}}}`, `"id":3`, `"isError":true`, "Not executed")
	request(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","name":"denied","arguments":{}}}`, `"id":4`, `"error"`)
	if n := calls[0].Load(); n != 1 {
		t.Errorf("echo was called %d times", n)
	}
	if n := calls[1].Load(); n != 0 {
		t.Errorf("denied was called %d times", n)
	}
	agent.Close()
	for line := range lines {
		t.Errorf("the agent gets %s", line)
	}
}

// remoteSession runs a session of an agent with a server behind an address. It returns what the agent
// writes to, and the lines that it reads until the session ends.
func remoteSession(t *testing.T, d *Daemon, network *remote.Network, server remote.Server) (*os.File, <-chan string) {
	t.Helper()
	attached := d.judge.Attach(context.Background(), gate.Shim{Attachment: "0123456789abcdef", Session: "s", Agent: "claude-code", Cwd: "/", Server: server.ID, Patience: time.Hour}, nil)
	m, err := mapping.Create(10 << 20)
	if err != nil {
		t.Fatal(err)
	}
	fromAgent, agent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader, toAgent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s, err := relay.New(attached, relay.Ends{
		Agent: relay.Pair{From: fromAgent, To: toAgent}, Mapping: m,
		Server: &relay.InMemory{Join: func(_ context.Context, c relay.Client) (relay.Member, error) { return network.Open(server, c) }},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	go s.Run() // ends with the agent, or the test
	lines := make(chan string, 64)
	go func() { // likewise
		defer close(lines)
		for scanner := bufio.NewScanner(reader); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		s.Close()
		attached.Close(true)
		agent.Close()
		reader.Close()
	})
	return agent, lines
}
