package daemon_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// What a wrap has a person accept before the agent starts is what the shim later asks to start.
func TestServersOfAProject(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	h := newHome(t, "")
	_, stop := h.start(t)
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(repo, "server.sh")
	if err := os.WriteFile(script, []byte("exec cat"), 0o600); err != nil {
		t.Fatal(err)
	}
	from := filepath.Join(repo, ".mcp.json")
	hello := attach.Hello{Server: "files", Executable: sh, Command: []string{"sh", "server.sh"}, Cwd: repo, From: from, Sets: []string{"TOKEN"}}
	join := func() (reason, text string) {
		t.Helper()
		a, err := h.tryJoin(t, hello, nil)
		if err == nil {
			a.close()
			return "", ""
		}
		var refused *attach.Status
		if !errors.As(err, &refused) {
			t.Fatal(err)
		}
		return refused.Reason, refused.Message
	}
	if reason, text := join(); reason != client.ReasonWithheld || !strings.Contains(text, "tgctl servers accept files --start ") {
		t.Fatalf("at first: %s: %s", reason, text)
	}
	c := h.control(t)
	look := &pb.LookRequest{Server: "files", From: from, Cwd: repo, Command: hello.Command, Sets: map[string]string{"TOKEN": "s3cr3t"}}
	seen, err := c.Look(t.Context(), look)
	if err != nil {
		t.Fatal(err)
	}
	starts, err := c.ListStarts(t.Context())
	if err != nil || len(starts) != 1 || !bytes.Equal(starts[0].GetDigest(), seen.GetDigest()) {
		t.Fatalf("what is looked at is not what the shim came with: %v, %v, %v", seen, starts, err)
	}
	if st, err := c.Status(t.Context()); err != nil || st.GetWithheldStarts() != 1 {
		t.Errorf("status: %v, %v", st.GetWithheldStarts(), err)
	}
	accept := &pb.AcceptStartRequest{Project: repo, Server: "files", Digest: seen.GetDigest(), Surface: "terminal"}
	if done, err := c.AcceptStart(t.Context(), accept); err != nil || done.GetAccepted() == nil {
		t.Fatalf("accept: %v, %v", done, err)
	}
	if reason, text := join(); reason != "" {
		t.Errorf("what was agreed to: %s: %s", reason, text)
	}

	// The next daemon knows the acceptance, and sees when the script changes.
	stop()
	h.start(t)
	if reason, text := join(); reason != "" {
		t.Errorf("after a restart: %s: %s", reason, text)
	}
	if err := os.WriteFile(script, []byte("exec cat # and more"), 0o600); err != nil {
		t.Fatal(err)
	}
	if reason, text := join(); reason != client.ReasonWithheld {
		t.Errorf("another script: %s: %s", reason, text)
	}
	hello.From = "repo/.mcp.json"
	if reason, text := join(); reason != client.ReasonInvalid {
		t.Errorf("a relative path: %s: %s", reason, text)
	}
	if _, err := h.control(t).Look(t.Context(), &pb.LookRequest{Server: "files", From: from, Cwd: repo}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("no command: %v", err)
	}
}
