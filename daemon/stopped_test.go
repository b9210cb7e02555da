package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// A daemon that is told to stop does not judge on, however long that would take: it
// ends, and what it was judging has no verdict.
func TestStoppedWhileItJudges(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {defaults: {action: forward}}\n")
	_, stop := h.start(t)
	a := h.attach(t, false)
	submit(t, a, 1, longToJudge(t))
	if v := word(t, a); v.GetAction() != pb.Action_ACTION_PENDING || v.GetReason() != "it is being judged" {
		t.Skipf("this machine is too fast for it: %v %s", v.GetAction(), v.GetReason())
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Fatal("the daemon has not ended within a minute")
	}
	for {
		down, err := a.Recv()
		if err != nil {
			break
		}
		if v := down.GetVerdict(); v.GetAction() == pb.Action_ACTION_FORWARD {
			t.Error("a call that was not judged to the end was let through")
		}
	}
}

// longToJudge is a call that takes seconds to judge on most machines.
func longToJudge(t *testing.T) string {
	t.Helper()
	deep := t.TempDir() // each path that leads there takes long to follow
	for len(deep) < 3000 {
		deep = filepath.Join(deep, "d")
	}
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	var line strings.Builder
	line.WriteString(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"paths":["end"`)
	for i := 0; line.Len() < wire.MaxMessage-8<<10; i++ {
		line.WriteString(`,"` + deep + "/" + strings.Repeat("x", i%64) + strings.Repeat("y", i/64) + `"`)
	}
	line.WriteString(`]}}}`)
	return line.String()
}

// submit asks for a verdict on a line of the agent's.
func submit(t *testing.T, a *client.Attachment, seq uint64, line string) {
	t.Helper()
	err := a.Send(&pb.Up{Msg: &pb.Up_Submit{Submit: &pb.Submit{Seq: seq, Direction: pb.Direction_DIRECTION_AGENT_TO_SERVER, Line: []byte(line)}}})
	if err != nil {
		t.Fatal(err)
	}
}
