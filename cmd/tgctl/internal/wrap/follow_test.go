package wrap

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (h *wrapFixture) Amend(_ context.Context, req *pb.AmendSessionRequest) (*pb.AmendSessionResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.amended = append(h.amended, req)
	return &pb.AmendSessionResponse{}, nil
}

// told returns the ungoverned servers that were last reported to the daemon.
func (h *wrapFixture) told() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.amended) == 0 {
		return "nothing"
	}
	var all []string
	for _, u := range h.amended[len(h.amended)-1].GetUngoverned() {
		all = append(all, u.GetServer()+" "+u.GetHow())
	}
	return strings.Join(all, ", ")
}

// save changes the configuration like an editor: it replaces the file with a new one.
func (h *wrapFixture) save(change func(string) string) {
	h.t.Helper()
	text, err := os.ReadFile(h.config)
	if err == nil {
		h.write(h.config+"~", change(string(text)), 0o640)
		err = os.Rename(h.config+"~", h.config)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

const (
	clockLine = `    "clock": { "command": "clock-mcp" },` + "\n"
	lateLine  = `    "late": {"command":"late-mcp","args":[ ]},` + "\n"
)

// live starts an agent that runs until finish is called.
func (h *wrapFixture) live(flags ...string) (finish func() result) {
	h.t.Helper()
	cmd := h.wrap("echo $$ > pid; while [ ! -e go ]; do sleep 0.01; done", flags...)
	_, end := h.started(cmd)
	h.t.Cleanup(func() { cmd.Process.Kill() }) // if the test fails before
	return func() result {
		h.t.Helper()
		h.write(h.home+"/go", "", 0o600)
		return end()
	}
}

// EC-STDIO-039: a server that is added while the agent runs is reported to the daemon
// immediately and to the user at the end. It stays in the configuration.
func TestWrapServerAdded(t *testing.T) {
	h := newWrapFixture(t)
	finish := h.live()
	h.save(func(text string) string { return strings.Replace(text, "    \"clock\"", lateLine+"    \"clock\"", 1) })
	eventually(t, "the daemon is told", func() bool { return h.told() == "late added" })
	h.save(func(text string) string { return strings.Replace(text, lateLine, "", 1) })
	eventually(t, "the daemon is told that it has gone", func() bool { return h.told() == "" })
	h.save(func(text string) string { return strings.Replace(text, "    \"clock\"", lateLine+"    \"clock\"", 1) })
	eventually(t, "the daemon is told again", func() bool { return h.told() == "late added" })
	r := finish()
	want := "thoughtgate: server late was added during the session and was not governed; it is from the next session on, or at once with --adopt\n"
	if r.code != 0 || strings.Count(r.err, "late") != 1 || !strings.Contains(r.err, want) {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	h.wantConfig(strings.Replace(wrapConfig, clockLine, lateLine+clockLine, 1))
}

// With --adopt the server is governed, and restored with the others.
func TestWrapAdopt(t *testing.T) {
	h := newWrapFixture(t)
	finish := h.live("--adopt")
	h.save(func(text string) string { return strings.Replace(text, "    \"clock\"", lateLine+"    \"clock\"", 1) })
	eventually(t, "it is governed", func() bool {
		text, _ := os.ReadFile(h.config)
		return bytes.Contains(text, []byte(`"--server-id", "late", "--", "late-mcp"`)) && h.told() == ""
	})
	h.mu.Lock()
	files := h.amended[0].GetFiles()
	if len(files) != 1 || files[0].GetPath() != h.config || !bytes.Contains(files[0].GetJournal(), []byte("late-mcp")) {
		t.Errorf("the daemon was told %v", h.amended)
	}
	h.mu.Unlock()
	// A governed server that somebody changes is governed again, with the change.
	h.save(func(text string) string {
		at := strings.Index(text, `"clock": {`)
		end := at + strings.Index(text[at:], "\n")
		return text[:at] + `"clock": {"command":"sundial"},` + text[end:]
	})
	eventually(t, "the changed one is governed", func() bool {
		text, _ := os.ReadFile(h.config)
		return bytes.Contains(text, []byte(`"--", "sundial"]`)) && h.told() == ""
	})
	r := finish()
	for _, want := range []string{
		"server late was added during the session and governed as soon as it was seen; its entry is kept, without tg-shim\n",
		"server clock was changed during the session and governed again as soon as that was seen; the change is kept\n",
	} {
		if r.code != 0 || !strings.Contains(r.err, want) {
			t.Errorf("exit %d: %s", r.code, r.err)
		}
	}
	h.wantConfig(strings.Replace(wrapConfig, clockLine, lateLine+`    "clock": {"command":"sundial"},`+"\n", 1))
}

// Wraps of different files do not affect each other.
func TestWrapTwoFiles(t *testing.T) {
	h := newWrapFixture(t)
	finish := h.live()
	other := filepath.Join(h.home, "other.json")
	h.write(other, wrapConfig, 0o640)
	r := h.run(h.tgctl("wrap", "--agent-type", "custom", "--config-path", other, "--", "grep", "-c", "tg-shim", h.config, other))
	if want := h.config + ":2\n" + other + ":2\n"; r.code != 0 || r.out != want {
		t.Errorf("exit %d: %q, want %q\n%s", r.code, r.out, want, r.err)
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != wrapConfig {
		t.Errorf("the other file is %s, %v", text, err)
	}
	if r := finish(); r.code != 0 {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	h.wantAsBefore()
}
