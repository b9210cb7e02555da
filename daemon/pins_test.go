package daemon_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/fake"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// bridge is what a shim does between an agent, the daemon and a scripted server:
// it asks about each call and each list, and obeys.
type bridge struct {
	t      *testing.T
	shim   *client.Attachment
	to     *json.Encoder
	from   *bufio.Scanner
	seq    uint64
	toldOf []string // notifications of the server
}

// serveFake starts a server in this process, and its shim's attachment.
func (h *home) serveFake(t *testing.T, attachment string, reattach bool, command ...string) *bridge {
	t.Helper()
	a := h.attachWith(t, &pb.Hello{
		Protocol: client.Protocol, Attachment: attachment, Reattach: reattach, Server: "notes", Command: command, Cwd: "/",
	})
	in, out := io.Pipe()
	back, answers := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- fake.Serve(context.Background(), in, answers, io.Discard, fake.ServerOptions{}) }()
	t.Cleanup(func() {
		out.Close()
		back.Close()
		if err := <-ended; err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error("fake server:", err)
		}
	})
	b := &bridge{t: t, shim: a, to: json.NewEncoder(out), from: bufio.NewScanner(back)}
	b.from.Buffer(nil, 1<<20)
	return b
}

// verdict submits a line and returns what is to be done with it.
func (b *bridge) verdict(direction pb.Direction, line []byte, answers string) *pb.Verdict {
	b.t.Helper()
	b.seq++
	err := b.shim.Send(&pb.Up{Msg: &pb.Up_Submit{Submit: &pb.Submit{Seq: b.seq, Direction: direction, Line: line, Answers: answers}}})
	if err != nil {
		b.t.Fatal(err)
	}
	return word(b.t, b.shim)
}

