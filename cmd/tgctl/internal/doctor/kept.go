package doctor

import (
	"cmp"
	"context"
	"errors"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/programs"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// lookAtExtensions finds extensions that should run and do not. Calls that such an
// extension should see are denied, unless its manifest lets them go on.
func (x *examination) lookAtExtensions(ctx context.Context) {
	if x.client == nil {
		return
	}
	all, err := x.client.ListExtensions(ctx)
	if errors.Is(err, client.ErrVersion) {
		return // a daemon too old for extensions, which version.daemon reports
	}
	if err != nil {
		x.addFinding("daemon.unreachable", "", "the daemon does not report which extensions are installed: %v", err)
		return
	}
	for _, e := range all {
		name, p := e.GetManifest().GetName(), e.GetProcess()
		loss := ui.Choose(e.GetManifest().GetBefore() != nil || e.GetManifest().GetAfter() != nil,
			", so calls that it would see are denied, or forwarded unseen if its manifest says so", "")
		switch {
		case e.GetChanged():
			x.addFindingWithFix("extension.changed", name, "review its folder, then accept it: tgctl ext install "+ui.Word(e.GetDir()), "the extension %s is not what you accepted%s: %s", name, loss, p.GetError())
		case e.GetMissing() != "":
			x.addFinding("extension.missing", name, "the extension %s needs %s, which is missing%s", name, e.GetMissing(), loss)
		case p.GetState() == "failed":
			x.addFinding("extension.failed", name, "the extension %s has failed%s: %s", name, loss, p.GetError())
		}
	}
	if len(all) == 0 {
		x.addOK("extension", "no extension is installed")
		return
	}
	x.addOK("extension", "%s, and none has failed", ui.Plural(len(all), "extension is installed", "extensions are installed"))
}

// lookAtShared finds shared servers that have failed and are not restarted.
func (x *examination) lookAtShared(ctx context.Context) {
	if x.client == nil {
		return
	}
	all, err := x.client.ListProcesses(ctx)
	if err != nil {
		return // lookAtVersions has reported it
	}
	shared := ui.Filter(all, func(p *pb.Process) bool { return p.GetKind() == programs.KindBackend })
	for _, p := range shared {
		if p.GetState() == "failed" {
			x.addFinding("shared.failed", p.GetName(), "the shared server %s has failed, so its calls are answered with an error: %s", p.GetName(), p.GetError())
		}
	}
	if len(shared) == 0 {
		x.addOK("shared", "no server is shared now")
		return
	}
	x.addOK("shared", "%s now, and none has failed", ui.Plural(len(shared), "server is shared", "servers are shared"))
}

// lookAtRemote finds servers behind an address that did not answer.
func (x *examination) lookAtRemote(ctx context.Context) {
	if x.client == nil {
		return
	}
	all, err := x.client.ListProcesses(ctx)
	if err != nil {
		return // lookAtVersions has reported it
	}
	remote := ui.Filter(all, func(p *pb.Process) bool { return p.GetKind() == programs.KindRemote })
	for _, p := range remote {
		if p.GetState() == "degraded" {
			x.addFinding("remote.failed", p.GetName(), "the server %s, behind an address, has not answered the last request of %s: %s", p.GetName(), cmp.Or(p.GetAgent(), "its agent"), p.GetError())
		}
	}
	if len(remote) == 0 {
		x.addOK("remote", "no server behind an address is in use")
		return
	}
	x.addOK("remote", "%s in use, and each has answered", ui.Plural(len(remote), "server behind an address is", "servers behind an address are"))
}
