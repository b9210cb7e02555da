package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/rig"
)

// shareAll is forwardAll with one process for each server.
const shareAll = forwardAll + `
sources:
  - {id: "*", shared: true}
`

const (
	hello   = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	welcome = `{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true},"logging":{}},"serverInfo":{"name":"s","version":"1"}}`
)

// greet shakes hands. Ids at the server are the pool's.
func (p *pair) greet() {
	p.t.Helper()
	p.agent(hello)
	p.join()
	p.answer(p.serverNext("initialize"), welcome)
	p.agentReads(`{"jsonrpc":"2.0","id":"init","result":` + welcome + `}`)
	p.agent(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.serverReads(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// serverNext is the request for method that the server reads next.
func (p *pair) serverNext(method string) string {
	p.t.Helper()
	got := next(p.t, p.Server.Inbox, &p.seenServer)
	if !strings.Contains(got, fmt.Sprintf(`"method":%q`, method)) {
		p.t.Fatalf("the server reads %.300s, want %s\n%s", got, method, p.Stderr())
	}
	return got
}

// answer has the server answer a request.
func (p *pair) answer(request, result string) {
	p.t.Helper()
	_, rest, _ := strings.Cut(request, `"id":`)
	id, _, _ := strings.Cut(rest, `,`)
	p.server(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
}

func TestShared(t *testing.T) {
	t.Parallel()
	h := newHouse(t, shareAll)
	h.StartDaemon()
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.greet()
	p.agent(calls("echo", "1")...)
	p.answer(p.serverNext("tools/call"), `{"content":[]}`)
	p.agentReads(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	p.agent(calls("denied", "2")...)
	if line := p.next(); !strings.Contains(line, `"isError":true`) {
		t.Errorf("the denied call: %s", line)
	}
	p.HangUp()
	p.ends(0, rig.Patience)
}
