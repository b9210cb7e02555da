package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
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
	if p.Server.Gone(0) {
		t.Error("the server ended with one of its clients")
	}
}

// What an agent asked for before it hung up is answered.
func TestSharedHangUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t, shareAll)
	h.StartDaemon()
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.greet()
	p.agent(calls("echo", "1")...)
	request := p.serverNext("tools/call")
	p.HangUp()
	p.answer(request, `{"content":[]}`)
	p.agentReads(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	p.ends(0, rig.Patience)
}

// A shared server that can't be started is told of in each answer, as one of the
// shim's own is.
func TestSharedNotStarted(t *testing.T) {
	t.Parallel()
	h := newHouse(t, shareAll)
	h.StartDaemon()
	p := startPair(t, h, rig.Options{Command: []string{"no-such-server"}})
	p.agent(hello)
	p.agent(calls("echo", "1")...)
	p.agentReadsErrors(-31011, `"init"`, "1")
	p.ends(127, rig.Patience)
	gone := h.Path("work/gone")
	if err := os.WriteFile(gone, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p = startPair(t, h, rig.Options{Command: []string{gone}})
	p.agent(hello)
	if line := p.next(); !strings.Contains(line, `"code":-3101`) || !strings.Contains(line, `"id":"init"`) {
		t.Errorf("a program that can't be run: %s", line)
	}
}

// The server dies: what it was asked is answered with an error, and the next call
// comes to the next one.
func TestSharedServerDies(t *testing.T) {
	t.Parallel()
	h := newHouse(t, shareAll)
	h.StartDaemon()
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.greet()
	p.agent(calls("echo", "1")...)
	p.serverNext("tools/call")
	p.Server.Kill()
	p.agentReadsErrors(-31012, "1")
	p.agent(calls("echo", "2")...)
	p.again()
	p.answer(p.serverNext("tools/call"), `{"content":[]}`)
	p.agentReads(`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`)
}

// again waits for the next server, and shakes hands with it.
func (p *pair) again() {
	p.t.Helper()
	p.Server, p.seenServer = nil, 0
	p.join()
	p.answer(p.serverNext("initialize"), welcome)
	p.serverReads(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// The daemon is killed, and the server with it. The agent gets an error for what
// was with the server, and goes on with the next one as if nothing had been.
func TestSharedDaemonDies(t *testing.T) {
	t.Parallel()
	h := newHouse(t, strings.Replace(shareAll, "reattach: 1s", "reattach: 30s", 1))
	h.StartDaemon()
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.greet()
	p.agent(`{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"a://b"}}`)
	p.answer(p.serverNext("resources/subscribe"), `{}`)
	p.agentReads(`{"jsonrpc":"2.0","id":9,"result":{}}`)
	p.agent(calls("held", `"h"`)...)
	p.agent(calls("echo", "1")...)
	p.serverNext("tools/call")
	old := p.Server
	h.KillDaemon()
	if !old.Gone(rig.Patience) {
		t.Fatal("the server outlives the daemon")
	}
	p.agent(calls("denied", "3")...)
	h.StartDaemon()
	p.agentReadsErrors(-31012, "1")
	if line := p.next(); !strings.Contains(line, `"id":3,"result":{`) || !strings.Contains(line, `"isError":true`) {
		t.Errorf("the denied call: %s", line)
	}
	p.again()
	p.answer(p.serverNext("resources/subscribe"), `{}`)
	p.server(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://b"}}`)
	p.agentReads(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://b"}}`)
	p.agent(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"h"}}`)
	p.agent(calls("echo", "4")...)
	p.answer(p.serverNext("tools/call"), `{"content":[]}`)
	p.agentReads(`{"jsonrpc":"2.0","id":4,"result":{"content":[]}}`)
}

// A session that ends drains its shims: what the server was asked is answered.
func TestSharedDrain(t *testing.T) {
	t.Parallel()
	h := newHouse(t, shareAll)
	h.StartDaemon()
	c, err := client.Dial(t.Context(), client.WithSocket(h.Path("run/thoughtgate/control.sock")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	session, err := c.OpenSession(t.Context(), &pb.SessionSpec{Id: "00112233445566778899aabbccddeeff", Agent: "custom", Project: h.Path("work")})
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{Shim: h.Shim(t, rig.Options{Env: []string{"THOUGHTGATE_SESSION=00112233445566778899aabbccddeeff"}}), t: t}
	p.greet()
	p.agent(calls("echo", "1")...)
	request := p.serverNext("tools/call")
	closed := make(chan error, 1)
	go func() {
		out, err := session.Close(t.Context())
		if err == nil && out.GetDrained() != 1 {
			err = fmt.Errorf("%d shims drained, want 1", out.GetDrained())
		}
		closed <- err
	}()
	p.answer(request, `{"content":[]}`)
	p.agentReads(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	p.ends(0, rig.Patience)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// Whoever speaks on the shims' socket gets nothing to a shared server that was not
// judged, and starts none that is not to be shared.
func TestForgedShim(t *testing.T) {
	t.Parallel()
	h := newHouse(t, strings.Replace(shareAll, `id: "*"`, `id: "x"`, 1))
	h.StartDaemon()
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.greet()
	c, err := client.Dial(t.Context(), client.WithSocket(h.Socket()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.Server.PID))
	if err != nil {
		t.Skip("needs /proc")
	}
	argv := strings.Split(strings.TrimSuffix(string(command), "\x00"), "\x00")
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"denied"}}`
	write := func(seq uint64, line string) *pb.Up {
		return &pb.Up{Msg: &pb.Up_Write{Write: &pb.Write{Seq: seq, Line: []byte(line)}}}
	}
	submit := func(side pb.Direction) *pb.Up {
		return &pb.Up{Msg: &pb.Up_Submit{Submit: &pb.Submit{Seq: 1, Direction: side, Line: []byte(call)}}}
	}
	var env [][]byte
	for _, entry := range h.Env {
		env = append(env, []byte(entry))
	}
	open := &pb.Up{Msg: &pb.Up_Open{Open: &pb.Open{Env: env}}}
	for name, forged := range map[string][]*pb.Up{
		"not submitted":               {open, write(1, call)},
		"refused":                     {open, submit(pb.Direction_DIRECTION_AGENT_TO_SERVER), write(1, call)},
		"judged as a server's":        {open, submit(pb.Direction_DIRECTION_SERVER_TO_AGENT), write(1, call)},
		"judged as both":              {open, submit(pb.Direction_DIRECTION_SERVER_TO_AGENT), submit(pb.Direction_DIRECTION_AGENT_TO_SERVER)},
		"behind one that passes":      {open, write(1, hello), write(2, call)},
		"within one that passes":      {open, write(1, `{"jsonrpc":"2.0","id":2,"x":`+"\n"+call+"\n"+`,"method":"ping"}`)},
		"before the way is open":      {write(1, call)},
		"a server that is not shared": {open},
	} {
		t.Run(name, func(t *testing.T) {
			server := "x"
			if strings.Contains(name, "not shared") {
				server = "y"
			}
			a, err := c.Attach(t.Context(), &pb.Hello{
				Protocol: client.Protocol, Attachment: "attachment of " + name, Server: server,
				Executable: argv[0], Command: argv, Cwd: h.Path("work"),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			for _, up := range forged {
				_ = a.Send(up) // Recv says why it fails
			}
			for err == nil {
				_, err = a.Recv()
			}
			if err = client.FromStatus(err); !errors.Is(err, client.ErrForbidden) && !errors.Is(err, client.ErrInvalid) {
				t.Errorf("the stream ends with %v", err)
			}
		})
	}
	p.agent(calls("echo", "7")...)
	p.answer(p.serverNext("tools/call"), `{"content":[]}`) // and no other before it
	p.agentReads(`{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`)
}
