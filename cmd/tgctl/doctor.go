package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/internal/service"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Doctor examines everything that can be wrong, reports it with a fix, and finally makes
// a call that must be denied. It changes nothing but the audit log, which gets the
// records of that call.

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
}

// examinedMachine returns the machine that tgctl runs on, or the one that a test set.
func (a *app) examinedMachine() machine {
	if a.machine != nil {
		return *a.machine
	}
	return machine{
		kernel: host.LookAtKernel, space: host.SpaceAt, writable: host.Writable, age: host.Age, errors: host.Errors, version: versionOf, call: a.callCanary,
		service: func(ctx context.Context) (service.State, error) {
			_, st, err := a.service(ctx)
			return st, err
		},
	}
}

// examination is one run of doctor.
type examination struct {
	*app
	machine
	paths   sock.Paths         // of this tgctl
	client  *client.Client     // nil if no daemon answers
	status  *pb.StatusResponse // nil if no daemon answers; its getters then return zero values
	service service.State
	shim    string // path of tg-shim, empty if there is none
	found   []finding
}

func (a *app) doctorCmd() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "doctor [flags]",
		Short: "Say what is wrong, how to mend it, and see a call refused",
		Long: `Look at everything that can be wrong with ThoughtGate here: the daemon and its
surroundings, the policies, the agents that are found and what of them is not
governed, what earlier runs have left behind, the record, and how far an agent
is kept from approving its own calls. Each finding says what is wrong and how to
mend it, and has an id that stays: docs/troubleshooting.md tells more of each.
At the end a canary: a call is made through a real tg-shim to a server of
tgctl's own. It must be refused, and be on record.

Nothing is changed, but for what the canary leaves on record, and no daemon is
started, unless the service manager does that for whoever connects. Parts with
which nothing is wrong are ok; warn is what weakens the guard or will need you,
fail is what leaves something unguarded or refused.

Exits 0 when nothing fails, 4 when something does, 3 when no daemon runs. With
--json, one object for each finding, those of severity ok among them.`,
		Example: `  $ tgctl doctor
  $ tgctl doctor --json | jq -r 'select(.severity == "fail") | .id'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			x := &examination{app: a, machine: a.examinedMachine()}
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
	paths, err := sock.DefaultPaths(x.getenv)
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
	around, err := x.surroundings(ctx, x.client, x.status.GetBuild())
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
		func() { x.lookAtApprover(ctx) },
		func() { x.lookAtKernel() },
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
	c, err := x.dialRunning(ctx)
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
		x.addFinding("daemon.stopped", "", "no daemon runs, so every governed call is refused")
	case x.keeper() != 0:
		what, _, _ := strings.Cut(err.Error(), "; ")
		x.addFindingWithFix("daemon.unreachable", "", "read why: less "+word(x.paths.LogFile())+"; then: tgctl daemon restart",
			"the daemon, which its keeper starts whenever it ends, can't be talked to: %s", what)
	default:
		x.addFindingFromError("daemon.unreachable", "", "the daemon can't be talked to: %s", err)
	}
	return nil
}

// outcome returns the findings as an exit code.
func (x *examination) outcome() error {
	switch {
	case x.has("daemon.stopped"):
		return &exitError{code: exitNotRunning}
	case x.count(gradeFail) > 0:
		return &exitError{code: exitCheck}
	}
	return nil
}
