package daemon_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A daemon that is told to stop does not finish a long judgement: it ends, and the call being
// judged goes nowhere.
func TestStoppedWhileItJudges(t *testing.T) {
	h := newHome(t, "schema: 1\ngovernance: {defaults: {action: forward}}\n")
	_, stop := h.start(t)
	a := h.attach(t)
	a.send(longToJudge(t))
	a.taken()
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
	passed := 0
	for range a.toServer { // until the session has ended
		passed++
	}
	if judged := strings.Count(h.onDisk(t), `"verdict":"forward"`); passed > judged {
		t.Errorf("%d calls were let through, of which %d were judged to the end", passed, judged)
	}
}

// taken waits until the daemon has read everything that the agent wrote.
func (p *played) taken() {
	p.t.Helper()
	raw, err := p.agent.SyscallConn()
	if err != nil {
		p.t.Fatal(err)
	}
	for left, end := 1, time.Now().Add(rig.Timeout); left > 0; time.Sleep(time.Millisecond) { // polling interval
		var failed error
		err := raw.Control(func(fd uintptr) { left, failed = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
		if err := errors.Join(err, failed); err != nil {
			p.t.Fatal(err)
		}
		if time.Now().After(end) {
			p.t.Fatalf("%d bytes are not read", left)
		}
	}
}

// longToJudge returns the members of a call that takes seconds to judge on most machines.
func longToJudge(t *testing.T) string {
	t.Helper()
	deep := t.TempDir() // each path to it takes long to resolve
	for len(deep) < 3000 {
		deep = filepath.Join(deep, "d")
	}
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	var line strings.Builder
	line.WriteString(`"method":"tools/call","params":{"name":"read_file","arguments":{"paths":["end"`)
	for i := 0; line.Len() < wire.MaxMessage-8<<10; i++ {
		line.WriteString(`,"` + deep + "/" + strings.Repeat("x", i%64) + strings.Repeat("y", i/64) + `"`)
	}
	line.WriteString(`]}}`)
	return line.String()
}
