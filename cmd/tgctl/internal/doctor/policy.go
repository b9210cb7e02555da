package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/policy"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// lookAtPolicy reports problems of the configuration in force and of the one on disk,
// which would be in force next.
func (x *examination) lookAtPolicy(ctx context.Context) {
	set := x.status.GetSet()
	if failure := x.status.GetReloadFailure(); failure != "" {
		x.addFinding("policy.reload", "", "the last reload failed, so the previous configuration stays in force: %s", failure)
	}
	for _, f := range set.GetFiles() {
		if f.GetChanged() {
			x.addFinding("policy.changed", f.GetPath(), "%s has changed since it was loaded", f.GetPath())
		}
	}
	if set.GetProfile() == "development" {
		x.addFinding("policy.development", cmp.Or(set.GetSource(), x.paths.ConfigFile()), "the development profile is in force: nothing is denied, only recorded")
	}
	for _, r := range set.GetRefused() {
		x.addFinding("policy.refused", r.GetTool(), "calls of %s are denied, since the policy %s does not fit it: %s", r.GetTool(), r.GetPolicy(), r.GetReason())
	}
	for _, p := range x.status.GetProjects() {
		if len(p.GetProblems()) > 0 {
			x.addFinding("policy.project", p.GetPath(), "every call in a project is denied, since its file is invalid: %s", place(p.GetProblems()[0]))
		}
	}
	x.checkPolicy(ctx)
	source := set.GetSource()
	switch {
	case x.status == nil:
		x.addOK("policy", "the configuration on disk is valid")
	case source == "":
		x.addOK("policy", "the built-in default is in force (no configuration file), profile %s", set.GetProfile())
	default:
		natively := ""
		if agents := set.GetNatively(); len(agents) > 0 {
			natively = "; " + strings.Join(agents, ", ") + " asks " + string(policy.AsksNatively)
		}
		x.addOK("policy", "%s, %s%s", source, policy.Summary(set), natively)
	}
}

// checkPolicy reports what `tgctl policy check` finds.
func (x *examination) checkPolicy(ctx context.Context) {
	checked, err := x.checkDisk(ctx)
	if err != nil {
		x.addFinding("policy.unchecked", "", "can't check the configuration: %v", err)
		return
	}
	told := false
	for _, d := range checked.GetProblems() {
		switch {
		case ui.Severity(d) == "error" && told:
		case ui.Severity(d) == "error":
			told = true
			x.addFinding("policy.invalid", d.GetFile(), "the configuration on disk has %s, the first one: %s", ui.Plural(uint32(ui.CountErrors(checked.GetProblems())), "error", "errors"), place(d))
		default:
			x.addFindingWithFix("policy.warning", d.GetFile(), d.GetHint(), "%s", place(d))
		}
	}
}

// checkDisk validates the configuration on disk, without the daemon if no daemon can be
// reached.
func (x *examination) checkDisk(ctx context.Context) (*pb.ValidateResponse, error) {
	if x.client != nil {
		return x.client.Validate(ctx, "")
	}
	program, err := x.Sibling(connect.DaemonName)
	if err != nil {
		return nil, err
	}
	return policy.CheckWith(ctx, program, "", x.Environ())
}

// place formats a diagnostic as one line.
func place(d *pb.Diagnostic) string {
	if d.GetFile() == "" {
		return d.GetMessage()
	}
	if d.GetLine() == 0 {
		return d.GetFile() + ": " + d.GetMessage()
	}
	return fmt.Sprintf("%s:%d:%d: %s", d.GetFile(), d.GetLine(), d.GetColumn(), d.GetMessage())
}
