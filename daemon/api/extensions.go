package api

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"

	"google.golang.org/grpc"

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

// Extensions manages the extensions: the user's programs that join the gate.
type Extensions interface {
	List() []extension.View
	Get(name string) (extension.View, error)
	Look(dir string) (*extension.Candidate, error)
	Install(ctx context.Context, dir string, digest []byte, by extension.Actor) (*extension.View, error)
	Remove(ctx context.Context, name string, purge bool, by extension.Actor) (extension.Kept, error)
	Invoke(ctx context.Context, extension, command string, args []string, sink func(protocol.Event)) (exit int, err error)
	Config(ctx context.Context, name string) ([]extension.Setting, error)
	SetConfig(ctx context.Context, name, key, value string) error
}

// extensionsService implements the Extensions service.
type extensionsService struct {
	pb.UnimplementedExtensionsServer
	s *Server
}

func (v extensionsService) List(context.Context, *pb.ListExtensionsRequest) (*pb.ListExtensionsResponse, error) {
	resp := &pb.ListExtensionsResponse{}
	var all []*pb.Process
	for _, e := range v.s.Extensions.List() {
		m := v.s.extensionTo(&e)
		resp.Extensions, all = append(resp.Extensions, m), append(all, m.Process)
	}
	weigh(all)
	return resp, nil
}

func (v extensionsService) Get(ctx context.Context, req *pb.GetExtensionRequest) (*pb.Extension, error) {
	e, err := v.s.Extensions.Get(req.GetName())
	if err != nil {
		return nil, err
	}
	m := v.s.extensionTo(&e)
	weigh([]*pb.Process{m.Process})
	values, err := v.config(ctx, req.GetName())
	m.Config = values.GetValues()
	return m, err
}

// Look changes nothing, so any caller may use it.
func (v extensionsService) Look(_ context.Context, req *pb.LookExtensionRequest) (*pb.LookExtensionResponse, error) {
	if !filepath.IsAbs(req.GetDir()) {
		return nil, fmt.Errorf("read an extension: the path %q is not absolute: %w", req.GetDir(), gate.ErrInvalid)
	}
	c, err := v.s.Extensions.Look(filepath.Clean(req.GetDir()))
	if err != nil {
		return nil, withProblems(err)
	}
	resp := &pb.LookExtensionResponse{
		Manifest: manifestTo(c.Manifest), Digest: hex.EncodeToString(c.Digest[:]), Files: uint32(c.Files), Bytes: uint64(c.Bytes),
		Program: c.Program, Warnings: diagnosticsTo(c.Warnings),
	}
	if c.Installed != nil {
		resp.Installed = v.s.extensionTo(c.Installed)
	}
	return resp, nil
}

// withProblems adds the diagnostics to the error of an invalid manifest.
func withProblems(err error) error {
	var wrong *extension.ManifestError
	if errors.As(err, &wrong) {
		return client.NewError(client.ReasonInvalid, err.Error(), diagnosticsTo(wrong.Problems)...)
	}
	return err
}

func (v extensionsService) Install(ctx context.Context, req *pb.InstallExtensionRequest) (*pb.Extension, error) {
	ctx, who, err := v.s.decider(ctx, fmt.Sprintf("installing the extension in %q", req.GetDir()))
	if err != nil {
		return nil, err
	}
	digest, err := hex.DecodeString(req.GetDigest())
	if err != nil || len(digest) == 0 {
		return nil, fmt.Errorf("install an extension: the digest of what was shown is missing: %w", gate.ErrInvalid)
	}
	e, err := v.s.Extensions.Install(ctx, filepath.Clean(req.GetDir()), digest, byWhom(ctx, who, req.GetSurface()))
	if err != nil {
		return nil, withProblems(err)
	}
	return v.s.extensionTo(e), nil
}

