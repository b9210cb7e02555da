// Package approval says what all commands of tgctl have to know of a question to a person, and of
// the grant that its answer may give.
package approval

import (
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// LevelPresence is the level of a question whose approval needs a proof of presence.
const LevelPresence = "presence"

// IsOpen reports whether q waits for an answer.
func IsOpen(q *pb.Approval) bool { return q.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN }

// GrantBounds describes which calls of a tool a grant covers.
func GrantBounds(g *pb.Grant) display.Safe {
	line := display.Safe("the same arguments")
	switch g.GetMatch() {
	case pb.GrantMatch_GRANT_MATCH_TOOL:
		line = "any arguments"
	case pb.GrantMatch_GRANT_MATCH_SOME:
		line = "the same" + ui.Spaced(ui.NameList(g.GetArguments()))
	}
	switch g.GetScope() {
	case pb.GrantScope_GRANT_SCOPE_ALWAYS:
		line += ", everywhere"
	case pb.GrantScope_GRANT_SCOPE_PROJECT:
		if g.GetProject() == "" { // a grant that was not given yet
			return line + ", in the project"
		}
		line += ", in " + display.Text(g.GetProject())
	default:
		line += ", in session " + display.Name(g.GetSession())
	}
	return line
}
