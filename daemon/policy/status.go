package policy

import (
	"fmt"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// Waiting is a policy that could not be checked whole: it names tools of which
// it isn't known what they take. It is in force all the same, and is checked
// when a list shows them.
type Waiting struct {
	Policy string
	Place  config.Place
	Tools  []string // as server/tool, with why it isn't known where that is another reason
}

// Refused is a tool whose calls are refused, since a policy doesn't fit it.
type Refused struct {
	Tool   string // as server/tool
	Policy string
	Place  config.Place // in the policy
	Reason string
}

// maxTold is how many of each a status tells.
const maxTold = 100

// Checked tells how far the policies of the set have been checked: how many of
// them whole, which not, and which tools they don't fit. It looks at the tools
// that are known now.
func (s *Set) Checked() (whole int, waiting []Waiting, refused []Refused) {
	if !s.generated() {
		return len(s.policies), nil, nil
	}
	known := toolsByID{}
	for _, t := range s.current() {
		known[qualified(t.Server, t.Name)] = t
		told := map[*policy]bool{}
		for _, m := range s.checked(t).misfits {
			if !told[m.policy] && len(refused) < maxTold {
				told[m.policy] = true
				refused = append(refused, m.refusal(t))
			}
		}
	}
	for _, p := range s.policies {
		tools := p.waitsFor(known)
		if len(tools) == 0 {
			whole++
		} else if len(waiting) < maxTold {
			waiting = append(waiting, Waiting{Policy: p.id, Place: p.place, Tools: tools})
		}
	}
	return whole, waiting, refused
}

func (m *misfit) refusal(t *shape.Tool) Refused {
	id := qualified(t.Server, t.Name)
	return Refused{Tool: id, Policy: m.policy.id, Place: m.finding.place, Reason: m.finding.message(shown(id))}
}

// waitsFor lists the tools that the policy is about by name and that are not
// known.
func (p *policy) waitsFor(known toolsByID) []string {
	ids, _ := p.toolsNamed()
	var tools []string
	for _, id := range ids {
		switch t := known[id]; {
		case t == nil:
			tools = append(tools, id)
		case t.Takes == nil:
			tools = append(tools, fmt.Sprintf("%s (%s)", id, t.Fault))
		}
	}
	return tools
}

// Check looks at a tool that a server has listed, and returns the policies that
// don't fit it: calls of it are refused. Whoever calls it early spares the first
// call of the tool some time.
func (s *Set) Check(t *shape.Tool) []Refused {
	if !s.generated() || !s.reaches(t) {
		return nil
	}
	var all []Refused
	for _, m := range s.checked(t).misfits {
		all = append(all, m.refusal(t))
	}
	return all
}
