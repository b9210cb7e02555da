package api

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// fakeExtensions are extensions defined by a test.
type fakeExtensions struct {
	Extensions // methods that a test does not need
	views      []extension.View
	candidate  *extension.Candidate
	err        error
	events     []protocol.Event
}

func (f *fakeExtensions) List() []extension.View { return f.views }

func (f *fakeExtensions) Get(name string) (extension.View, error) {
	for _, v := range f.views {
		if v.Name == name {
			return v, nil
		}
	}
	return extension.View{}, fmt.Errorf("extension %q: %w", name, gate.ErrNotFound)
}

func (f *fakeExtensions) Look(string) (*extension.Candidate, error) { return f.candidate, f.err }

func (f *fakeExtensions) Config(_ context.Context, name string) ([]extension.Setting, error) {
	_, err := f.Get(name)
	return []extension.Setting{{Key: "limit", Value: "50", Set: true}, {Key: "mode", Value: "strict"}}, err
}

// Invoke sends its events as long as the client receives them.
func (f *fakeExtensions) Invoke(ctx context.Context, _, _ string, _ []string, sink func(protocol.Event)) (int, error) {
	for _, e := range f.events {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		sink(e)
	}
	return 3, context.Cause(ctx)
}

const scrubberManifest = `schema: 1
name: scrubber
version: "1.1.0"
description: takes secrets out
protocol: 1
command: ./scrubber
args: [--fast]
env: {MODE: strict}
pass: [KEY]
permissions: [hooks.before, hooks.after]
hooks:
  before: {servers: [files, "prod-*"], tools: "write_*", on_error: continue}
  after: {}
config: {limit: "3"}
`

func parsed(t *testing.T) *manifest.Manifest {
	t.Helper()
	m, problems := manifest.Parse("extension.yaml", []byte(scrubberManifest))
	if m == nil {
		t.Fatal(problems)
	}
	return m
}

