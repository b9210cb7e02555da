package offer

import (
	"bufio"
	"context"
	"io"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestSDK has the official client list and call tools, in both eras, and get a notification of
// a change.
func TestSDK(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			n := newNotes()
			s := NewServer("notes", n)
			changed := make(chan struct{}, 8)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
			})
			session, err := client.Connect(t.Context(), transport(t, s), &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if got := session.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("speaks %s", got)
			}
			listed, err := session.ListTools(t.Context(), nil)
			if err != nil || len(listed.Tools) != 4 || listed.Tools[0].Name != "add" {
				t.Fatalf("tools: %v, %v", listed, err)
			}
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "add", Arguments: map[string]any{"n": 1}})
			if err != nil || result.IsError || result.Content[0].(*mcp.TextContent).Text != `added {"n":1}` {
				t.Errorf("add: %v, %v", result, err)
			}
			if result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "broken"}); err != nil || !result.IsError {
				t.Errorf("broken: %v, %v", result, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			var slow sync.WaitGroup
			slow.Go(func() {
				if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "slow"}); err == nil {
					t.Error("a call that was taken back is answered")
				}
			})
			<-n.started
			cancel()
			slow.Wait()
			n.set(tool("new"))
			s.Changed()
			<-changed
		})
	}
}

// transport returns a client's end of pipes whose other end is a member of s.
func transport(t *testing.T, s *Server) mcp.Transport {
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	lines := make(chan []byte, 64)
	m := s.Join(func(line []byte) { lines <- append(line, '\n') })
	var reading, writing sync.WaitGroup
	writing.Go(func() {
		for line := range lines {
			if _, err := toClient.Write(line); err != nil {
				return
			}
		}
	})
	reading.Go(func() {
		in := bufio.NewScanner(fromClient)
		for in.Scan() {
			if err := m.Write(context.Background(), in.Bytes()); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(func() {
		fromClient.Close()
		reading.Wait() // the client may have said something since the last answer
		fromServer.Close()
		m.Leave()
		close(lines)
		writing.Wait()
		if got := s.Members(); got != 0 {
			t.Errorf("%d members are left", got)
		}
	})
	return &mcp.IOTransport{Reader: fromServer, Writer: toServer}
}
