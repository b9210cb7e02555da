package approval

import (
	"context"
	"fmt"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/private"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Prover asks for proof of presence. It keeps a passphrase for the other questions of the same
// command; a code is valid only once. It must be closed.
type Prover struct {
	Client *client.Client

	terminal   *ui.SecretTerminal
	passphrase []byte
}

// Close wipes the passphrase and closes the terminal.
func (p *Prover) Close() {
	p.Forget()
	if p.terminal != nil {
		p.terminal.Close()
	}
}

// Forget wipes the passphrase.
func (p *Prover) Forget() {
	clear(p.passphrase)
	p.passphrase = nil
}

// Proof has show show the person what the proof is for, and returns it. The caller must wipe the proof.
func (p *Prover) Proof(ctx context.Context, show func() error) (*pb.Proof, error) {
	state, err := p.Client.PresenceStatus(ctx, true)
	if err != nil {
		return nil, err
	}
	switch left := state.GetLocked().AsDuration(); {
	case !state.GetEnrolled():
		return nil, client.NewError(client.ReasonNotEnrolled, "it needs a passphrase, and none is enrolled: "+client.ErrNotEnrolled.Error())
	case left > 0:
		return nil, client.NewError(client.ReasonLockedOut, lockedText(state))
	}
	if err := show(); err != nil {
		return nil, err
	}
	if p.passphrase != nil {
		return &pb.Proof{Passphrase: append([]byte(nil), p.passphrase...)}, nil
	}
	if p.terminal == nil { // the daemon has identified this process before
		if p.terminal, err = OpenHidden(); err != nil {
			return nil, err
		}
	}
	what := ui.Choose(state.GetCodes() && !state.GetAsleep(), "Passphrase or code", "Passphrase")
	typed, err := p.terminal.Ask(ctx, string(what)+" (not shown):")
	if err != nil {
		return nil, err
	}
	if IsCode(typed) {
		return &pb.Proof{Code: typed}, nil
	}
	p.passphrase = typed
	return &pb.Proof{Passphrase: append([]byte(nil), typed...)}, nil
}

// OpenHidden opens the terminal, and hides the memory of this process from other programs.
func OpenHidden() (*ui.SecretTerminal, error) {
	t, err := ui.OpenTerminal()
	if err != nil {
		return nil, err
	}
	if err := private.NoReading(); err != nil {
		t.Close()
		return nil, fmt.Errorf("protect what you type from other programs: %w", err)
	}
	return t, nil
}

// lockedText says for how long proofs are not checked.
func lockedText(state *pb.PresenceState) string {
	return fmt.Sprintf("locked for %s more, after %d wrong passphrases or codes in a row",
		display.Span(state.GetLocked().AsDuration()), state.GetFailures())
}
