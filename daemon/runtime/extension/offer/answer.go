package offer

import (
	"context"
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// modernRevision is the revision of MCP without a handshake.
const modernRevision = "2026-07-28"

// uncached are the members that tell a client of the modern era not to share or cache a result.
const uncached = `"ttlMs":0,"cacheScope":"private",`

// request answers one request of the agent. m.mu must be held.
func (m *Member) request(line []byte, e *wire.Envelope) {
	id := e.ID.Of(line)
	if refusal := mcp.Check(wire.FromAgent, e, line); refusal != nil {
		m.deliver(mcp.RefuseUnread(id, refusal.Code, refusal.Reason))
		return
	}
	switch {
	case !mcp.KnownRevision(e, line):
		m.deliver(mcp.RefuseRevision(line, e, []string{modernRevision}))
	case e.Method == "initialize" && !e.Modern:
		m.legacyHandshakeDone = true
		m.result(id, m.server.about(`"protocolVersion":`+revision(line, e)), false)
	case e.Method == "ping" && !e.Modern:
		m.result(id, []byte("{}"), false)
	case e.Method == "server/discover":
		m.result(id, m.server.about(uncached+`"supportedVersions":["`+modernRevision+`"]`), true)
	case e.Method == "tools/list" && e.Modern:
		m.result(id, m.server.list(uncached), true)
	case e.Method == "tools/list":
		m.result(id, m.server.list(""), false)
	case e.Method == "tools/call":
		m.call(line, e)
	case e.Method == "subscriptions/listen" && e.Modern:
		m.listen(line, e)
	default:
		m.deliver(mcp.RefuseUnread(id, mcp.CodeUnknownMethod, "Method not found"))
	}
}

// revision returns the legacy revision for an agent as raw JSON: the one that it asks for, or
// the newest.
func revision(line []byte, e *wire.Envelope) string {
	legacy := slices.DeleteFunc(mcp.Revisions(), func(v string) bool { return v == modernRevision })
	asked, err := wire.Member(line, e.Params, "protocolVersion")
	if err == nil && asked.Present() {
		if v, err := wire.Unquote(asked, line); err == nil && slices.Contains(legacy, v) {
			return fmt.Sprintf("%q", v)
		}
	}
	return fmt.Sprintf("%q", legacy[len(legacy)-1])
}

// about returns the result of either handshake; version holds the members about the version.
func (s *Server) about(version string) []byte {
	dst := append([]byte("{"), version...)
	dst = append(dst, `,"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":`...)
	dst = wire.AppendQuote(dst, ID(s.name))
	dst = wire.AppendQuote(append(dst, `,"version":`...), s.extension.Version())
	return append(dst, "}}"...)
}

// list returns the result that lists all tools, after the given members.
func (s *Server) list(members string) []byte {
	dst := []byte(`{` + members + `"tools":[`)
	for i, t := range s.extension.Tools() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = wire.AppendQuote(append(dst, `{"name":`...), t.Name)
		dst = wire.AppendQuote(append(dst, `,"description":`...), t.Description)
		dst = append(dst, `,"inputSchema":`...)
		dst = append(append(dst, t.InputSchema...), '}')
	}
	return append(dst, "]}"...)
}

// call has a tool called. m.mu must be held.
func (m *Member) call(line []byte, e *wire.Envelope) {
	id := e.ID.Of(line)
	tool, err := mcp.SubjectOf(e, line)
	if err != nil {
		m.deliver(mcp.RefuseUnread(id, mcp.CodeInvalidParams, err.Error()))
		return
	}
	if !slices.ContainsFunc(m.server.extension.Tools(), func(t protocol.Tool) bool { return t.Name == tool }) {
		m.deliver(mcp.RefuseUnread(id, mcp.CodeInvalidParams, "Unknown tool: "+tool))
		return
	}
	input := []byte("{}")
	if e.Arguments.Present() {
		input = e.Arguments.Of(line)
	}
	c, ctx := m.open(id)
	if c == nil {
		return
	}
	modern := e.Modern
	m.work.Go(func() {
		result, err := m.server.extension.Call(ctx, tool, input)
		if err == nil {
			result, err = protocol.CheckResult(result)
		}
		if err != nil {
			result = failed("Tool execution failed: " + err.Error())
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.close(c) {
			m.result(id, result, modern)
		}
	})
}

// open registers a request that is answered later. If that fails, it answers with an error and
// returns nil. m.mu must be held.
func (m *Member) open(id []byte) (*call, context.Context) {
	key, err := wire.Key(id)
	if err != nil || m.running[key] != nil {
		m.deliver(mcp.RefuseUnread(id, mcp.CodeInvalid, "a request with this id is already open"))
		return nil, nil
	}
	if len(m.running) >= maxPendingRequests {
		m.deliver(mcp.RefuseUnread(id, mcp.CodeGate, fmt.Sprintf("more than %d requests are open", maxPendingRequests)))
		return nil, nil
	}
	c := &call{id: id}
	var ctx context.Context
	ctx, c.cancel = context.WithCancelCause(m.ctx)
	m.running[key] = c
	return c, ctx
}

// close removes a request and reports whether it still expects an answer. m.mu must be held.
func (m *Member) close(c *call) bool {
	c.cancel(nil)
	key, err := wire.Key(c.id)
	if err != nil || m.running[key] != c || m.left {
		return false
	}
	delete(m.running, key)
	return true
}

// listen opens a subscription. It stays open until the agent cancels it if it covers changes of
// the tools, and ends at once otherwise. m.mu must be held.
func (m *Member) listen(line []byte, e *wire.Envelope) {
	id := e.ID.Of(line)
	c, _ := m.open(id)
	if c == nil {
		return
	}
	wants, err := wire.Member(line, e.Notifications, "toolsListChanged")
	c.wantsList = err == nil && string(wants.Of(line)) == "true"
	granted := ""
	if c.wantsList {
		granted = `"toolsListChanged":true`
	}
	m.deliver(notification("notifications/subscriptions/acknowledged", id, `"notifications":{`+granted+`}`))
	if !c.wantsList && m.close(c) {
		m.result(id, append(mark([]byte("{"), id), '}'), true)
	}
}

// notification returns a notification of the subscription id; params holds its other members.
func notification(method string, id []byte, params string) []byte {
	dst := mark(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{`, method), id)
	if params != "" {
		dst = append(append(dst, ','), params...)
	}
	return append(dst, "}}"...)
}

// mark appends the member that names a subscription.
func mark(dst, id []byte) []byte {
	dst = append(dst, `"_meta":{"io.modelcontextprotocol/subscriptionId":`...)
	return append(append(dst, id...), '}')
}

// result delivers the result of the request id. m.mu must be held.
func (m *Member) result(id, result []byte, modern bool) {
	dst := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	dst = append(dst, `,"result":`...)
	if modern {
		var err error
		if result, err = rawjson.Set(result, "resultType", []byte(`"complete"`)); err != nil {
			m.deliver(mcp.RefuseUnread(id, mcp.CodeInternal, err.Error()))
			return
		}
	}
	if line := append(append(dst, result...), '}'); len(line) <= wire.MaxMessage {
		m.deliver(line)
		return
	}
	m.deliver(mcp.RefuseUnread(id, mcp.CodeInternal, "the extension's answer is too long for a message"))
}

// failed returns a result that tells a model what went wrong.
func failed(text string) []byte {
	return append(wire.AppendQuote([]byte(`{"content":[{"type":"text","text":`), text), `}],"isError":true}`...)
}
