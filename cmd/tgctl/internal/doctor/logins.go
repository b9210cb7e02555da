package doctor

import (
	"context"
	"errors"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// lookAtLogins finds logins to servers behind an address that need a person, now or soon, and reports where
// tokens lie.
func (x *examination) lookAtLogins(ctx context.Context) {
	if x.client == nil {
		return
	}
	all, err := x.client.ListLogins(ctx)
	if errors.Is(err, client.ErrVersion) {
		return // a daemon too old for logins, which version.daemon reports
	}
	if err != nil {
		x.addFinding("daemon.unreachable", "", "the daemon does not report the logins to servers: %v", err)
		return
	}
	place := all.GetPlace()
	if place.GetProblem() != "" {
		x.addFinding("login.unreadable", "", "logins to servers can't be read: %s", place.GetProblem())
	}
	for _, l := range all.GetLogins() {
		name := l.GetServer()
		if name == "" {
			name = l.GetAddress()
		}
		switch l.GetPhase() {
		case pb.LoginPhase_LOGIN_PHASE_WANTED:
			x.addFinding("login.wanted", name, "the server %s wants a login, and its calls wait for that: %s", name, l.GetReason())
		case pb.LoginPhase_LOGIN_PHASE_FAILING:
			x.addFinding("login.failing", name, "the token of the server %s could not be renewed, which is tried again: %s", name, l.GetReason())
		case pb.LoginPhase_LOGIN_PHASE_ENDING:
			x.addFinding("login.ending", name, "the login to the server %s ends within a day: %s", name, l.GetReason())
		}
	}
	stored := ui.Plural(place.GetStored(), "login is", "logins are")
	switch {
	case place.GetStored() == 0:
		x.addOK("login", "nobody is logged in to a server behind an address")
	case !place.GetKeyring():
		x.addFinding("login.file", "", "%s stored in a file that is sealed by a key in a file beside it, so who reads your files has the tokens: %s", stored, place.GetWhy())
	default:
		x.addOK("login", "%s stored, sealed by a key in the system's keyring", stored)
	}
}
