package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/internal/demo"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// The canary is one call of a small agent in this process to a server that is part of
// tgctl, through a tg-shim that is started as for any agent. The daemon denies it by a
// built-in rule, after every other stage that a call passes.

// canaryTimeout is the timeout of the canary.
const canaryTimeout = 30 * time.Second

var canaryCall = demo.Call{Tool: "read_note", Arguments: json.RawMessage(`{"name":"plan"}`)}

// canaryResult is the result of the canary's call.
type canaryResult struct {
	Answer   string // what the agent got
	Refused  bool   // the answer is a denial
	Executed bool   // the server got the call all the same
}

// runCanary makes the call and reports its result.
func (x *examination) runCanary(ctx context.Context) {
	switch {
	case x.client == nil:
		x.addFinding("canary.untried", "", "no call was made: no daemon is running")
		return
	case x.shim == "":
		x.addFinding("canary.untried", "", "no call was made: tg-shim is missing")
		return
	}
	before := x.status.GetAuditSeq()
	s, err := x.call(ctx, x.shim, x.status.GetShimSocket())
	switch {
	case s.Executed, err == nil && !s.Refused:
		x.addFinding("canary.passed", "", "a call that must be denied WAS NOT: it reached its server, or was answered")
		return
	case err != nil:
		x.addFinding("canary.silent", "", "a call through tg-shim got no answer: %v", err)
		return
	}
	r, err := x.recordOfCanary(ctx, before, record.CanaryServer, s.Answer)
	switch {
	case err != nil:
		x.addFinding("canary.unrecorded", "", "a call was denied, but not recorded: %v", err)
	case r.Rule != record.CanaryRule:
		x.addFinding("canary.accident", "", "a call was denied because it could not be judged: %s", r.Reason)
	default:
		x.addOK("canary", "a call through %s was denied before it reached its server; it is record %d", x.shim, r.Seq)
	}
}

// recordOfCanary finds the record of the denial of a call of server whose id is in answer.
func (x *examination) recordOfCanary(ctx context.Context, before uint64, server, answer string) (record.Record, error) {
	for m, err := range x.client.ReadAudit(ctx, &pb.AuditQuery{From: before + 1, Server: server, Kind: string(record.KindCall)}) {
		if err != nil {
			return record.Record{}, err
		}
		r, err := record.Parse(m.GetLine())
		if err != nil {
			return record.Record{}, err
		}
		if r.Verdict == "deny" && r.ID != "" && strings.Contains(answer, r.ID) {
			return r, nil
		}
	}
	return record.Record{}, errors.New("no record has the id that the agent got")
}

// callCanary makes the canary's call through the tg-shim at the path shim.
func callCanary(ctx context.Context, a *connect.App, shim, socket string) (s canaryResult, err error) {
	self, err := a.Executable()
	if err != nil {
		return canaryResult{}, err
	}
	dir, err := os.MkdirTemp("", "tg-canary-")
	if err != nil {
		return canaryResult{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	const log = "executed"
	ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	err = demo.Run(ctx, demo.Server{
		Command: shim, Env: map[string]string{"THOUGHTGATE_SOCKET": socket}, Dir: dir,
		// The development profile denies nothing; a shim may ask for a stricter profile.
		Args: []string{"--server-id", record.CanaryServer, "--profile", "production", "--", self, "demo", "server", "--name", "canary", "--log", log},
	}, nil, []demo.Call{canaryCall}, func(demo.Call) {}, func(_ demo.Call, r demo.Result) { s.Answer, s.Refused = r.Text, r.IsError })
	executed, logErr := demo.Executed(filepath.Join(dir, log))
	s.Executed = len(executed) > 0
	return s, errors.Join(err, logErr)
}
