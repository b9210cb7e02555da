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
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// What a wrap has people agree to before the agent is started is what a shim comes
// with afterwards.
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
	hello := &pb.Hello{
		Protocol: client.Protocol, Attachment: attachment, Server: "files", Executable: sh,
		Command: []string{"sh", "server.sh"}, Cwd: repo, From: from, Sets: []string{"TOKEN"},
	}
	attach := func() error {
		t.Helper()
		c, err := client.Dial(t.Context(), client.WithSocket(h.paths.ShimSocket()))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a, err := c.Attach(t.Context(), hello)
		if err == nil {
			a.Close()
		}
		return err
	}
	if err := attach(); !errors.Is(err, client.ErrWithheld) || !strings.Contains(err.Error(), "tgctl servers accept files --start ") {
		t.Fatalf("at first: %v", err)
	}
	c := h.control(t)
	look := &pb.LookRequest{Server: "files", From: from, Cwd: repo, Command: hello.GetCommand(), Sets: map[string]string{"TOKEN": "s3cr3t"}}
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
	if err := attach(); err != nil {
		t.Errorf("what was agreed to: %v", err)
	}

	// The next daemon knows, and sees when the script is another one. A server that
	// runs already goes on.
	stop()
	h.start(t)
	if err := attach(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if err := os.WriteFile(script, []byte("exec cat # and more"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := attach(); !errors.Is(err, client.ErrWithheld) {
		t.Errorf("another script: %v", err)
	}
	hello.Reattach = true
	if err := attach(); err != nil {
		t.Errorf("a shim that comes back: %v", err)
	}
	hello.Reattach, hello.From = false, "repo/.mcp.json"
	if err := attach(); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a relative path: %v", err)
	}
	if _, err := h.control(t).Look(t.Context(), &pb.LookRequest{Server: "files", From: from, Cwd: repo}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("no command: %v", err)
	}
}
