// Package doctor has the command doctor of tgctl. It examines everything that can be wrong, reports it
// with a fix, and finally makes a call that must be denied. It changes nothing but the audit log, which
// gets the records of that call.
package doctor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/daemon"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/fleet"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/status"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/service"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// machine holds what doctor uses of its environment. Tests replace it.
type machine struct {
	kernel   func() host.Kernel
	space    func(path string) (host.Space, error)
	writable func(dir string) error
	age      func(pid int32) (time.Duration, error)
	service  func(context.Context) (service.State, error)
	errors   func(context.Context, host.Log) ([]string, error)
	version  func(ctx context.Context, shim string) (string, error)
	call     func(ctx context.Context, shim, socket string) (canaryResult, error)
	ask      func(context.Context, agentconf.HookCommand, []byte) (agenthook.Output, error)
	courier  func(context.Context) fleet.CourierState
}

// examination is one run of doctor.
type examination struct {
	*connect.App
	machine
	paths   sock.Paths         // of this tgctl
	client  *client.Client     // nil if no daemon answers
	status  *pb.StatusResponse // nil if no daemon answers; its getters then return zero values
	service service.State
	shim    string // path of tg-shim, empty if there is none
	found   []finding
}

// Command returns the command doctor, which examines this machine.
func Command(a *connect.App) *cobra.Command {
	return command(a, machine{
		kernel: host.LookAtKernel, space: host.SpaceAt, writable: host.Writable, age: host.Age, errors: host.Errors, version: status.VersionOf,
		service: func(ctx context.Context) (service.State, error) {
			_, st, err := a.Service(ctx)
			return st, err
		},
		call: func(ctx context.Context, shim, socket string) (canaryResult, error) {
			return callCanary(ctx, a, shim, socket)
		},
		ask:     askHook,
		courier: func(ctx context.Context) fleet.CourierState { return fleet.LookAtCourier(ctx, a) },
	})
}

func command(a *connect.App, m machine) *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "doctor [flags]",
		Short: "Report problems with fixes, and test that a call is denied",
		Long: `Check everything that can be wrong with ThoughtGate on this machine: the daemon
and its environment, the policies, the agents and their ungoverned servers,
leftovers of earlier runs, the audit log, and how well an agent is prevented
from approving its own calls. Each finding says what is wrong and how to fix it,
and has a stable id; docs/troubleshooting.md explains each. The last checks are
canaries: the hook of each protected agent is asked about a command, and a call
is made through a real tg-shim to tgctl's own server. All must be denied and
recorded.

Nothing is changed except for the canaries' records. The daemon is not started,
unless the service manager does so on a connection. A part without findings is
ok; warn is what weakens protection or will need your attention, fail is what is
ungoverned, or denied that should not be.

Exits 0 if nothing fails, 4 if something fails, 3 if no daemon is running. With
--json, one object for each finding, including those of severity ok.`,
		Example: `  $ tgctl doctor
  $ tgctl doctor --json | jq -r 'select(.severity == "fail") | .id'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			x := &examination{App: a, machine: m}
			if err := x.examine(cmd.Context()); err != nil {
				return err
			}
			if err := x.print(); err != nil {
				return err
			}
			return x.outcome()
		},
	}, finding{})
}

// examine looks at one part after the other.
func (x *examination) examine(ctx context.Context) error {
	paths, err := sock.DefaultPaths(x.Getenv)
	if err != nil {
		return err
	}
	x.paths = paths
	if err := x.connect(ctx); err != nil {
		return err
	}
	if x.client != nil {
		defer x.client.Close()
	}
	around, err := status.LookAround(ctx, x.App, x.client, x.status.GetBuild())
	if err != nil {
		return err
	}
	parts := []func(){
		func() { x.lookAtDaemon() },
		func() { x.lookAtVersions(ctx) },
		func() { x.lookAtService(ctx) },
		func() { x.lookAtLog(ctx) },
		func() { x.lookAtFolders() },
		func() { x.lookAtDisk() },
		func() { x.lookAtClock() },
		func() { x.lookAtRecord() },
		func() { x.lookAtPolicy(ctx) },
		func() { x.lookAtAgents(around) },
		func() { x.lookAtLeftovers(around) },
		func() { x.lookAtExtensions(ctx) },
		func() { x.lookAtShared(ctx) },
		func() { x.lookAtRemote(ctx) },
		func() { x.lookAtLogins(ctx) },
		func() { x.lookAtPhone(ctx) },
		func() { x.lookAtFleet(ctx) },
		func() { x.lookAtApprover(ctx) },
		func() { x.lookAtKernel() },
		func() { x.runHookCanaries(ctx, around) },
		func() { x.runCanary(ctx) },
	}
	for _, look := range parts {
		if look(); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// connect requests the daemon's status. A daemon that does not run or can't be reached is
// a finding, not an error.
func (x *examination) connect(ctx context.Context) error {
	c, err := x.DialRunning(ctx)
	if err == nil {
		if x.status, err = c.Status(ctx); err == nil {
			x.client = c
			return nil
		}
		c.Close()
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, client.ErrNotRunning):
		x.addFinding("daemon.stopped", "", "no daemon is running, so every governed call fails")
	case daemon.Keeper(x.App) != 0:
		what, _, _ := strings.Cut(err.Error(), "; ")
		x.addFindingWithFix("daemon.unreachable", "", "see its log: less "+ui.Word(x.paths.LogFile())+"; then: tgctl daemon restart",
			"the daemon does not answer, and its keeper keeps restarting it: %s", what)
	default:
		x.addFindingFromError("daemon.unreachable", "", "can't connect to the daemon: %s", err)
	}
	return nil
}

// outcome returns the findings as an exit code.
func (x *examination) outcome() error {
	switch {
	case x.has("daemon.stopped"):
		return &ui.ExitError{Code: ui.ExitNotRunning}
	case x.count(gradeFail) > 0:
		return &ui.ExitError{Code: ui.ExitCheck}
	}
	return nil
}