func (v extensionsService) Remove(ctx context.Context, req *pb.RemoveExtensionRequest) (*pb.RemoveExtensionResponse, error) {
	ctx, who, err := v.s.decider(ctx, fmt.Sprintf("removing the extension %q", req.GetName()))
	if err != nil {
		return nil, err
	}
	kept, err := v.s.Extensions.Remove(ctx, req.GetName(), req.GetPurge(), byWhom(ctx, who, req.GetSurface()))
	return &pb.RemoveExtensionResponse{Records: uint32(kept.Records), Values: uint32(kept.Values)}, err
}

// byWhom returns who did something. ctx must be that of decider.
func byWhom(ctx context.Context, who, surface string) extension.Actor {
	return extension.Actor{Decider: who, Surface: surfaceOf(ctx, who, surface), Peer: gate.PeerOf(ctx, who)}
}

// Invoke requires a caller that may decide: a command may loosen what its extension denies.
func (v extensionsService) Invoke(req *pb.InvokeRequest, stream grpc.ServerStreamingServer[pb.InvokeEvent]) error {
	ctx, who, err := v.s.decider(stream.Context(), fmt.Sprintf("running the command %q of the extension %q", req.GetCommand(), req.GetName()))
	if err == nil {
		err = v.s.recordExtensionChange(ctx, who, "commanded", req.GetName(), req.GetCommand())
	}
	if err != nil {
		return err
	}
	return v.s.standing(ctx, func(ctx context.Context) error {
		return v.s.invoke(ctx, req, stream.Send)
	})
}

// recordExtensionChange records that a person ran a command of an extension or set one of its values, by which the
// extension may forward more. It records the name of the command or key, not the content. ctx must
// be that of decider.
func (s *Server) recordExtensionChange(ctx context.Context, who, verdict, name, what string) error {
	if _, err := s.Extensions.Get(name); err != nil {
		return err
	}
	err := s.Recorder.Record(ctx, &record.Record{
		Kind: record.KindExtension, Verdict: verdict, Tool: name, Decider: who, Peer: gate.PeerOf(ctx, who), Reason: fmt.Sprintf("%.100q", what),
	}, nil, nil)
	if err != nil {
		return fmt.Errorf("configure extension %q: the change can't be recorded, so nothing was changed: %w", name, err)
	}
	return nil
}

// invoke runs a command and sends its output. If sending fails, it cancels the command.
func (s *Server) invoke(ctx context.Context, req *pb.InvokeRequest, send func(*pb.InvokeEvent) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	exit, err := s.Extensions.Invoke(ctx, req.GetName(), req.GetCommand(), req.GetArgs(), func(e protocol.Event) {
		if err := send(eventTo(e)); err != nil {
			cancel(err)
		}
	})
	if err != nil {
		return err
	}
	return send(&pb.InvokeEvent{Event: &pb.InvokeEvent_End{End: &pb.CommandEnd{ExitCode: int32(exit)}}})
}

func (v extensionsService) GetConfig(ctx context.Context, req *pb.GetExtensionConfigRequest) (*pb.ExtensionConfig, error) {
	return v.config(ctx, req.GetName())
}

// SetConfig requires a caller that may decide: a value may loosen what its extension denies.
func (v extensionsService) SetConfig(ctx context.Context, req *pb.SetExtensionConfigRequest) (*pb.ExtensionConfig, error) {
	ctx, who, err := v.s.decider(ctx, fmt.Sprintf("configuring the extension %q", req.GetName()))
	if err != nil {
		return nil, err
	}
	if err := v.s.recordExtensionChange(ctx, who, "configured", req.GetName(), req.GetKey()); err != nil {
		return nil, err
	}
	if err := v.s.Extensions.SetConfig(ctx, req.GetName(), req.GetKey(), req.GetValue()); err != nil {
		return nil, err
	}
	v.s.Logger.Info("an extension was configured", "extension", req.GetName(), "key", req.GetKey(), "by", who)
	return v.config(ctx, req.GetName())
}

