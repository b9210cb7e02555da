package approval

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// rowParams is the maximum size in bytes of the params that a row keeps. Of longer params
// it keeps only what fits into rowShort columns, so that 256 questions of any size use
// little memory.
const (
	rowParams = 4 << 10
	rowShort  = 200
)

// clipColumns limits what Clipped returns, in columns.
const clipColumns = 400

// Row is what a list of open questions keeps of one.
type Row struct {
	ID               string
	Subject          []byte
	Created, Expires time.Time

	ServerID                 string // the server as the daemon names it
	Agent, Server, Call, Why display.Safe
	Danger                   display.Safe // its facts in words; empty if it has none

	Workflow string
	Login    display.Safe // see LoginCommand
	Grave    bool         // its facts mark it as risky
	MovedOn  bool         // its agent waits no longer
	Proof    bool         // approving it needs a secret

	Params []byte       // params of the call, unless they are long
	Short  display.Safe // the beginning of long params
	Size   int          // size of the params in bytes
}

// NewRow returns a row for an open question. It does not retain q.
func NewRow(q *pb.Approval) *Row {
	r := &Row{
		ID: q.GetId(), Subject: bytes.Clone(q.GetSubject()),
		Created: q.GetCreated().AsTime(), Expires: q.GetExpires().AsTime(),
		ServerID: strings.Clone(q.GetServer()), Agent: Clipped(ui.OrDash(q.GetAgent())), Server: Clipped(display.Name(q.GetServer())),
		Call: Clipped(ui.CallName(q.GetMethod(), q.GetTool())), Why: Clipped(Because(q)),
		Workflow: strings.Clone(q.GetWorkflow()), Login: Clipped(LoginCommand(q)), Grave: slices.ContainsFunc(q.GetFacts(), IsGrave), Proof: NeedsProof(q),
		Danger: Clipped(Danger(q.GetFacts())), MovedOn: MovedOn(q),
	}
	params := ShownParams(q)
	r.Size = max(len(params), int(min(q.GetArgumentsBytes(), math.MaxInt32)))
	if r.Size <= rowParams && q.GetArgumentsBytes() == 0 {
		r.Params = slices.Clone(params)
	} else { // long, or only the beginning was sent
		r.Short = Clipped(display.JSONLine(params, rowShort, ""))
	}
	return r
}

// Clipped returns a short copy of s that does not retain the memory of s.
func Clipped(s display.Safe) display.Safe {
	return display.Safe(strings.Clone(string(display.Fit(s, clipColumns))))
}
