package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// notes is an agent with a scripted server, which runs in this process.
type notes struct {
	*played
	heard rig.Buffer // read by the server
}

// serveNotes starts the server, as if by a command.
func (h *home) serveNotes(t *testing.T, command ...string) *notes {
	t.Helper()
	b := new(notes)
	b.played = h.join(t, attach.Hello{Server: "notes", Command: command}, func(in io.Reader, out io.Writer) {
		if err := fake.Serve(context.Background(), io.TeeReader(in, &b.heard), out, io.Discard, fake.ServerOptions{}); err != nil {
			t.Error("fake server:", err)
		}
	})
	return b
}

// run makes the agent call a tool. It returns the agent's answer, and whether the server got the
// call.
func (b *notes) run(tool string) (told string, executed bool) {
	b.t.Helper()
	line := b.send(callOf(tool, `{"text":"hello"}`))
	told = b.next(b.toAgent)
	return told, strings.Contains(b.heard.String(), line)
}

// tools makes the agent list the tools, and returns the names that it sees.
func (b *notes) tools() []string {
	b.t.Helper()
	b.send(`"method":"tools/list"`)
	var answer struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(b.next(b.toAgent)), &answer); err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, tool := range answer.Result.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func (b *notes) mustRun(tool string) {
	b.t.Helper()
	if told, executed := b.run(tool); !executed {
		b.t.Errorf("%s was not executed: %s", tool, told)
	}
}

func (b *notes) mustHold(tool, why string) {
	b.t.Helper()
	told, executed := b.run(tool)
	if executed || !strings.Contains(told, "Not executed. ") || !strings.Contains(told, why) || !strings.Contains(told, `"isError":true`) {
		b.t.Errorf("%s: executed %v, the agent is told %s, want %q", tool, executed, told, why)
	}
}

const forwardAll = `schema: 1
governance: {defaults: {action: forward}}
`

// waiting returns the definitions that wait for a person.
func (h *home) waiting(t *testing.T) []*pb.Pin {
	t.Helper()
	pins, err := h.control(t).ListPins(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(pins, func(p *pb.Pin) bool { return p.GetReason() == pb.PinReason_PIN_REASON_UNSPECIFIED })
}

// A server that swaps a definition, with or without notification, can't have the new tool called:
// not in this session, not after a restart of the daemon, not in another session.
//
//gotest:plain it is about what is decided, and not about when
func TestRugPull(t *testing.T) {
	for _, redefine := range []string{"redefine", "redefine_quietly"} {
		t.Run(redefine, func(t *testing.T) {
			h := newHome(t, forwardAll)
			_, stop := h.start(t)
			b := h.serveNotes(t, "fake-server")
			b.mustRun("echo") // nothing is listed yet
			if names := b.tools(); !slices.Contains(names, "echo") {
				t.Fatalf("at first sight: %q", names)
			}
			b.mustRun("echo")
			b.mustRun(redefine)
			if said := b.notices.String(); strings.Contains(said, "notifications/tools/list_changed") != (redefine == "redefine") {
				t.Fatalf("the agent was told %q", said)
			}
			if names := b.tools(); slices.Contains(names, "echo") || !slices.Contains(names, "read_note") {
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
			if err != nil || st.GetHeldDefinitions() != 1 || !strings.Contains(strings.Join(st.GetWarnings(), "\n"), `server "notes" has unaccepted definitions (1)`) {
				t.Errorf("status: %d held, %q, %v", st.GetHeldDefinitions(), st.GetWarnings(), err)
			}
			b.close()
			stop()

			h.start(t)
			other := h.serveNotes(t, "fake-server")
			other.mustHold("echo", "changed since it was accepted") // judged by the newest definition that such a server has shown
			if names := other.tools(); !slices.Contains(names, "echo") {
				t.Errorf("a server that shows the old one: %q", names)
			}
			other.mustRun("echo")
		})
	}
}

// An agent can't accept a definition or a server.
func TestAgentsDoNotAccept(t *testing.T) {
	h := newHome(t, forwardAll)
	h.start(t)
	b := h.serveNotes(t, "fake-server")
	b.tools()
	b.mustRun("redefine")
	b.tools()
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

// The same id with another command is a new server. Those of its definitions pass that are equal to
// those of the known server.
func TestStrangeLaunch(t *testing.T) {
	h := newHome(t, forwardAll)
	h.start(t)
	known := h.serveNotes(t, "fake-server")
	known.tools()
	stranger := h.serveNotes(t, "fake-server", "--other")
	if got, want := len(stranger.tools()), len(known.tools()); got != want {
		t.Errorf("the agent sees %d of %d tools that are the same", got, want)
	}
	stranger.mustRun("redefine")
	stranger.tools()
	stranger.mustHold("echo", "changed since it was accepted")
	servers, err := h.control(t).ListServers(t.Context())
	if err != nil || len(servers) != 2 || servers[0].GetNew() || !servers[1].GetNew() {
		t.Errorf("servers: %v, %v", servers, err)
	}
	found := false
	for _, r := range h.records(t, "pin") {
		found = found || strings.Contains(string(r.GetLine()), `"verdict":"stranger"`)
	}
	if !found {
		t.Error("the stranger is not on record")
	}
}

// The pin mode takes effect at the reload.
//
//gotest:plain it is about what is decided, and not about when
func TestPinModesAreReloaded(t *testing.T) {
	h := newHome(t, forwardAll+"pins: {mode: warn}\n")
	d, _ := h.start(t)
	b := h.serveNotes(t, "fake-server")
	b.tools()
	b.mustRun("redefine")
	b.tools()
	b.mustRun("echo")
	h.write(t, forwardAll)
	d.Reload(t.Context(), "test")
	b.mustHold("echo", "tgctl tools diff")
	h.write(t, forwardAll+"pins: {mode: off}\n")
	d.Reload(t.Context(), "test")
	b.mustRun("echo")
}

// Cedar sees the annotations of the accepted definition.
//
//gotest:plain it is about what is decided, and not about when
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
	b := h.serveNotes(t, "fake-server")
	if _, executed := b.run("read_note"); executed {
		t.Error("read_note was permitted before any list")
	}
	b.tools()
	b.mustRun("read_note")
	if told, executed := b.run("delete_note"); executed || !strings.Contains(told, "no policy permits it") {
		t.Errorf("delete_note: executed %v: %s", executed, told)
	}
}
