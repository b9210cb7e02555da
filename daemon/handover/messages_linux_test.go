package handover_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// stores is how many messages have a session's descriptors kept: one for each, and one that asks
// whether they have arrived.
const stores = keep.PerSession + 1

// A daemon is killed between any two of its messages to who keeps descriptors: while it has a
// session kept, while it drops an earlier attempt of the same tg-shim, while the session ends. The
// next daemon is killed, too. The call is executed, answered and on record all the same.
func TestKilledBetweenMessages(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Configure(rig.Configuration)
	h.StartDaemon()
	all := [][]int{}
	for n := 1; n <= 2*stores; n++ {
		all = append(all, []int{n})
		if !testing.Short() {
			all = append(all, []int{stores, n}, []int{1 + n*7%stores, n})
		}
	}
	for i, after := range all {
		server := fmt.Sprint("s", i)
		if err := callThroughKills(t, h, server, i%2 == 0, after); err != nil {
			t.Fatalf("killed after %d messages: %v", after, err)
		}
		calls, outcomes := 0, 0
		for r, err := range control(t, h).ReadAudit(t.Context(), &pb.AuditQuery{Server: server}) {
			switch line := string(r.GetLine()); {
			case err != nil:
				t.Fatal(err)
			case strings.Contains(line, `"kind":"call"`):
				calls++
			case strings.Contains(line, `"kind":"outcome"`):
				outcomes++
			case strings.Contains(line, "corrupt"):
				t.Errorf("killed after %d messages: on record is %s", after, line)
			}
		}
		if calls != 1 || outcomes != 1 {
			t.Errorf("killed after %d messages: on record are %d calls and %d outcomes, want one of each", after, calls, outcomes)
		}
		awaitKept(t, h, 0)
	}
}

// callThroughKills has an agent make a call and leave. The daemon is killed after so many messages, the
// next one after so many, and so on.
func callThroughKills(t *testing.T, h *rig.Fixture, server string, sockets bool, after []int) error {
	t.Helper()
	arm := func() (spare func() bool) {
		if len(after) == 0 {
			return func() bool { return false }
		}
		n := after[0]
		after = after[1:]
		return h.KillDaemonAfter(n)
	}
	spare := arm()
	restart := func() {
		<-h.Daemon.Ended()
		h.StartDaemon()
		spare = arm()
	}
	p := &pair{Shim: h.Shim(t, rig.Options{Server: server, Sockets: sockets, Before: rig.Launcher()}), t: t}
	left := make(chan error, 1)
	go func() { left <- p.callOnce() }() // ends with the shim
	for {
		select {
		case <-h.Daemon.Ended():
			restart()
		case err := <-left:
			for spare() {
				restart()
			}
			return err
		}
	}
}

// callOnce has the agent make a call, which the server answers, and leave.
func (p *pair) callOnce() error {
	if err := p.Join(); err != nil {
		return fmt.Errorf("%w\n%s", err, p.Stderr())
	}
	any := func([]byte) bool { return true }
	err := p.Send([]byte(p.call(1, "echo") + "\n"))
	if err == nil {
		_, err = p.Server.Inbox.Await(0, rig.Timeout, any)
	}
	if err == nil {
		err = p.Server.Send([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}` + "\n"))
	}
	if err == nil {
		_, err = p.Agent.Await(0, rig.Timeout, any)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p.Stderr())
	}
	p.HangUp()
	if code, ok := p.Wait(rig.Timeout); !ok || code != 0 {
		return fmt.Errorf("tg-shim: exit status %d, ended %v\n%s", code, ok, p.Stderr())
	}
	return nil
}

// If who keeps descriptors does not answer, nothing is started for a tg-shim before it has tried again.
func TestNotKept(t *testing.T) {
	t.Parallel()
	h := rig.NewFixture(t)
	h.Configure(rig.Configuration)
	h.StartDaemon()
	h.IgnoreMessages(stores + keep.PerSession) // those that have them kept, and those that take that back
	p := start(t, h)
	if n := h.Kept(); n != keep.PerSession {
		t.Errorf("%d descriptors are kept when the server runs, want %d", n, keep.PerSession)
	}
	h.KillDaemon()
	h.StartDaemon()
	p.says(p.call(1, "echo"))
	p.answers(1, "echo")
}
