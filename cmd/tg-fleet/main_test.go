package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/internal/test/fleet/server"
	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// user runs commands as one user of this machine.
type user struct {
	t    *testing.T
	home string
}

// run runs a command, and returns its status and what it writes.
func (u *user) run(ctx context.Context, stdin string, args ...string) (int, string, string) {
	var stdout, stderr bytes.Buffer
	getenv := func(name string) string {
		return map[string]string{"HOME": u.home, "XDG_RUNTIME_DIR": u.home}[name]
	}
	code := run(ctx, args, env{getenv, strings.NewReader(stdin), &stdout, slog.New(slog.DiscardHandler)}, &stderr)
	return code, stdout.String(), stderr.String()
}

// ok is run for a command that must succeed.
func (u *user) ok(stdin string, args ...string) string {
	u.t.Helper()
	code, stdout, stderr := u.run(u.t.Context(), stdin, args...)
	if code != 0 {
		u.t.Fatalf("tg-fleet %s: status %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// TestCommands makes an engine, enrols a machine with its token, lists it, and has it leave.
func TestCommands(t *testing.T) {
	u := &user{t, tempdir.New(t, "", "tg-fleet")}
	port, err := server.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	admin := filepath.Join(u.home, "acme")
	u.ok("", "init", "--name", "acme", admin, "--address", fmt.Sprintf("tls://127.0.0.1:%d", port))
	s, err := server.Start(admin)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	u.ok("", "apply", admin)
	ctx, cancel := context.WithCancel(t.Context())
	var issuing sync.WaitGroup
	defer issuing.Wait()
	defer cancel()
	issuing.Go(func() {
		if code, _, stderr := u.run(ctx, "", "issue", admin); code != 0 {
			t.Errorf("issue: status %d: %s", code, stderr)
		}
	})
	root := []byte("root metadata")
	policy, err := proto.Marshal(&pb.InstallPolicyRequest{Roots: [][]byte{root}, Bundle: []byte("b")})
	if err != nil {
		t.Fatal(err)
	}
	u.ok(string(policy), "publish", admin, "dev")
	sum := sha256.Sum256(root)
	token := u.ok("", "token", admin, "--group", "dev", "--mode", "floor", "--root", hex.EncodeToString(sum[:]))
	var enrolled struct {
		Device, Fleet, Group string
		Root                 []byte
	}
	if err := json.Unmarshal([]byte(u.ok(token, "enrol")), &enrolled); err != nil || enrolled.Fleet != "acme" || enrolled.Group != "dev" || !bytes.Equal(enrolled.Root, root) {
		t.Errorf("enrolled: %+v, %v", enrolled, err)
	}
	if code, _, stderr := u.run(t.Context(), token, "enrol"); code != exitFailed || !strings.Contains(stderr, "leave that first") {
		t.Errorf("enrolled again: status %d: %s", code, stderr)
	}
	if got := u.ok("", "devices", admin); !strings.Contains(got, enrolled.Device) {
		t.Errorf("devices: %s", got)
	}
	if got := u.ok("", "state"); !strings.Contains(got, `"running":false`) {
		t.Errorf("state: %s", got)
	}
	if got := u.ok("", "leave"); !strings.Contains(got, `"told":true`) {
		t.Errorf("leave: %s", got)
	}
	if code, _, stderr := u.run(t.Context(), ""); code != exitFailed || !strings.Contains(stderr, "in no fleet") {
		t.Errorf("the courier without an identity: status %d: %s", code, stderr)
	}
}

// TestKey makes the key of an approver once.
func TestKey(t *testing.T) {
	u := &user{t, tempdir.New(t, "", "tg-fleet")}
	first := u.ok("", "key")
	if !strings.HasPrefix(first, "age1") || u.ok("", "key", "--sign-with", "id_ed25519") != first {
		t.Errorf("key: %s", first)
	}
	text, err := os.ReadFile(filepath.Join(u.home, ".local/state/thoughtgate/fleet/approver.json"))
	if err != nil || !strings.Contains(string(text), `id_ed25519"`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestUsage(t *testing.T) {
	u := &user{t, tempdir.New(t, "", "tg-fleet")}
	if got := u.ok("", "--help"); got != usage {
		t.Errorf("help: %s", got)
	}
	for name := range commands {
		if !strings.Contains(usage, "\n  "+name) {
			t.Errorf("the usage does not name %s", name)
		}
		if got := u.ok("", name, "--help"); !strings.HasPrefix(got, "Usage: tg-fleet "+name) {
			t.Errorf("%s --help: %s", name, got)
		}
	}
	for _, args := range [][]string{{"none"}, {"state", "x"}, {"apply"}, {"token", "a", "--no"}, {"--no"}} {
		if code, _, stderr := u.run(t.Context(), "", args...); code != exitUsage || !strings.HasPrefix(stderr, "tg-fleet: ") {
			t.Errorf("%v: status %d: %s", args, code, stderr)
		}
	}
}
