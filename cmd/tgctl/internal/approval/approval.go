// Package approval says what everything that shows a question to a person has to know of it, and of
// the grant that its answer may give.
package approval

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// LevelPresence is the level of a question whose approval needs a proof of presence.
const LevelPresence = "presence"

// IsOpen reports whether q waits for an answer.
func IsOpen(q *pb.Approval) bool { return q.GetState() == pb.ApprovalState_APPROVAL_STATE_OPEN }

// NeedsProof reports whether approving q needs a passphrase or code.
func NeedsProof(q *pb.Approval) bool {
	return IsOpen(q) && q.GetLevel() == LevelPresence
}

// IsCode reports whether typed is a code: six digits, which is too short for a passphrase.
func IsCode(typed []byte) bool {
	return len(typed) == 6 && len(bytes.Trim(typed, "0123456789")) == 0
}

// ProofOf returns what was typed, a passphrase or a code, as a proof.
func ProofOf(typed []byte) *pb.Proof {
	if IsCode(typed) {
		return &pb.Proof{Code: typed}
	}
	return &pb.Proof{Passphrase: typed}
}

// methodLogin is the method of a question whether a person logs in to a server.
const methodLogin = "thoughtgate/login"

// LoginCommand returns the command that answers q if q asks for a login: nobody can approve that. Otherwise it
// returns "".
func LoginCommand(q *pb.Approval) display.Safe {
	if q.GetMethod() != methodLogin {
		return ""
	}
	return ui.LoginCommand(q.GetServer())
}

// MovedOn reports whether the agent of an open question was told to repeat the call and waits no longer.
func MovedOn(q *pb.Approval) bool { return IsOpen(q) && q.GetParked() && q.GetWaiting() == 0 }

// WhenMovedOn says what becomes of the answer to a question whose agent waits no longer.
const WhenMovedOn display.Safe = "agent moved on; takes effect if it repeats the call"

// StateWord returns the state of a question as a word for people; --json has the enum's.
func StateWord(q *pb.Approval) display.Safe {
	switch q.GetState() {
	case pb.ApprovalState_APPROVAL_STATE_OPEN:
		return "waiting"
	case pb.ApprovalState_APPROVAL_STATE_REJECTED:
		return "denied"
	}
	return display.Safe(pbjson.Word(q.GetState()))
}

// EndLine says how a question ended.
func EndLine(q *pb.Approval) display.Safe {
	if q.GetState() == pb.ApprovalState_APPROVAL_STATE_UNSPECIFIED {
		return display.Name(q.GetId()) + " is no longer known to the daemon"
	}
	line := display.Name(q.GetId()) + " " + StateWord(q)
	line += ui.Choose(q.GetDecider() != "", " by "+answeredBy(q), "")
	line += ui.AfterColon(display.Text(q.GetNote()))
	return Clipped(line + "; " + ui.CallName(q.GetMethod(), q.GetTool()))
}

// answeredBy names who decided q: whom a surface of several people names, or [ui.Who].
func answeredBy(q *pb.Approval) display.Safe {
	return cmp.Or(ui.Claimed(q.GetApprover(), q.GetSurface()), ui.Who(q.GetDecider(), q.GetSurface(), ui.You))
}

// Because returns one line: why an open question is asked, or the note of its decision.
func Because(q *pb.Approval) display.Safe {
	if !IsOpen(q) {
		return ui.Choose(q.GetNote() != "", "note: "+display.Text(q.GetNote()), "")
	}
	return ui.Join(ui.NonEmpty(display.Text(q.GetReason()), ui.Parens(display.Text(q.GetRule()))), " ")
}

// ShownParams returns the part of a question's params to show: the arguments of a tool
// call that has nothing else, otherwise all params.
func ShownParams(q *pb.Approval) []byte {
	if arguments := ui.ArgumentsOf(q.GetMethod(), q.GetArguments()); arguments != nil {
		return arguments
	}
	return q.GetArguments()
}

// SubjectShown is how many hex digits of a subject are shown. The flag --subject of approve and
// deny accepts them.
const SubjectShown = 8

// ShortSubject returns the part of a subject that is shown.
func ShortSubject(subject []byte) display.Safe {
	text := hex.EncodeToString(subject)
	return display.Safe(text[:min(SubjectShown, len(text))])
}

// PresenceLine returns the state of presence in one line.
func PresenceLine(st *pb.PresenceState) display.Safe {
	switch {
	case !st.GetEnrolled():
		return "not set up; see: tgctl presence --help"
	case st.GetLocked().AsDuration() > 0:
		return "LOCKED for " + display.Span(st.GetLocked().AsDuration()) + "; see: tgctl presence"
	case st.GetCodes():
		return "set up, a passphrase and codes"
	}
	return "set up, a passphrase"
}

// GrainText names a grain: git push in /home/ann/shop and below.
func GrainText(g *pb.Grain) display.Safe {
	return display.Text(strings.TrimSpace(g.GetProgram()+" "+g.GetVerb())+" in "+g.GetFolder()) + " and below"
}

// GrantBounds describes which calls of a tool a grant covers, as "with any arguments".
func GrantBounds(g *pb.Grant) display.Safe {
	line := display.Safe("with the same arguments")
	switch g.GetMatch() {
	case pb.GrantMatch_GRANT_MATCH_TOOL:
		line = "with any arguments"
	case pb.GrantMatch_GRANT_MATCH_VERB, pb.GrantMatch_GRANT_MATCH_PROGRAM:
		line = "of " + GrainText(g.GetGrain())
	case pb.GrantMatch_GRANT_MATCH_SOME:
		line = "with the same" + ui.Spaced(ui.NameList(g.GetArguments()))
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