func TestExtensionsAreTold(t *testing.T) {
	well := extension.View{
		Name: "scrubber", Dir: "/x/scrubber", Manifest: parsed(t), Digest: "9a8b", Program: "/x/scrubber/scrubber",
		Declared: protocol.Declared{
			Tools:        []protocol.Tool{{Name: "reveal", Description: "says what", InputSchema: []byte(`{}`)}},
			Providers:    []protocol.Provider{{ID: "local", DisplayName: "Local", Models: []protocol.Model{{ID: "small"}}}},
			Capabilities: []protocol.Capability{{Kind: "command", Name: "stats", Permissions: []manifest.Permission{manifest.Commands}}},
		},
	}
	missing, stranger := well, extension.View{Name: "odd", Status: supervise.Status{State: supervise.Failed, Err: errors.New("it is not accepted")}}
	missing.Name, missing.Program = "missing", ""
	f := &fakeExtensions{views: []extension.View{well, missing, stranger}}
	fleet := &fakeFleet{list: []supervise.Info{{Kind: supervise.KindExtension, Name: "scrubber", Status: supervise.Status{State: supervise.Degraded, Restarts: 2}}}}
	v := extensionsService{s: New(Config{Extensions: f, Fleets: []supervise.Fleet{fleet}})}

	got, err := v.Get(t.Context(), &pb.GetExtensionRequest{Name: "scrubber"})
	if err != nil {
		t.Fatal(err)
	}
	want := &pb.Extension{
		Manifest: &pb.ExtensionManifest{
			Name: "scrubber", Version: "1.1.0", Description: "takes secrets out", Wire: "json", Command: []string{"./scrubber", "--fast"},
			Env: map[string]string{"MODE": "strict"}, Pass: []string{"KEY"}, Permissions: []string{"hooks.before", "hooks.after"},
			Before:   &pb.ExtensionHook{Servers: []string{"files", "prod-*"}, Tools: []string{"write_*"}, Methods: []string{"tools/call"}, Open: true},
			After:    &pb.ExtensionHook{Servers: []string{"*"}, Tools: []string{"*"}, Methods: []string{"tools/call"}},
			Restarts: 3, Order: 100, Config: map[string]string{"limit": "3"},
		},
		Dir: "/x/scrubber", Digest: "9a8b", Process: &pb.Process{Kind: "extension", Name: "scrubber", State: "degraded", Restarts: 2},
		Tools:        []*pb.ExtensionTool{{Name: "reveal", Description: "says what", InputSchema: []byte(`{}`)}},
		Providers:    []*pb.ExtensionProvider{{Id: "local", DisplayName: "Local", Models: []string{"small"}}},
		Capabilities: []*pb.ExtensionCapability{{Kind: "command", Name: "stats", Permissions: []string{"commands"}}},
		Config:       []*pb.ExtensionValue{{Key: "limit", Value: "50", Set: true}, {Key: "mode", Value: "strict"}},
	}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	all, err := v.List(t.Context(), &pb.ListExtensionsRequest{})
	if err != nil || len(all.GetExtensions()) != 3 {
		t.Fatalf("%v, %v", all, err)
	}
	if e := all.GetExtensions()[1]; e.GetMissing() != "./scrubber" || e.GetChanged() {
		t.Errorf("without a program: %v", e)
	}
	if e := all.GetExtensions()[2]; !e.GetChanged() || e.GetMissing() != "" || e.GetManifest().GetName() != "odd" || e.GetProcess().GetState() != "failed" || e.GetProcess().GetError() == "" {
		t.Errorf("one that nobody has agreed to: %v", e)
	}
	if _, err := v.Get(t.Context(), &pb.GetExtensionRequest{Name: "nobody"}); !errors.Is(client.FromStatus(toStatus(err)), client.ErrNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
}

func TestLookAtAnExtension(t *testing.T) {
	before := extension.View{Name: "scrubber", Manifest: parsed(t), Digest: "00"}
	f := &fakeExtensions{candidate: &extension.Candidate{Manifest: parsed(t), Digest: [32]byte{0x9a}, Files: 2, Bytes: 7, Program: "/x", Installed: &before,
		Warnings: []config.Diagnostic{{Message: "odd", Severity: config.Warning}}}}
	v := extensionsService{s: New(Config{Extensions: f})}
	got, err := v.Look(t.Context(), &pb.LookExtensionRequest{Dir: "/x"})
	if err != nil || got.GetDigest()[:4] != "9a00" || got.GetFiles() != 2 || got.GetBytes() != 7 || got.GetProgram() != "/x" || got.GetManifest().GetName() != "scrubber" ||
		got.GetInstalled().GetDigest() != "00" || len(got.GetWarnings()) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := v.Look(t.Context(), &pb.LookExtensionRequest{Dir: "x"}); !errors.Is(client.FromStatus(toStatus(err)), client.ErrInvalid) {
		t.Errorf("a path that is not absolute: %v", err)
	}
	f.err = &extension.ManifestError{Problems: []config.Diagnostic{{File: "extension.yaml", Line: 3, Message: "unknown key"}}}
	_, err = v.Look(t.Context(), &pb.LookExtensionRequest{Dir: "/x"})
	var said *client.Error
	if !errors.As(toStatus(err), &said) || len(said.Diagnostics) != 1 || said.Diagnostics[0].GetLine() != 3 || !errors.Is(said, client.ErrInvalid) {
		t.Errorf("a manifest that is wrong: %v", err)
	}
}

// The output of a command is sent as it comes. If the client stops receiving, the command is
// cancelled.
func TestInvoke(t *testing.T) {
	f := &fakeExtensions{events: []protocol.Event{
		{Kind: protocol.Text, Content: "a"}, {Kind: protocol.TaskStart, Task: "t", Label: "Work", TaskKind: "demo"},
		{Kind: protocol.TaskUpdate, Task: "t", Current: 1, Total: 2, Content: "file"}, {Kind: protocol.TaskLog, Task: "t", Content: "line"},
		{Kind: protocol.TaskDone, Task: "t", Error: "bad"}, {Kind: protocol.Done},
	}}
	s := New(Config{Extensions: f})
	var got []*pb.InvokeEvent
	if err := s.invoke(t.Context(), &pb.InvokeRequest{}, func(e *pb.InvokeEvent) error { got = append(got, e); return nil }); err != nil {
		t.Fatal(err)
	}
	task := func(e *pb.TaskEvent) *pb.InvokeEvent { return &pb.InvokeEvent{Event: &pb.InvokeEvent_Task{Task: e}} }
	want := []*pb.InvokeEvent{
		{Event: &pb.InvokeEvent_Output{Output: &pb.CommandOutput{Kind: "text", Content: "a"}}},
		task(&pb.TaskEvent{Phase: "start", Id: "t", Label: "Work", Kind: "demo"}),
		task(&pb.TaskEvent{Phase: "update", Id: "t", Current: 1, Total: 2, Line: "file"}),
		task(&pb.TaskEvent{Phase: "log", Id: "t", Line: "line"}),
		task(&pb.TaskEvent{Phase: "done", Id: "t", Error: "bad"}),
		{Event: &pb.InvokeEvent_Output{Output: &pb.CommandOutput{Kind: "done"}}},
		{Event: &pb.InvokeEvent_End{End: &pb.CommandEnd{ExitCode: 3}}},
	}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if !proto.Equal(got[i], want[i]) {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
	gone, sent := errors.New("the caller has left"), 0
	err := s.invoke(t.Context(), &pb.InvokeRequest{}, func(*pb.InvokeEvent) error { sent++; return gone })
	if !errors.Is(err, gone) || sent != 1 {
		t.Errorf("%d events for a caller that has left: %v", sent, err)
	}
}

// notebook is a recorder that keeps records, unless it has an error.
type notebook struct {
	err  error
	kept []string
}

func (n *notebook) Record(_ context.Context, r *record.Record, _ []byte, _ []string) error {
	if n.err == nil {
		n.kept = append(n.kept, fmt.Sprintf("%s %s %s %s by %s", r.Kind, r.Verdict, r.Tool, r.Reason, r.Decider))
	}
	return n.err
}

func TestToldIsRecorded(t *testing.T) {
	n := &notebook{}
	s := New(Config{Extensions: &fakeExtensions{views: []extension.View{{Name: "notes"}}}, Recorder: n})
	if err := s.recordExtensionChange(t.Context(), "me", "configured", "nobody", "key"); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if err := s.recordExtensionChange(t.Context(), "me", "configured", "notes", "key"); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(n.kept); got != `[extension configured notes "key" by me]` {
		t.Errorf("on record: %s", got)
	}
	n.err = errors.New("the disk is full")
	if err := s.recordExtensionChange(t.Context(), "me", "commanded", "notes", "flush"); !errors.Is(err, n.err) {
		t.Errorf("got %v", err)
	}
}
