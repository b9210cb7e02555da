package extension_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "protobuf") {
		os.Exit(playProtobuf())
	}
	if code, ok := fake.PlayExtension(os.Args[1:]); ok {
		os.Exit(code)
	}
	stop, _ := child.AdoptOrphans() // without it orphans go unnoticed, as on macOS
	code := m.Run()
	stop()
	if left, _ := exec.Command("pgrep", "-f", leftBehind).Output(); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes are left: %s", left)
		code = 1
	}
	os.Exit(code)
}

// leftBehind matches the command lines of programs of this test run, which must not outlive it.
var leftBehind = fmt.Sprintf("fake-extension.*owner=%d-", os.Getpid())

// records keeps what is recorded.
type records struct {
	mu   sync.Mutex
	all  []record.Record
	fail error
}

func (r *records) Record(_ context.Context, line *record.Record, _ []byte, _ []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	r.all = append(r.all, *line)
	return nil
}

// said lists verdicts and names of the records.
func (r *records) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, line := range r.all {
		all = append(all, line.Verdict+" "+line.Tool)
	}
	return strings.Join(all, ", ")
}

// fixture is a registry with its folders, which outlive a restart of the registry.
type fixture struct {
	*extension.Registry
	t       testing.TB
	dir     string // contains all the others
	env     map[string]string
	db      *store.DB
	records records
	stop    func()
	// hurried gives extensions the time that they have outside tests. Otherwise a busy machine
	// may take longer to start one, and to have it judge a call.
	hurried bool
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	h := &fixture{t: t, dir: t.TempDir(), env: map[string]string{"PATH": os.Getenv("PATH"), "HOME": "/home/of/tests"}, stop: func() {}}
	var err error
	if h.db, err = store.Open(filepath.Join(h.dir, "state.db")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.stop()
		if err := h.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *fixture) extensions() string { return filepath.Join(h.dir, "extensions") }

// open opens the registry.
func (h *fixture) open() {
	h.t.Helper()
	r, err := extension.Open(extension.Options{
		Dir: h.extensions(), Store: h.db, Recorder: &h.records, Build: "test",
		Getenv: func(name string) string { return h.env[name] }, Timeout: h.timeout,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.Registry = r
}

func (h *fixture) timeout(method string) time.Duration {
	switch method {
	case protocol.Initialize, protocol.HookBefore, protocol.HookAfter:
		if !h.hurried {
			return time.Minute
		}
	}
	return protocol.Timeout(method)
}

// start opens the registry and runs it until stop is called.
func (h *fixture) start() *fixture {
	h.t.Helper()
	h.open()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	var once sync.Once
	h.stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-ended:
				if err != nil {
					h.t.Error("Run:", err)
				}
			case <-time.After(2 * time.Minute):
				h.t.Error("Run does not end")
			}
		})
	}
	return h
}

// source creates a folder with an extension.
func (h *fixture) source(e fake.Extension) string {
	h.t.Helper()
	program, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	e.Program = program
	e.Modes = append(e.Modes, fmt.Sprintf("owner=%d-", os.Getpid()))
	dir := h.t.TempDir()
	if err := e.Write(dir); err != nil {
		h.t.Fatal(err)
	}
	return dir
}

// install installs an extension and waits until it runs or has failed.
func (h *fixture) install(e fake.Extension) {
	h.t.Helper()
	if _, err := h.Install(h.t.Context(), h.source(e), nil, extension.Actor{Decider: "the test"}); err != nil {
		h.t.Fatal(err)
	}
	h.settled(e.Name)
}

// settled waits until an extension runs or has failed.
func (h *fixture) settled(name string) extension.View {
	h.t.Helper()
	var v extension.View
	h.until("an extension runs or has failed", func() bool {
		var err error
		if v, err = h.Get(name); err != nil {
			h.t.Fatal(err)
		}
		s := v.Status.State
		return s == supervise.Running || s == supervise.Degraded || s == supervise.Failed
	})
	return v
}

func (h *fixture) until(what string, is func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("it does not come about that %s; extensions: %+v", what, h.List())
		}
	}
}

// call returns a call of a tool, as the gate sees it.
func call(t testing.TB, server, tool, arguments string) *gate.Call {
	t.Helper()
	c := &gate.Call{
		Message: gate.Message{ID: "call-1", Method: "tools/call", Subject: tool, Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)},
		Case:    gate.Case{Server: server, Agent: "test-agent"},
	}
	if err := wire.Read(c.Line, wire.FromAgent, &c.Envelope); err != nil {
		t.Fatal(err)
	}
	return c
}
