package main

import (
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// waitingPolicyJSON is a policy about tools that no server has listed yet.
type waitingPolicyJSON struct {
	Policy string   `json:"policy"`
	File   string   `json:"file"`
	Line   uint32   `json:"line"`
	Tools  []string `json:"tools"` // as server/tool
}

// refusedToolJSON is a tool whose calls are refused, since a policy doesn't fit it.
type refusedToolJSON struct {
	Tool   string `json:"tool"` // as server/tool
	Policy string `json:"policy"`
	File   string `json:"file"`
	Line   uint32 `json:"line"`
	Column uint32 `json:"column"`
	Reason string `json:"reason"`
}

// checkedToJSON fills in how far the policies of a set have been checked.
func checkedToJSON(out *policySetJSON, set *pb.PolicySet) {
	out.Checked, out.Waiting, out.Refused = set.GetChecked(), []waitingPolicyJSON{}, []refusedToolJSON{}
	for _, w := range set.GetWaiting() {
		out.Waiting = append(out.Waiting, waitingPolicyJSON{w.GetPolicy(), w.GetFile(), w.GetLine(), w.GetTools()})
	}
	for _, r := range set.GetRefused() {
		out.Refused = append(out.Refused, refusedToolJSON{r.GetTool(), r.GetPolicy(), r.GetFile(), r.GetLine(), r.GetColumn(), r.GetReason()})
	}
}

// maxTold is how many policies and tools of a kind are told of on a page.
const maxTold = 5

// addChecked says how far the policies of a set have been checked, where that is
// not to the end, and which tools they don't fit.
func addChecked(s *sheet, set *pb.PolicySet) {
	if missing := set.GetPolicies() - set.GetChecked(); missing > 0 {
		s.add("unchecked", plural(missing, "policy", "policies")+" about tools that no server has listed yet")
	}
	for i, w := range set.GetWaiting() {
		if i == maxTold {
			s.add("", "and others; `tgctl policy show --json` lists them")
			break
		}
		s.add("", display.Text(fmt.Sprintf("%s waits for %s", w.GetPolicy(), strings.Join(w.GetTools(), ", "))))
	}
	for i, r := range set.GetRefused() {
		if i == maxTold {
			s.add("refused", "others too; `tgctl policy show --json` lists them")
			break
		}
		s.add("refused", display.Text(fmt.Sprintf("calls of %s, since the policy %s doesn't fit it: %s", r.GetTool(), r.GetPolicy(), r.GetReason())))
	}
}
