package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// fakeExt holds what a test has put into a fake daemon about programs that the daemon
// runs.
type fakeExt struct {
	installed []*pb.Extension
	look      *pb.LookExtensionResponse
	err       error // of requests that change something
	events    []*pb.InvokeEvent
	hang      bool // commands do not end by themselves
	logs      []*pb.LogLine
	failure   string // error of a program after a restart

	looked    []string
	installs  []*pb.InstallExtensionRequest
	removals  []*pb.RemoveExtensionRequest
	invoked   []*pb.InvokeRequest
	set       []*pb.SetExtensionConfigRequest
	restarts  []*pb.RestartProcessRequest
	logged    []*pb.LogsRequest
	cancelled chan struct{} // closed when a hanging command was cancelled
	following chan struct{} // closed when a follower has got all lines
	gone      error         // returned to a follower when ended is closed
	ended     chan struct{}
}

func (f *fakeDaemon) Restart(_ context.Context, req *pb.RestartProcessRequest) (*pb.RestartProcessResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ext.restarts = append(f.ext.restarts, req)
	if f.ext.err != nil {
		return nil, f.ext.err
	}
	for _, p := range f.processes {
		if p.GetKind() == req.GetKind() && p.GetName() == req.GetName() {
			if f.ext.failure == "" {
				p.State, p.Pid = "running", 4020
			}
			return &pb.RestartProcessResponse{Process: p, Failure: f.ext.failure}, nil
		}
	}
	return nil, client.NewError(client.ReasonNotFound, "the daemon keeps no such thing")
}

