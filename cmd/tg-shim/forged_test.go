package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// joinAs attaches a program of the test's to the server of p, as a shim would.
func (p *pair) joinAs(h *rig.House, id, server string) *client.Attachment {
	p.t.Helper()
	c, err := client.Dial(p.t.Context(), client.WithSocket(h.Socket()))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.Server.PID))
	if err != nil {
		p.t.Skip("needs /proc")
	}
	argv := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	a, err := c.Attach(p.t.Context(), &pb.Hello{
		Protocol: client.Protocol, Attachment: "attachment of " + id, Server: server,
		Executable: argv[0], Command: argv, Cwd: h.Path("work"),
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(a.Close)
	return a
}

// opening is how a shim of the house opens the way to its server.
func opening(h *rig.House) *pb.Up {
	open := &pb.Open{}
	for _, entry := range h.Env {
		open.Env = append(open.Env, []byte(entry))
	}
	return &pb.Up{Msg: &pb.Up_Open{Open: open}}
}

func writing(seq uint64, line string) *pb.Up {
	return &pb.Up{Msg: &pb.Up_Write{Write: &pb.Write{Seq: seq, Line: []byte(line)}}}
}

// A client that reads nothing of what it asks for is given up. The others are
// served all the time.
func TestSharedSlowReader(t *testing.T) {
	t.Parallel()
	h := newHouse(t, shareAll)
	h.StartDaemon()
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.greet()
	slow := p.joinAs(h, "one that does not read", "x")
	must := func(up *pb.Up) {
		t.Helper()
		if err := slow.Send(up); err != nil {
			t.Fatal(err)
		}
	}
	must(opening(h))
	must(writing(1, hello))
	must(writing(2, `{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	large := `{"tools":[],"x":"` + strings.Repeat("x", 1<<20) + `"}`
	asked := make([]string, 24) // MiB, more than is kept
	for i := range asked {
		must(writing(uint64(3+i), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/templates/list"}`, i)))
		asked[i] = p.serverNext("resources/templates/list")
	}
	for i, request := range asked {
		p.answer(request, large)
		p.agent(calls("echo", fmt.Sprint(100+i))...)
		call := next(t, p.Server.Inbox, &p.seenServer)
		for strings.Contains(call, "notifications/cancelled") { // for what was given up
			call = next(t, p.Server.Inbox, &p.seenServer)
		}
		p.answer(call, `{"content":[]}`)
		p.agentReads(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[]}}`, 100+i))
	}
	for {
		down, err := slow.Recv()
		if err != nil {
			t.Fatalf("the slow one is not told: %v", err)
		}
		if gone := down.GetGone(); gone != nil {
			if !gone.GetStarted() || !strings.Contains(gone.GetReason(), "does not read") {
				t.Errorf("it is told %v", gone)
			}
			return
		}
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
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"denied"}}`
	submit := func(side pb.Direction) *pb.Up {
		return &pb.Up{Msg: &pb.Up_Submit{Submit: &pb.Submit{Seq: 1, Direction: side, Line: []byte(call)}}}
	}
	open, write := opening(h), writing
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
			a, err := p.joinAs(h, name, server), error(nil)
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

// What the configuration shares is what is started: a shim that comes back with
// another command line gets nothing.
func TestForgedReturn(t *testing.T) {
	t.Parallel()
	h := newHouse(t, strings.Replace(shareAll, `id: "*"`, `id: "x"`, 1))
	h.StartDaemon()
	p := &pair{Shim: h.Shim(t, rig.Options{}), t: t}
	p.greet()
	p.joinAs(h, "back as another", "x")
	c, err := client.Dial(t.Context(), client.WithSocket(h.Socket()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	marker := h.Path("work", "started")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // one that is let in waits for its server
	defer cancel()
	a, err := c.Attach(ctx, &pb.Hello{
		Protocol: client.Protocol, Attachment: "attachment of back as another", Server: "x", Reattach: true,
		Executable: "/bin/sh", Command: []string{"/bin/sh", "-c", "touch " + marker}, Cwd: h.Path("work"),
	})
	if err == nil {
		t.Cleanup(a.Close)
		_ = a.Send(opening(h)) // Recv says why it fails
	}
	for err == nil {
		_, err = a.Recv()
	}
	if err = client.FromStatus(err); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("the stream ends with %v", err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("another program was started")
	}
}
