package policy

import (
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// maxTold is how many waiting policies and refused tools are listed.
const maxTold = 5

// addChecked adds the policies of a set that are not fully checked yet, and the tools that its
// policies do not fit.
func addChecked(s *ui.Sheet, set *pb.PolicySet) {
	s.Add("unchecked", ui.Some(set.GetPolicies()-set.GetChecked(), "policy", "policies", " for tools that no server has listed yet"))
	for i, w := range set.GetWaiting() {
		if i == maxTold {
			s.Add("", "and more; see: tgctl policy show --json")
			break
		}
		s.Add("", display.Text(fmt.Sprintf("%s waits for %s", w.GetPolicy(), strings.Join(w.GetTools(), ", "))))
	}
	for i, r := range set.GetRefused() {
		if i == maxTold {
			s.Add("denied", "and more; see: tgctl policy show --json")
			break
		}
		s.Add("denied", display.Text(fmt.Sprintf("calls of %s, since the policy %s does not fit it: %s", r.GetTool(), r.GetPolicy(), r.GetReason())))
	}
}