func (f *fakeDaemon) Logs(req *pb.LogsRequest, stream grpc.ServerStreamingServer[pb.LogLine]) error {
	f.mu.Lock()
	f.ext.logged = append(f.ext.logged, req)
	f.mu.Unlock()
	lines := f.ext.logs
	if n := int(req.GetLast()); n > 0 && len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	for _, line := range lines {
		if err := stream.Send(line); err != nil {
			return err
		}
	}
	if !req.GetFollow() {
		return nil
	}
	if f.ext.following != nil {
		close(f.ext.following)
	}
	select {
	case <-f.ext.ended:
		return f.ext.gone
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

type fakeExtensions struct {
	pb.UnimplementedExtensionsServer
	*fakeDaemon
}

func (f fakeExtensions) find(name string) (*pb.Extension, error) {
	for _, e := range f.ext.installed {
		if e.GetManifest().GetName() == name {
			return e, nil
		}
	}
	return nil, client.NewError(client.ReasonNotFound, "no extension \""+name+"\" is installed")
}

func (f fakeExtensions) List(context.Context, *pb.ListExtensionsRequest) (*pb.ListExtensionsResponse, error) {
	return &pb.ListExtensionsResponse{Extensions: f.ext.installed}, nil
}

func (f fakeExtensions) Get(_ context.Context, req *pb.GetExtensionRequest) (*pb.Extension, error) {
	return f.find(req.GetName())
}

func (f fakeExtensions) Look(_ context.Context, req *pb.LookExtensionRequest) (*pb.LookExtensionResponse, error) {
	f.ext.looked = append(f.ext.looked, req.GetDir())
	if f.ext.look == nil {
		return nil, client.NewError(client.ReasonInvalid, "the manifest is not valid", &pb.Diagnostic{
			File: req.GetDir() + "/extension.yaml", Line: 3, Column: 1, Severity: pb.Severity_SEVERITY_ERROR, Message: `unknown key "nmae"`, Hint: `did you mean "name"?`})
	}
	return f.ext.look, nil
}

func (f fakeExtensions) Install(_ context.Context, req *pb.InstallExtensionRequest) (*pb.Extension, error) {
	f.ext.installs = append(f.ext.installs, req)
	if f.ext.err != nil {
		return nil, f.ext.err
	}
	return &pb.Extension{Manifest: f.ext.look.GetManifest(), Digest: req.GetDigest(), Dir: "/home/ana/.config/thoughtgate/extensions/scrubber",
		Process: &pb.Process{Kind: "extension", Name: "scrubber", State: "running", Pid: 4012}}, nil
}

func (f fakeExtensions) Remove(_ context.Context, req *pb.RemoveExtensionRequest) (*pb.RemoveExtensionResponse, error) {
	f.ext.removals = append(f.ext.removals, req)
	if f.ext.err != nil {
		return nil, f.ext.err
	}
	out := &pb.RemoveExtensionResponse{}
	if !req.GetPurge() {
		out.Records, out.Values = 3, 1
	}
	return out, nil
}

func (f fakeExtensions) Invoke(req *pb.InvokeRequest, stream grpc.ServerStreamingServer[pb.InvokeEvent]) error {
	f.ext.invoked = append(f.ext.invoked, req)
	if f.ext.err != nil {
		return f.ext.err
	}
	for _, e := range f.ext.events {
		if err := stream.Send(e); err != nil {
			return err
		}
	}
	if f.ext.hang {
		<-stream.Context().Done()
		close(f.ext.cancelled)
	}
	return nil
}

func (f fakeExtensions) GetConfig(_ context.Context, req *pb.GetExtensionConfigRequest) (*pb.ExtensionConfig, error) {
	e, err := f.find(req.GetName())
	return &pb.ExtensionConfig{Values: e.GetConfig()}, err
}

func (f fakeExtensions) SetConfig(_ context.Context, req *pb.SetExtensionConfigRequest) (*pb.ExtensionConfig, error) {
	f.ext.set = append(f.ext.set, req)
	e, err := f.find(req.GetName())
	if err == nil {
		err = f.ext.err
	}
	if err != nil {
		return nil, err
	}
	e.Config = append(slices.Clone(e.GetConfig()), &pb.ExtensionValue{Key: req.GetKey(), Value: req.GetValue(), Set: true})
	return &pb.ExtensionConfig{Values: e.GetConfig()}, nil
}

// scrubberManifest is a manifest with many members.
func scrubberManifest() *pb.ExtensionManifest {
	return &pb.ExtensionManifest{
		Name: "scrubber", Version: "1.1.0", Description: "takes secrets out of what servers answer", Wire: "json",
		Command: []string{"./scrubber", "--rules", "rules.toml"}, Env: map[string]string{"MODE": "strict"}, Pass: []string{"SCRUBBER_KEY"},
		Permissions: []string{"hooks.after", "memory.write", "commands"},
		After:       &pb.ExtensionHook{Servers: []string{"*"}, Tools: []string{"*"}, Methods: []string{"tools/call"}},
		Restarts:    3, Order: 100, Config: map[string]string{"limit": "3"},
	}
}

func scrubber() *pb.Extension {
	return &pb.Extension{
		Manifest: scrubberManifest(), Dir: "/home/ana/.config/thoughtgate/extensions/scrubber", Digest: strings.Repeat("9a8b", 16),
		Process:      &pb.Process{Kind: "extension", Name: "scrubber", State: "running", Pid: 4012, Memory: 12_400_000, Since: at(-time.Hour), StateSince: at(-time.Hour), Restarts: 1},
		Tools:        []*pb.ExtensionTool{{Name: "reveal", Description: "says what was taken out\x1b[2J", InputSchema: []byte(`{"type":"object"}`)}},
		Config:       []*pb.ExtensionValue{{Key: "limit", Value: "3"}, {Key: "mode", Value: "strict", Set: true}},
		Capabilities: []*pb.ExtensionCapability{{Kind: "command", Name: "stats"}},
		Providers:    []*pb.ExtensionProvider{{Id: "local", DisplayName: "Local", Models: []string{"small", "large"}}},
	}
}

// installedExtensions returns a healthy extension and three that are not.
func installedExtensions() []*pb.Extension {
	guard := &pb.Extension{
		Manifest: &pb.ExtensionManifest{Name: "pathguard", Version: "0.3.0", Command: []string{"python3", "pathguard.py"}, Permissions: []string{"hooks.before"},
			Before: &pb.ExtensionHook{Servers: []string{"files", "prod-*"}, Tools: []string{"write_*", "delete_*"}, Methods: []string{"tools/call"}, Open: true}},
		Dir: "/home/ana/.config/thoughtgate/extensions/pathguard", Missing: "python3",
		Process: &pb.Process{Kind: "extension", Name: "pathguard", State: "failed", Error: `extension "pathguard": there is no program "python3"`},
	}
	quota := &pb.Extension{
		Manifest: &pb.ExtensionManifest{Name: "quota", Version: "2.0.0", Command: []string{"./quota"}},
		Dir:      "/home/ana/.config/thoughtgate/extensions/quota", Changed: true,
		Process: &pb.Process{Kind: "extension", Name: "quota", State: "failed", Error: "changed since it was installed: quota was altered"},
	}
	return []*pb.Extension{guard, quota, scrubber()}
}

func logLines() []*pb.LogLine {
	var all []*pb.LogLine
	for i, text := range []string{"ready", `warning: \x1b[2J` + "\tx", "done"} {
		all = append(all, &pb.LogLine{Number: uint64(i + 3), Time: timestamppb.New(noon.Add(time.Duration(i-3) * time.Second)), Text: text})
	}
	all[2].Number = 9
	return all
}
