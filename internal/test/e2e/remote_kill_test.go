package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// The daemon is killed, and its keeper starts another, while calls to a server behind an address are open: one that the
// server has is answered with an error and not sent again, one that waits for a person goes on waiting, and the agent goes
// on with a new session of the server.
func TestRemoteSurvivesTheDaemon(t *testing.T) {
	needProc(t)
	t.Parallel()
	h := newFixture(t)
	h.rules("schema: 1\ngovernance:\n  defaults: {action: forward}\n  rules:\n    - {match: ask_note, action: approve}\n")
	executed := map[string]*atomic.Int32{"read_note": {}, "ask_note": {}, "slow_note": {}}
	var handshakes atomic.Int32
	server := mcp.NewServer(&mcp.Implementation{Name: "cloud", Version: "1"}, &mcp.ServerOptions{
		InitializedHandler: func(context.Context, *mcp.InitializedRequest) { handshakes.Add(1) },
	})
	for name, n := range executed {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			n.Add(1)
			if name == "slow_note" {
				<-ctx.Done()
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " from afar"}}}, nil, nil
		})
	}
	behind := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(behind.Close)
	t.Cleanup(behind.CloseClientConnections)
	config := h.servers(0o600, map[string]entry{"cloud": {Type: "http", URL: behind.URL + "/mcp"}})
	before := h.read("work/mcp.json")

	h.startKept()
	a := h.wrap(config, "--no-start")
	if r := a.call("cloud", "read_note", nil); r.Text != "read_note from afar" {
		t.Fatalf("before the daemon is killed: %+v", r)
	}
	_, slow := a.begin(order{Server: "cloud", Tool: "slow_note"})
	_, held := a.begin(order{Server: "cloud", Tool: "ask_note"})
	q := h.question()
	if !eventually(func() bool { return executed["slow_note"].Load() == 1 }, patience) {
		t.Fatal("the slow call does not arrive")
	}
	first, keeper := h.keptDaemon(), h.daemon.pid()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if r := a.await(slow, "the call under way"); !strings.Contains(r.Error, "may have been executed") {
		t.Errorf("the call under way: %+v", r)
	}
	if next := h.keptDaemon(); next == first || h.daemon.pid() != keeper {
		t.Errorf("the daemon was %d and is %d", first, next)
	}
	if r := a.call("cloud", "read_note", nil); r.Text != "read_note from afar" {
		t.Errorf("after the daemon was killed: %+v", r)
	}
	if again := h.question(); again.ID != q.ID {
		t.Errorf("the question %s has become %s", q.ID, again.ID)
	}
	h.tgctl("approvals", "approve", q.ID)
	if r := a.await(held, "the held call"); r.Text != "ask_note from afar" {
		t.Errorf("the held call: %+v", r)
	}
	if code := a.leave(); code != 0 {
		t.Errorf("wrap: exit %d\n%s", code, a.talk())
	}
	if after := h.read("work/mcp.json"); after != before {
		t.Errorf("the configuration is now\n%s", after)
	}
	log := h.log()
	var got []string
	for _, l := range log { // the next daemon knows the call that was lost by its id
		i := slices.IndexFunc(log, func(c logged) bool { return c.Kind == "call" && c.ID == l.ID })
		if l.Kind == "outcome" && i >= 0 {
			got = append(got, log[i].Tool+" "+l.Verdict)
		}
	}
	slices.Sort(got)
	if want := []string{"ask_note ok", "read_note ok", "read_note ok", "slow_note lost"}; !slices.Equal(got, want) {
		t.Errorf("outcomes on record: %q, want %q", got, want)
	}
	for tool, want := range map[string]int32{"read_note": 2, "ask_note": 1, "slow_note": 1} {
		if n := executed[tool].Load(); n != want {
			t.Errorf("the server has executed %s %d times, want %d", tool, n, want)
		}
	}
	if n := handshakes.Load(); n != 2 {
		t.Errorf("the server has had %d handshakes, want 2", n)
	}
	if i := slices.IndexFunc(log, func(l logged) bool { return l.Kind == "call" && l.Tool != "" && !slices.Contains(l.Facts, "remote") }); i >= 0 {
		t.Errorf("a call without the fact remote: %+v", log[i])
	}
}

// startKept is startDaemon for a daemon with a keeper, which is h.daemon then.
func (h *fixture) startKept() {
	h.t.Helper()
	log, err := os.Create(h.path("daemon.log"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(h.bin, "thoughtgated"), "--log-format", "text", "--keep")
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = h.env, "/", log, log
	h.daemon = h.start(cmd)
	var last ran
	if !eventually(func() bool { last = h.run(nil, "tgctl", "status", "--no-start"); return last.code == 0 }, patience) {
		h.t.Fatalf("the daemon does not answer: %s", last.stderr)
	}
}

// keptDaemon returns the process of the daemon below its keeper.
func (h *fixture) keptDaemon() int {
	h.t.Helper()
	var all []int
	if !eventually(func() bool { all = rig.Children(h.daemon.pid()); return len(all) == 1 }, patience) {
		h.t.Fatalf("the keeper has the children %v, want one", all)
	}
	return all[0]
}
