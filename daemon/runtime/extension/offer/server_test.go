package offer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// notes is an extension with three tools.
type notes struct {
	mu      sync.Mutex
	tools   []protocol.Tool
	started chan string // names of the calls of slow, as they begin
}

func newNotes() *notes {
	return &notes{started: make(chan string, 8), tools: []protocol.Tool{
		{Name: "add", Description: "Add a note", InputSchema: []byte(`{"type":"object"}`)}, tool("slow"), tool("broken"), tool("odd"),
	}}
}

func (n *notes) Version() string { return "1.0" }

func (n *notes) Tools() []protocol.Tool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tools
}

func (n *notes) set(tools ...protocol.Tool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tools = tools
}

func (n *notes) Call(ctx context.Context, tool string, input []byte) ([]byte, error) {
	switch tool {
	case "add":
		return fmt.Appendf(nil, "{\"content\":\n[{\"type\":\"text\",\"text\":%q}]}\r\n", "added "+string(input)), nil
	case "odd":
		return []byte(string(input)[len(`{"raw":`) : len(input)-1]), nil
	case "slow":
		n.started <- tool
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return nil, errors.New("the extension has ended")
}

func tool(name string) protocol.Tool {
	return protocol.Tool{Name: name, InputSchema: []byte(`{"type":"object"}`)}
}

// agent is a member and what was delivered to it.
type agent struct {
	*Member
	t    *testing.T
	mail chan string
}

func join(t *testing.T, s *Server) *agent {
	a := &agent{t: t, mail: make(chan string, 64)}
	a.Member = s.Join(func(line []byte) { a.mail <- string(line) })
	t.Cleanup(a.Leave)
	return a
}

func (a *agent) says(line string) {
	a.t.Helper()
	if err := a.Write(context.Background(), []byte(line)); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) hears() string {
	a.t.Helper()
	select {
	case line := <-a.mail:
		if strings.ContainsAny(line, "\r\n") {
			a.t.Errorf("delivered more than a line: %q", line)
		}
		var e wire.Envelope
		if err := wire.Read([]byte(line), wire.FromServer, &e); err != nil {
			a.t.Errorf("delivered %s, which a shim would refuse: %v", line, err)
		}
		return line
	case <-time.After(time.Minute):
		a.t.Fatal("nothing was delivered")
		return ""
	}
}

// silent checks that nothing was delivered before the answer to a ping.
func (a *agent) silent() {
	a.t.Helper()
	a.says(`{"jsonrpc":"2.0","id":"silent","method":"ping"}`)
	if got := a.hears(); got != `{"jsonrpc":"2.0","id":"silent","result":{}}` {
		a.t.Errorf("delivered %s", got)
	}
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`

func TestAnswers(t *testing.T) {
	const tools = `"tools":[{"name":"add","description":"Add a note","inputSchema":{"type":"object"}},{"name":"slow","description":"","inputSchema":{"type":"object"}},` +
		`{"name":"broken","description":"","inputSchema":{"type":"object"}},{"name":"odd","description":"","inputSchema":{"type":"object"}}]`
	const about = `"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"ext-notes","version":"1.0"}`
	odd := func(raw string) string {
		return `"method":"tools/call","params":{"name":"odd","arguments":{"raw":` + raw + `}}`
	}
	tests := []struct{ name, request, want string }{
		{"initialize", `"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}`, `"result":{"protocolVersion":"2025-06-18",` + about + `}`},
		{"initialize with the oldest", `"method":"initialize","params":{"protocolVersion":"2024-11-05"}`, `"result":{"protocolVersion":"2024-11-05",` + about + `}`},
		{"initialize with an unknown revision", `"method":"initialize","params":{"protocolVersion":"1999-01-01"}`, `"result":{"protocolVersion":"2025-11-25",` + about + `}`},
		{"initialize with a modern one", `"method":"initialize","params":{"protocolVersion":"2026-07-28"}`, `"result":{"protocolVersion":"2025-11-25",` + about + `}`},
		{"discover", `"method":"server/discover","params":{` + modernMeta + `}`, `"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],` + about + `}`},
		{"an unknown revision", `"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2030-01-01"}}`, `"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2030-01-01"}}`},
		{"ping", `"method":"ping"`, `"result":{}`},
		{"list", `"method":"tools/list"`, `"result":{` + tools + `}`},
		{"list, modern", `"method":"tools/list","params":{` + modernMeta + `}`, `"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + tools + `}`},
		{"call", `"method":"tools/call","params":{"name":"add","arguments":{"n":1.0}}`, `"result":{"content":[{"type":"text","text":"added {\"n\":1.0}"}]}`},
		{"call, modern", `"method":"tools/call","params":{"name":"add",` + modernMeta + `}`, `"result":{"resultType":"complete","content":[{"type":"text","text":"added {}"}]}`},
		{"call without arguments", `"method":"tools/call","params":{"name":"add"}`, `"result":{"content":[{"type":"text","text":"added {}"}]}`},
		{"an unknown tool", `"method":"tools/call","params":{"name":"nothing"}`, `"error":{"code":-32602,"message":"Unknown tool: nothing"}`},
		{"a call without a name", `"method":"tools/call","params":{}`, `"error":{"code":-32602,`},
		{"a failing call", `"method":"tools/call","params":{"name":"broken"}`, `"result":{"content":[{"type":"text","text":"Tool execution failed: the extension has ended"}],"isError":true}`},
		{"a result that is none", odd(`3`), `"text":"Tool execution failed: the result of the tool: not a JSON object"`},
		{"a result without content", odd(`{}`), `Tool execution failed: the result of the tool: the content array is missing`},
		{"a result with other members", odd(`{"content":[],"isError":true,"structuredContent":{"a":1}}`), `"result":{"content":[],"isError":true,"structuredContent":{"a":1}}`},
		{"resources", `"method":"resources/list"`, `"error":{"code":-32601,"message":"Method not found"}`},
		{"an unknown method", `"method":"x/y"`, `"error":{"code":-32601,"message":"Method not found"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := join(t, NewServer("notes", newNotes()))
			a.says(`{"jsonrpc":"2.0","id":7,` + test.request + `}`)
			if got := a.hears(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":7,`) || !strings.Contains(got, test.want) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			a.silent()
		})
	}
}

// TestUnanswered: what is no request gets no answer.
func TestUnanswered(t *testing.T) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`,
		`{"jsonrpc":"2.0","id":3,"result":{}}`,
		`not a message`,
	} {
		a := join(t, NewServer("notes", newNotes()))
		a.says(line)
		a.silent()
	}
}

// TestCancel: a cancelled call ends without an answer.
func TestCancel(t *testing.T) {
	n := newNotes()
	a := join(t, NewServer("notes", n))
	a.says(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"slow"}}`)
	<-n.started
	a.says(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`) // another id
	a.says(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"slow"}}`)
	if got := a.hears(); !strings.Contains(got, "a request with this id is already open") {
		t.Errorf("got %s", got)
	}
	a.says(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`)
	a.work.Wait()
	a.silent()
}

// TestLeave: after a member has left nothing is delivered to it, and others are not affected.
func TestLeave(t *testing.T) {
	n := newNotes()
	s := NewServer("notes", n)
	a, b := join(t, s), join(t, s)
	a.says(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`)
	<-n.started
	if got := s.Members(); got != 2 {
		t.Errorf("%d members, want 2", got)
	}
	a.Leave()
	if err := a.Write(context.Background(), []byte(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)); !errors.Is(err, ErrLeft) {
		t.Errorf("write: %v, want %v", err, ErrLeft)
	}
	select {
	case line := <-a.mail:
		t.Errorf("told %s after it has left", line)
	default:
	}
	b.silent()
	if got := s.Members(); got != 1 {
		t.Errorf("%d members, want 1", got)
	}
}

