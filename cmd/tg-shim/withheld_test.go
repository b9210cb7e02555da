package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// A server that a project names is not started before a person has agreed; the agent is told at
// once what to do.
func TestWithheld(t *testing.T) {
	t.Parallel()
	h := newFixture(t, forwardAll)
	h.StartDaemon()
	ran := h.Path("work/ran")
	o := rig.Options{
		Command: []string{"touch", ran}, Env: []string{"NODE_OPTIONS=x"},
		Flags: []string{"--from", h.Path("work/.mcp.json"), "--sets", "NODE_OPTIONS", "--sets", "TOKEN"},
	}
	p := startPair(t, h, o)
	p.agent(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{}}`)
	p.agentReadsErrors(-31014, `"init"`)
	p.HangUp()
	p.ends(125, 30*time.Second)
	if text := p.Stderr(); !strings.Contains(text, `tg-shim: server "x" is withheld until a person accepts it`) || !strings.Contains(text, "tgctl servers accept x --start ") {
		t.Errorf("stderr does not say what to do:\n%s", text)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Fatal("the server was started")
	}

	c, err := client.Dial(t.Context(), client.WithSocket(h.Path("run/thoughtgate/control.sock")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	starts, err := c.ListStarts(t.Context())
	if err != nil || len(starts) != 1 {
		t.Fatalf("%d wait: %v", len(starts), err)
	}
	s := starts[0]
	if strings.Join(s.GetSets(), " ") != "NODE_OPTIONS TOKEN" || len(s.GetLoaders()) == 0 || s.GetAccepted() != nil {
		t.Errorf("what waits: %v", s)
	}
	if _, err := c.AcceptStart(t.Context(), &pb.AcceptStartRequest{Project: s.GetProject(), Server: s.GetServer(), Digest: bytes.Clone(s.GetDigest())}); err != nil {
		t.Fatal(err)
	}
	p = startPair(t, h, o)
	p.ends(0, 30*time.Second)
	if _, err := os.Stat(ran); err != nil {
		t.Errorf("what was agreed to is not started: %v\n%s", err, p.Stderr())
	}
}

// A variable of the user's own that loads other code counts as well where a project only adds to
// the server: what was accepted without it is not enough, and what waits then can be accepted by
// the id that is printed.
func TestProjectAddsToAServerWithALoader(t *testing.T) {
	t.Parallel()
	h := newFixture(t, forwardAll)
	h.StartDaemon()
	ran := h.Path("work/ran")
	o := rig.Options{
		Command: []string{"touch", ran}, Env: []string{"NODE_OPTIONS=--require /home/me/x.js", "TOKEN=y"},
		Flags: []string{"--from", h.Path("work/.mcp.json"), "--sets", "TOKEN"},
	}
	c, err := client.Dial(t.Context(), client.WithSocket(h.Path("run/thoughtgate/control.sock")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	accept := func(s *pb.ServerStart) {
		t.Helper()
		if _, err := c.AcceptStart(t.Context(), &pb.AcceptStartRequest{Project: s.GetProject(), Server: s.GetServer(), Digest: bytes.Clone(s.GetDigest())}); err != nil {
			t.Fatal(err)
		}
	}
	// A wrap knows what the project says, and not the user's own entry.
	asked, err := c.Look(t.Context(), &pb.LookRequest{Server: "x", From: h.Path("work/.mcp.json"), Cwd: h.Path("work"), Command: o.Command, Sets: map[string]string{"TOKEN": "y"}})
	if err != nil {
		t.Fatal(err)
	}
	accept(asked)
	p := startPair(t, h, o)
	p.HangUp()
	p.ends(125, 30*time.Second)
	if _, err := os.Stat(ran); err == nil {
		t.Fatal("the server was started")
	}
	starts, err := c.ListStarts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	starts = slices.DeleteFunc(starts, func(s *pb.ServerStart) bool { return s.GetAccepted() != nil })
	if len(starts) != 1 || len(starts[0].GetLoaders()) != 1 || starts[0].GetLoaders()[0].GetName() != "NODE_OPTIONS" {
		t.Fatalf("what waits: %v", starts)
	}
	if want := fmt.Sprintf("tgctl servers accept x --start %x", starts[0].GetDigest()[:4]); !strings.Contains(p.Stderr(), want) {
		t.Errorf("stderr lacks %q:\n%s", want, p.Stderr())
	}
	accept(starts[0])
	p = startPair(t, h, o)
	p.ends(0, 30*time.Second)
	if _, err := os.Stat(ran); err != nil {
		t.Errorf("what was accepted is not started: %v\n%s", err, p.Stderr())
	}
}

func TestFlagsOfProjects(t *testing.T) {
	env := func(name string) string { return map[string]string{"THOUGHTGATE_SOCKET": "/run/shim.sock"}[name] }
	o, err := parse([]string{"--server-id", "x", "--from", "/repo/.mcp.json", "--sets", "A", "--sets", "B", "--", "server", "--from", "y"}, env)
	if err != nil || o.Hello.From != "/repo/.mcp.json" || strings.Join(o.Hello.Sets, " ") != "A B" || strings.Join(o.Hello.Command, " ") != "server --from y" {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := parse([]string{"--server-id", "x", "--from", "repo", "--", "server"}, env); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("a relative path: %v", err)
	}
}

// A tg-shim for the tools of an extension has no server process.
func TestParseExtension(t *testing.T) {
	env := func(name string) string { return map[string]string{"THOUGHTGATE_SOCKET": "/run/shim.sock"}[name] }
	o, err := parse([]string{"--extension", "notes", "--profile", "production"}, env)
	if err != nil || o.Hello.Server != "ext-notes" || o.Hello.Extension != "notes" || len(o.Hello.Command) != 0 {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, args := range [][]string{
		{"--extension", "notes", "--", "server"},
		{"--extension", "notes", "--server-id", "x"},
		{"--extension", "notes", "--from", "/repo/.mcp.json"},
		{"--extension", ""},
	} {
		if _, err := parse(args, env); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

// A tg-shim for a server behind an address has no server process, and no address either.
func TestParseRemote(t *testing.T) {
	env := func(name string) string { return map[string]string{"THOUGHTGATE_SOCKET": "/run/shim.sock"}[name] }
	o, err := parse([]string{"--server-id", "cloud", "--profile", "production", "--from", "/repo/.mcp.json", "--sets", "A", "--remote"}, env)
	if err != nil || o.Hello.Server != "cloud" || !o.Hello.Remote || o.Hello.From != "/repo/.mcp.json" || len(o.Hello.Command) != 0 {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, args := range [][]string{
		{"--remote"},
		{"--server-id", "cloud", "--remote", "--", "server"},
		{"--server-id", "cloud", "--remote", "https://mcp.test"},
		{"--extension", "notes", "--remote"},
		{"--server-id", "cloud"},
	} {
		if _, err := parse(args, env); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
