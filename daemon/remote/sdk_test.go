package remote

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sdkServer is a server of the Go SDK that reports progress, asks for roots, and answers.
func sdkServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	type input struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(ctx context.Context, r *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			if err := r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1}); err != nil {
				return nil, nil, err
			}
		}
		text := in.Text
		if text == "roots" {
			//lint:ignore SA1019 servers in use ask for roots
			roots, err := r.Session.ListRoots(ctx, nil)
			if err != nil {
				return nil, nil, err
			}
			text = roots.Roots[0].URI
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	return s
}

// awaitPart returns the next line, which has to have each part.
func (a *agent) awaitPart(parts ...string) string {
	a.t.Helper()
	line := a.await()
	for _, part := range parts {
		if !strings.Contains(line, part) {
			a.t.Errorf("the agent gets %s, want %s in it", line, part)
		}
	}
	return line
}

// A server of the Go SDK, in each of the ways in which it can be reached, is spoken to as over pipes.
func TestSDK(t *testing.T) {
	s := sdkServer()
	get := func(*http.Request) *mcp.Server { return s }
	for name, h := range map[string]http.Handler{
		"stream":    mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}),
		"JSON":      mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{JSONResponse: true}),
		"stateless": mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true}),
		"old":       mcp.NewSSEHandler(get, nil),
	} {
		t.Run(name, func(t *testing.T) {
			a := connect(t, serve(t, h, true))
			a.write(strings.Replace(initialize, `"capabilities":{}`, `"capabilities":{"roots":{}}`, 1))
			a.awaitPart(`"id":0`, `"result"`)
			a.write(initialized)
			a.write(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			a.awaitPart(`"id":1`, `"echo"`)
			for i := range 20 {
				a.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":"tools/call","params":{"name":"echo","arguments":{"text":"t%[1]d"}}}`, i))
			}
			got := map[string]bool{}
			for range 20 {
				got[idOf(a.awaitPart(`"text":"t`))] = true
			}
			if len(got) != 20 {
				t.Errorf("%d calls are answered", len(got))
			}
			if name == "stream" || name == "old" {
				a.write(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"_meta":{"progressToken":7},"name":"echo","arguments":{"text":"roots"}}}`)
				a.awaitPart("notifications/progress", `"progressToken":7`)
				ask := a.awaitPart("roots/list")
				a.write(`{"jsonrpc":"2.0","id":` + idOf(ask) + `,"result":{"roots":[{"uri":"file:///work"}]}}`)
				a.awaitPart(`"id":2`, "file:///work")
			}
			a.write(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"none","arguments":{}}}`)
			a.awaitPart(`"id":3`, `"error"`)
			a.nothing()
		})
	}
}

// The same server in the modern era, which it also speaks.
func TestSDKModern(t *testing.T) {
	s := sdkServer()
	a := connect(t, serve(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}), true))
	a.write(`{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{` + meta + `}}`)
	a.awaitPart(`"id":"d"`, `"2026-07-28"`)
	a.write(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`)
	a.awaitPart(`"id":1`, `"echo"`)
	a.write(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{` + meta + `,"name":"echo","arguments":{"text":"hello"}}}`)
	a.awaitPart(`"id":2`, `"hello"`)
}

// A server of the legacy era answers the probe of a modern agent at once, with its own error.
func TestSDKProbe(t *testing.T) {
	s := sdkServer()
	a := connect(t, serve(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil), true))
	a.write(`{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{` + meta + `}}`)
	a.awaitPart(`"id":"d"`, `"error"`)
	a.write(initialize)
	a.awaitPart(`"id":0`, `"result"`)
}