// TestChanged: members are notified of changed tools if possible.
func TestChanged(t *testing.T) {
	n := newNotes()
	s := NewServer("notes", n)
	silent, legacy, modern := join(t, s), join(t, s), join(t, s)
	legacy.says(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	legacy.hears()
	resumed := join(t, s)
	resumed.Resume([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`))
	silent.Resume([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	listen := func(id, what string) {
		modern.says(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{` + modernMeta + `,"notifications":{` + what + `}}}`)
	}
	listen(`"s"`, `"toolsListChanged":true,"promptsListChanged":true`)
	if got, want := modern.hears(), `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s"},"notifications":{"toolsListChanged":true}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	listen(`2`, `"promptsListChanged":true`) // not supported
	if got, want := modern.hears(), `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2},"notifications":{}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := modern.hears(), `{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":2}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	n.set(tool("new"))
	s.Changed()
	if got, want := legacy.hears(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := modern.hears(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := resumed.hears(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	modern.says(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}`)
	s.Changed()
	legacy.hears()
	modern.silent()
	silent.silent()
}

// TestMostOpen: the number of pending requests is limited.
func TestMostOpen(t *testing.T) {
	a := join(t, NewServer("notes", newNotes()))
	for i := range maxPendingRequests {
		a.says(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{%s,"notifications":{"toolsListChanged":true}}}`, i, modernMeta))
		a.hears()
	}
	a.says(`{"jsonrpc":"2.0","id":"more","method":"tools/call","params":{"name":"add"}}`)
	if got := a.hears(); !strings.Contains(got, "more than 256 requests are open") {
		t.Errorf("got %s", got)
	}
}

// TestBook: agents find the tools of an extension by its name and are notified of changes.
func TestBook(t *testing.T) {
	n := newNotes()
	b := NewRegistry(func(name string) (Extension, bool) { return n, name == "notes" })
	if _, err := b.Join("gone", func([]byte) {}); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("an extension that is not there: %v", err)
	}
	mail := make(chan string, 8)
	m, err := b.Join("notes", func(line []byte) { mail <- string(line) })
	if err != nil {
		t.Fatal(err)
	}
	m.Resume([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`))
	b.Changed()
	if got := <-mail; !strings.Contains(got, "list_changed") {
		t.Errorf("got %s", got)
	}
	if here, gone := b.Members("notes"), b.Members("gone"); here != 1 || gone != 0 {
		t.Errorf("members: %d, %d", here, gone)
	}
	m.Leave()
	if here := b.Members("notes"); here != 0 {
		t.Errorf("members after the end: %d", here)
	}
}
