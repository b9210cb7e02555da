package exttest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/extensions/exttest"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

func TestMain(m *testing.M) {
	stop, _ := child.AdoptOrphans() // without it orphans go unnoticed, as on macOS
	code := m.Run()
	stop()
	os.Exit(code)
}

type forgotten struct{}

func (forgotten) Record(context.Context, *record.Record, []byte, []string) error { return nil }

// fixture is a registry with all included extensions installed.
type fixture struct {
	*extension.Registry
	stop func() // returns when no program runs any more
}

func open(t *testing.T, names ...string) *fixture {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := extension.Open(extension.Options{
		Dir: filepath.Join(dir, "extensions"), Store: db, Recorder: forgotten{}, Build: "test",
		Getenv: func(name string) string { return map[string]string{"PATH": os.Getenv("PATH"), "HOME": dir}[name] },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	h := &fixture{r, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})}
	t.Cleanup(h.stop)
	for _, name := range names {
		if _, err := h.Install(t.Context(), exttest.Folder(t, name), nil, extension.Actor{Decider: "the test"}); err != nil {
			t.Fatal(err)
		}
		h.runs(t, name)
	}
	return h
}

// runs waits until an extension runs.
func (h *fixture) runs(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		v, err := h.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if v.Status.State == supervise.Running {
			return
		}
		if v.Status.State == supervise.Failed || time.Now().After(deadline) {
			t.Fatalf("%s does not run: %+v", name, v.Status)
		}
	}
}

func call(t *testing.T, tool, arguments, project string) *gate.Call {
	t.Helper()
	c := &gate.Call{
		Message: gate.Message{ID: "call-1", Method: "tools/call", Subject: tool, Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)},
		Case:    gate.Case{Server: "fs", Agent: "test-agent", Project: project},
	}
	if err := wire.Read(c.Line, wire.FromAgent, &c.Envelope); err != nil {
		t.Fatal(err)
	}
	return c
}

func (h *fixture) before(t *testing.T, c *gate.Call, refusal string) {
	t.Helper()
	got := h.Before(t.Context(), c)
	if refusal == "" && (got.Move != gate.Forward || got.Changed != nil || got.Failed != nil) || refusal != "" && (got.Move != gate.Deny || !strings.Contains(got.Reason, refusal)) {
		t.Errorf("%s: %+v, want %q", c.Line, got, refusal)
	}
}

// TestShipped installs the three included extensions into a registry and tests the purpose of
// each.
func TestShipped(t *testing.T) {
	for _, program := range []string{"go", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not here to build or run extensions with", program)
		}
	}
	h := open(t, "pathguard", "quota", "scrubber")
	project := t.TempDir()

	// pathguard, in Python with the Content-Length wire protocol.
	h.before(t, call(t, "read", `{"path":"a.txt"}`, project), "")
	h.before(t, call(t, "read", `{"path":"../a.txt"}`, project), `the extension "pathguard" denied it: the argument path leads to '../a.txt'`)

	// quota, in Go with the protobuf wire protocol, after a change of its limit.
	if err := h.SetConfig(t.Context(), "quota", "limits", "fs/write=1"); err != nil {
		t.Fatal(err)
	}
	h.before(t, call(t, "write", `{}`, project), "")
	h.before(t, call(t, "write", `{}`, project), `the extension "quota" denied it: the quota of fs/write is 1 calls in an hour`)
	result, err := h.CallTool(t.Context(), "quota", "quota_left", []byte(`{"tool":"fs/write"}`))
	if err != nil || !strings.Contains(string(result), `"left":{"fs/write":0}`) {
		t.Errorf("%s, %v", result, err)
	}
	if said, exit, err := h.run(t, "quota", "show"); err != nil || exit != 0 || !strings.Contains(said, "fs/write") || !strings.Contains(said, "task.done") {
		t.Errorf("%s, %d, %v", said, exit, err)
	}

	// scrubber, a module of its own.
	token := "ghp_" + "16C7e42F292c6912E7" + "710c838347Ae178B4a"
	got := h.After(t.Context(), call(t, "read", `{}`, project), []byte(`{"content":[ {"type":"text","text":"a `+token+`"} ]}`))
	if got.Move != gate.Forward || string(got.Changed) != `{"content":[ {"type":"text","text":"a [redacted: github-pat]"} ]}` {
		t.Errorf("%+v %s", got, got.Changed)
	}
	if said, exit, err := h.run(t, "scrubber", "report"); err != nil || exit != 0 || !strings.Contains(said, "github-pat") || strings.Contains(said, token) {
		t.Errorf("%s, %d, %v", said, exit, err)
	}
	if said, exit, err := h.run(t, "pathguard", "check", "/etc/passwd", project); err != nil || exit != 1 || !strings.Contains(said, "blocked") {
		t.Errorf("%s, %d, %v", said, exit, err)
	}

	// All end with the registry, after a request to shut down.
	h.stop()
	for _, name := range []string{"pathguard", "quota", "scrubber"} {
		if v, err := h.Get(name); err != nil || v.Status.State != supervise.Stopped || v.Strays > 0 {
			t.Errorf("%s: %+v, %v", name, v.Status, err)
		}
	}
}

func (h *fixture) run(t *testing.T, name, command string, args ...string) (said string, exit int, err error) {
	t.Helper()
	exit, err = h.Invoke(t.Context(), name, command, args, func(e protocol.Event) {
		said += string(e.Kind) + " " + e.Content + "\n"
	})
	return said, exit, err
}

// TestQuotaIsRemembered restarts quota within the hour.
func TestQuotaIsRemembered(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("go is not here to build extensions with")
	}
	h := open(t, "quota")
	if err := h.SetConfig(t.Context(), "quota", "limit", "1"); err != nil {
		t.Fatal(err)
	}
	h.before(t, call(t, "write", `{}`, ""), "")
	if _, err := h.Install(t.Context(), exttest.Folder(t, "quota"), nil, extension.Actor{Decider: "the test"}); err != nil {
		t.Fatal(err)
	}
	h.runs(t, "quota")
	h.before(t, call(t, "write", `{}`, ""), "the quota of fs/write is 1 calls in an hour")
}

// TestManifests parses the manifests of the included extensions, as the daemon does. There must
// be no errors or warnings.
func TestManifests(t *testing.T) {
	paths, err := filepath.Glob("../*/extension.yaml")
	if err != nil || len(paths) != 3 {
		t.Fatalf("%v, %v", paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if m, problems := manifest.Parse(path, text); m == nil || len(problems) > 0 {
			t.Errorf("%s: %v", path, problems)
		}
	}
}
