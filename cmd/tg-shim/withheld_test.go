package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/rig"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// A server that a project names is not started before a person has agreed; the
// agent is told what to do, at once.
func TestWithheld(t *testing.T) {
	t.Parallel()
	h := newHouse(t, forwardAll)
	h.StartDaemon()
	ran := h.Path("work/ran")
	o := rig.Options{
		Command: []string{"touch", ran}, Env: []string{"NODE_OPTIONS=x"},
		Flags: []string{"--from", h.Path("work/.mcp.json"), "--sets", "NODE_OPTIONS", "--sets", "TOKEN"},
	}
	p := startPair(t, h, o)
	p.agent(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{}}`)
	p.agentReadsErrors(-31014, `"init"`)
	p.ends(125, 30*time.Second)
	if text := p.Stderr(); !strings.Contains(text, `tg-shim: server "x" is withheld until a person agrees`) || !strings.Contains(text, "tgctl servers accept x --start ") {
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

// A variable of the user's own that has other code run counts as well where a project
// only adds to the server: a yes that was given without it is not enough, and what
// waits then can be agreed to by the id that is printed.
func TestProjectAddsToAServerWithALoader(t *testing.T) {
	t.Parallel()
	h := newHouse(t, forwardAll)
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
	// What a wrap asks about knows what the project says, and not the user's own entry.
	asked, err := c.Look(t.Context(), &pb.LookRequest{Server: "x", From: h.Path("work/.mcp.json"), Cwd: h.Path("work"), Command: o.Command, Sets: map[string]string{"TOKEN": "y"}})
	if err != nil {
		t.Fatal(err)
	}
	agree := func(s *pb.ServerStart) {
		t.Helper()
		if _, err := c.AcceptStart(t.Context(), &pb.AcceptStartRequest{Project: s.GetProject(), Server: s.GetServer(), Digest: bytes.Clone(s.GetDigest())}); err != nil {
			t.Fatal(err)
		}
	}
	agree(asked)
	p := startPair(t, h, o)
	p.ends(125, time.Minute)
	if _, err := os.Stat(ran); err == nil {
		t.Fatal("the server was started")
	}
	starts, err := c.ListStarts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range starts {
		if s.GetAccepted() != nil {
			continue
		}
		if len(s.GetLoaders()) != 1 || s.GetLoaders()[0].GetName() != "NODE_OPTIONS" {
			t.Errorf("what waits: %v", s)
		}
		if want := fmt.Sprintf("tgctl servers accept x --start %x", s.GetDigest()[:4]); !strings.Contains(p.Stderr(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, p.Stderr())
		}
		agree(s)
	}
	p = startPair(t, h, o)
	p.ends(0, time.Minute)
	if _, err := os.Stat(ran); err != nil {
		t.Errorf("what was agreed to is not started: %v\n%s", err, p.Stderr())
	}
}

// A program that was not there when the daemon was told is not looked for again.
func TestMissingStaysMissing(t *testing.T) {
	s := &shim{options: options{command: []string{"./not-there"}}}
	t.Chdir(t.TempDir())
	if _, err := s.hello(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("not-there", []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if c, err := s.start(nil); err == nil {
		c.Stop(t.Context(), child.OurGrace)
		t.Error("it was started")
	}
}

func TestFlagsOfProjects(t *testing.T) {
	env := func(name string) string { return map[string]string{"THOUGHTGATE_SOCKET": "/run/shim.sock"}[name] }
	o, err := parse([]string{"--server-id", "x", "--from", "/repo/.mcp.json", "--sets", "A", "--sets", "B", "--", "server", "--from", "y"}, env)
	if err != nil || o.from != "/repo/.mcp.json" || strings.Join(o.sets, " ") != "A B" || strings.Join(o.command, " ") != "server --from y" {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := parse([]string{"--server-id", "x", "--from", "repo", "--", "server"}, env); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("a relative path: %v", err)
	}
}

// A shim for the tools of an extension has no server of its own.
func TestParseExtension(t *testing.T) {
	env := func(name string) string { return map[string]string{"THOUGHTGATE_SOCKET": "/run/shim.sock"}[name] }
	o, err := parse([]string{"--extension", "notes", "--profile", "production"}, env)
	if err != nil || o.server != "ext-notes" || o.extension != "notes" || len(o.command) != 0 {
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