// ask puts a request to the server and returns its answer; notifications that
// come before it are passed on to the daemon.
func (b *bridge) ask(line []byte) []byte {
	b.t.Helper()
	if err := b.to.Encode(json.RawMessage(line)); err != nil {
		b.t.Fatal(err)
	}
	for b.from.Scan() {
		var m struct {
			ID     any
			Method string
		}
		if err := json.Unmarshal(b.from.Bytes(), &m); err != nil {
			b.t.Fatal(err)
		}
		line := append([]byte(nil), b.from.Bytes()...)
		if m.Method == "" {
			return line
		}
		b.toldOf = append(b.toldOf, m.Method)
		err := b.shim.Send(&pb.Up{Msg: &pb.Up_Observe{Observe: &pb.Observe{
			Direction: pb.Direction_DIRECTION_SERVER_TO_AGENT, Method: m.Method, Line: line,
		}}})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	b.t.Fatal("the server said nothing:", b.from.Err())
	return nil
}

// call has the agent call a tool; it returns what the agent is told, and whether
// the server was asked.
func (b *bridge) call(tool string) (told string, executed bool) {
	b.t.Helper()
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":"hello"}}}`, b.seq, tool)
	v := b.verdict(pb.Direction_DIRECTION_AGENT_TO_SERVER, line, "")
	if v.GetAction() != pb.Action_ACTION_FORWARD {
		return string(v.GetAnswer()), false
	}
	return string(b.ask(line)), true
}

// list has the agent list the tools, and returns the names it gets to see.
func (b *bridge) list() []string {
	b.t.Helper()
	line := b.ask(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, b.seq))
	v := b.verdict(pb.Direction_DIRECTION_SERVER_TO_AGENT, line, "tools/list")
	if v.GetAction() != pb.Action_ACTION_FORWARD {
		b.t.Fatalf("the list was refused: %s", v.GetReason())
	}
	if r := v.GetReplacement(); r != nil {
		line = r
	}
	var answer struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, tool := range answer.Result.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func (b *bridge) mustRun(tool string) {
	b.t.Helper()
	if told, executed := b.call(tool); !executed {
		b.t.Errorf("%s was not executed: %s", tool, told)
	}
}

func (b *bridge) mustHold(tool, why string) {
	b.t.Helper()
	told, executed := b.call(tool)
	if executed || !strings.Contains(told, "Not executed. ") || !strings.Contains(told, why) || !strings.Contains(told, `"isError":true`) {
		b.t.Errorf("%s: executed %v, the agent is told %s, want %q", tool, executed, told, why)
	}
}

const forwardAll = `schema: 1
governance: {defaults: {action: forward}}
`

// waiting returns what waits for a person.
func (h *home) waiting(t *testing.T) []*pb.Pin {
	t.Helper()
	pins, err := h.control(t).ListPins(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(pins, func(p *pb.Pin) bool { return p.GetReason() == pb.PinReason_PIN_REASON_UNSPECIFIED })
}

// A server that swaps a definition, with and without a word, cannot have the new
// tool called: not in this session, not after a restart of the daemon, not in
// another session.
func TestRugPull(t *testing.T) {
	for _, redefine := range []string{"redefine", "redefine_quietly"} {
		t.Run(redefine, func(t *testing.T) {
			h := newHome(t, forwardAll)
			_, stop := h.start(t)
			b := h.serveFake(t, attachment, false, "fake-server")
			b.mustRun("echo") // nothing was listed yet
			if names := b.list(); !slices.Contains(names, "echo") {
				t.Fatalf("at first sight: %q", names)
			}
			b.mustRun("echo")
			b.mustRun(redefine)
			if announced := slices.Contains(b.toldOf, "notifications/tools/list_changed"); announced != (redefine == "redefine") {
				t.Fatalf("the server said %q", b.toldOf)
			}
			if names := b.list(); slices.Contains(names, "echo") || !slices.Contains(names, "read_note") {
				t.Errorf("after the swap: %q", names)
			}
			b.mustHold("echo", "tgctl tools diff notes/echo")
			b.mustRun("list_notes")
			pins := h.waiting(t)
			if len(pins) != 1 || pins[0].GetRef().GetName() != "echo" || pins[0].GetReason() != pb.PinReason_PIN_REASON_CHANGED || !pins[0].GetHeld() {
				t.Fatalf("waiting: %v", pins)
			}
			diff, err := h.control(t).DiffPin(t.Context(), pins[0].GetRef())
			if err != nil || len(diff.GetChanges()) != 1 || diff.GetChanges()[0].GetPath() != "description" || diff.GetChanges()[0].GetGrade() != pb.ChangeGrade_CHANGE_GRADE_HIGH {
				t.Errorf("diff: %v, %v", diff, err)
			}
			st, err := h.control(t).Status(t.Context())
			if err != nil || st.GetHeldDefinitions() != 1 || !strings.Contains(strings.Join(st.GetWarnings(), "\n"), `server "notes" has definitions (1)`) {
				t.Errorf("status: %d held, %q, %v", st.GetHeldDefinitions(), st.GetWarnings(), err)
			}
			stop()

			h.start(t)
			again := h.serveFake(t, attachment, true, "fake-server")
			again.seq = 100
			again.mustHold("echo", "tgctl tools diff notes/echo")
			other := h.serveFake(t, strings.Repeat("b", 32), false, "fake-server")
			other.mustHold("echo", "changed since it was accepted") // the newest that a server of its kind has shown
			if names := other.list(); !slices.Contains(names, "echo") {
				t.Errorf("a server that shows the old one: %q", names)
			}
			other.mustRun("echo")
			again.mustHold("echo", "changed since it was accepted")
		})
	}
}

// Nobody at the gate accepts a definition or a server.
func TestAgentsDoNotAccept(t *testing.T) {
	h := newHome(t, forwardAll)
	h.start(t)
	b := h.serveFake(t, attachment, false, "fake-server")
	b.list()
	b.mustRun("redefine")
	b.list()
	c := h.control(t)
	p := h.waiting(t)[0]
	_, err := c.AcceptPins(t.Context(), &pb.AcceptPinsRequest{Pins: []*pb.PinAcceptance{{Ref: p.GetRef(), Definition: p.GetWaiting()}}})
	if !errors.Is(err, client.ErrForbidden) {
		t.Errorf("a definition: %v", err)
	}
	if _, err := c.AcceptServer(t.Context(), &pb.AcceptServerRequest{Id: "notes", Launch: p.GetRef().GetLaunch()}); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("a server: %v", err)
	}
	if _, err := c.DiffPin(t.Context(), &pb.PinRef{Server: "notes"}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("no such pin: %v", err)
	}
	b.mustHold("echo", "tgctl tools diff")
}

// The same id with another command is a stranger; what it offers like the one
// known passes.
func TestStrangeLaunch(t *testing.T) {
	h := newHome(t, forwardAll)
	h.start(t)
	known := h.serveFake(t, attachment, false, "fake-server")
	known.list()
	stranger := h.serveFake(t, strings.Repeat("b", 32), false, "fake-server", "--other")
	if got, want := len(stranger.list()), len(known.list()); got != want {
		t.Errorf("the agent sees %d of %d tools that are the same", got, want)
	}
	stranger.mustRun("redefine")
	stranger.list()
	stranger.mustHold("echo", "changed since it was accepted")
	servers, err := h.control(t).ListServers(t.Context())
	if err != nil || len(servers) != 2 || servers[0].GetStranger() || !servers[1].GetStranger() {
		t.Errorf("servers: %v, %v", servers, err)
	}
	found := false
	for r, err := range h.control(t).ReadAudit(t.Context(), &pb.AuditQuery{Kind: "pin"}) {
		if err != nil {
			t.Fatal(err)
		}
		found = found || strings.Contains(string(r.GetLine()), `"verdict":"stranger"`)
	}
	if !found {
		t.Error("the stranger is not on record")
	}
}

// What the configuration says of pins holds from the reload on.
func TestPinModesAreReloaded(t *testing.T) {
	h := newHome(t, forwardAll+"pins: {mode: warn}\n")
	d, _ := h.start(t)
	b := h.serveFake(t, attachment, false, "fake-server")
	b.list()
	b.mustRun("redefine")
	b.list()
	b.mustRun("echo")
	h.write(t, forwardAll)
	d.Reload(t.Context(), "test")
	b.mustHold("echo", "tgctl tools diff")
	h.write(t, forwardAll+"pins: {mode: off}\n")
	d.Reload(t.Context(), "test")
	b.mustRun("echo")
}

// Cedar sees the annotations of the definition that was accepted.
func TestAnnotationsReachCedar(t *testing.T) {
	h := newHome(t, `schema: 1
governance:
  rules: [{match: "*_note", action: policy}]
cedar: {policies: ["*.cedar"]}
`)
	h.writeBeside(t, "notes.cedar", `permit (principal, action, resource)
when { context.annotations has readOnlyHint && context.annotations.readOnlyHint == true };
`)
	h.start(t)
	b := h.serveFake(t, attachment, false, "fake-server")
	if _, executed := b.call("read_note"); executed {
		t.Error("read_note was permitted before any list")
	}
	b.list()
	b.mustRun("read_note")
	if told, executed := b.call("delete_note"); executed || !strings.Contains(told, "no policy permits it") {
		t.Errorf("delete_note: executed %v: %s", executed, told)
	}
}
