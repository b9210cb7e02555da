package api

import (
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/extension/manifest"
	"github.com/thoughtgate/thoughtgated/daemon/extension/protocol"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

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

// phases are the parts of a task's life as they travel.
var phases = map[protocol.EventKind]string{
	protocol.TaskStart: "start", protocol.TaskUpdate: "update", protocol.TaskLog: "log", protocol.TaskDone: "done",
}

// eventTo tells of a piece of what a command says.
func eventTo(e protocol.Event) *pb.InvokeEvent {
	phase, ok := phases[e.Kind]
	if !ok {
		return &pb.InvokeEvent{Event: &pb.InvokeEvent_Output{Output: &pb.CommandOutput{Kind: string(e.Kind), Content: e.Content}}}
	}
	return &pb.InvokeEvent{Event: &pb.InvokeEvent_Task{Task: &pb.TaskEvent{
		Phase: phase, Id: e.Task, Label: e.Label, Kind: e.TaskKind, Current: e.Current, Total: e.Total, Line: e.Content, Error: e.Error,
	}}}
}
