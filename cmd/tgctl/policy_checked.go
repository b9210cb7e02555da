package main

import (
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// maxTold is how many waiting policies and refused tools are listed.
const maxTold = 5

// addChecked adds the policies of a set that are not fully checked yet, and the tools that its
// policies do not fit.
func addChecked(s *sheet, set *pb.PolicySet) {
	s.add("unchecked", some(set.GetPolicies()-set.GetChecked(), "policy", "policies", " for tools that no server has listed yet"))
	for i, w := range set.GetWaiting() {
		if i == maxTold {
			s.add("", "and more; see: tgctl policy show --json")
			break
		}
		s.add("", display.Text(fmt.Sprintf("%s waits for %s", w.GetPolicy(), strings.Join(w.GetTools(), ", "))))
	}
	for i, r := range set.GetRefused() {
		if i == maxTold {
			s.add("denied", "and more; see: tgctl policy show --json")
			break
		}
		s.add("denied", display.Text(fmt.Sprintf("calls of %s, since the policy %s does not fit it: %s", r.GetTool(), r.GetPolicy(), r.GetReason())))
	}
}
