package inbox

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// prover asks for proof of presence. It keeps a passphrase for the other questions of the same
// command; a code is valid only once.
type prover struct {
	a          *app
	c          *client.Client
	terminal   *ui.SecretTerminal
	passphrase []byte
}

func (p *prover) close() {
	p.forget()
	if p.terminal != nil {
		p.terminal.Close()
	}
}

// forget wipes the passphrase.
func (p *prover) forget() {
	clear(p.passphrase)
	p.passphrase = nil
}

// proof shows the person what the proof is for and returns it. The caller must wipe the proof.
func (p *prover) proof(ctx context.Context, about display.Safe) (*pb.Proof, error) {
	state, err := p.c.PresenceStatus(ctx, true)
	if err != nil {
		return nil, err
	}
	switch left := state.GetLocked().AsDuration(); {
	case !state.GetEnrolled():
		return nil, client.NewError(client.ReasonNotEnrolled, "it needs a passphrase, and none is enrolled: "+client.ErrNotEnrolled.Error())
	case left > 0:
		return nil, client.NewError(client.ReasonLockedOut, lockedText(state))
	case p.passphrase != nil:
		return &pb.Proof{Passphrase: append([]byte(nil), p.passphrase...)}, nil
	}
	if p.terminal == nil { // the daemon has identified this process before
		if p.terminal, err = p.a.openHidden(); err != nil {
			return nil, err
		}
	}
	p.a.PrintMessage("%s", about)
	what := ui.Choose(state.GetCodes() && !state.GetAsleep(), "Passphrase or code", "Passphrase")
	typed, err := p.terminal.Ask(ctx, string(what)+" (not shown):")
	if err != nil {
		return nil, err
	}
	if isCode(typed) {
		return &pb.Proof{Code: typed}, nil
	}
	p.passphrase = typed
	return &pb.Proof{Passphrase: append([]byte(nil), typed...)}, nil
}

// isCode reports whether typed is a code: six digits, which is too short for a passphrase.
func isCode(typed []byte) bool {
	return len(typed) == 6 && len(bytes.Trim(typed, "0123456789")) == 0
}

// lockedText says for how long proofs are not checked.
func lockedText(state *pb.PresenceState) string {
	return fmt.Sprintf("locked for %s more, after %d wrong passphrases or codes in a row",
		display.Span(state.GetLocked().AsDuration()), state.GetFailures())
}

// aboutToApprove summarizes the question that a secret is asked for.
func (a *app) aboutToApprove(q *pb.Approval) display.Safe {
	short := ui.ShortParams(q.GetMethod(), q.GetArguments(), cmp.Or(ui.Behind(2, a.Width()), ui.ShortRoom), "tgctl approvals show "+display.Name(q.GetId()))
	return ui.Join(ui.NonEmpty(questionLine(q), short, approval.Because(q)), "\n  ")
}
