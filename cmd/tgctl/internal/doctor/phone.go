package doctor

import (
	"context"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/phone"
)

// phoneTimeout is how long the ntfy server may take to answer.
const phoneTimeout = 3 * time.Second

// lookAtPhone asks the ntfy server of a phone that is set up whether it works.
func (x *examination) lookAtPhone(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, phoneTimeout)
	defer cancel()
	switch server, err := phone.Reach(within, x.paths); {
	case err != nil && server == "":
		x.addFinding("phone.unreadable", "", "no question goes to the phone that was set up: %v", err)
	case err != nil:
		x.addFinding("phone.unreachable", server, "questions don't reach the phone: the ntfy server %s: %v", server, err)
	case server != "":
		x.addOK("phone", "a phone is set up, and its ntfy server %s answers", server)
	}
}