// config returns the configuration values of an extension.
func (v extensionsService) config(ctx context.Context, name string) (*pb.ExtensionConfig, error) {
	settings, err := v.s.Extensions.Config(ctx, name)
	return &pb.ExtensionConfig{Values: each(settings, func(s extension.Setting) *pb.ExtensionValue {
		return &pb.ExtensionValue{Key: s.Key, Value: s.Value, Set: s.Set}
	})}, err
}

// extensionTo converts e to a message, without its configuration and memory.
func (s *Server) extensionTo(e *extension.View) *pb.Extension {
	info, ok := s.kept(supervise.KindExtension, e.Name, "")
	if !ok {
		info = supervise.Info{Kind: supervise.KindExtension, Name: e.Name, Status: e.Status}
	}
	m := &pb.Extension{
		Manifest: &pb.ExtensionManifest{Name: e.Name}, Dir: e.Dir, Digest: e.Digest, Process: keptTo(info),
		Changed: e.Changed || e.Digest == "",
	}
	if e.Manifest != nil {
		m.Manifest = manifestTo(e.Manifest)
		if e.Program == "" && !m.Changed {
			m.Missing = e.Manifest.Command
		}
	}
	m.Tools = each(e.Declared.Tools, func(t protocol.Tool) *pb.ExtensionTool {
		return &pb.ExtensionTool{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema}
	})
	m.Providers = each(e.Declared.Providers, func(p protocol.Provider) *pb.ExtensionProvider {
		models := each(p.Models, func(m protocol.Model) string { return m.ID })
		return &pb.ExtensionProvider{Id: p.ID, DisplayName: p.DisplayName, Description: p.Description, Models: models}
	})
	m.Capabilities = each(e.Declared.Capabilities, func(c protocol.Capability) *pb.ExtensionCapability {
		return &pb.ExtensionCapability{Kind: c.Kind, Name: c.Name, Permissions: each(c.Permissions, permissionTo)}
	})
	return m
}

func manifestTo(m *manifest.Manifest) *pb.ExtensionManifest {
	return &pb.ExtensionManifest{
		Name: m.Name, Version: m.Version, Description: m.Description, Wire: string(m.Wire), Command: append([]string{m.Command}, m.Args...),
		Env: m.Env, Pass: m.Pass, Before: hookTo(&m.Hooks.Before), After: hookTo(&m.Hooks.After), Restarts: uint32(m.Restart.Attempts),
		Order: int32(m.Order), Config: m.Config, Permissions: each(m.Permissions, permissionTo),
	}
}

func permissionTo(p manifest.Permission) string { return string(p) }

func hookTo(h *manifest.Hook) *pb.ExtensionHook {
	if !h.Wanted {
		return nil
	}
	return &pb.ExtensionHook{Servers: globs(h.Servers), Tools: globs(h.Tools), Methods: globs(h.Methods), Open: h.OnError == manifest.Continue}
}

func globs(all []config.Glob) []string {
	return each(all, config.Glob.String)
}

// phases are the names of task events in the protocol.
var phases = map[protocol.EventKind]string{
	protocol.TaskStart: "start", protocol.TaskUpdate: "update", protocol.TaskLog: "log", protocol.TaskDone: "done",
}

// eventTo converts an event of a command's output to a message.
func eventTo(e protocol.Event) *pb.InvokeEvent {
	phase, ok := phases[e.Kind]
	if !ok {
		return &pb.InvokeEvent{Event: &pb.InvokeEvent_Output{Output: &pb.CommandOutput{Kind: string(e.Kind), Content: e.Content}}}
	}
	return &pb.InvokeEvent{Event: &pb.InvokeEvent_Task{Task: &pb.TaskEvent{
		Phase: phase, Id: e.Task, Label: e.Label, Kind: e.TaskKind, Current: e.Current, Total: e.Total, Line: e.Content, Error: e.Error,
	}}}
}
