package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// MethodLogin is the method of a question whether a person logs in to a server. It is answered by the
// login, and never approved by a person.
const MethodLogin = "thoughtgate/login"

// loginAsker is the attachment of such questions. They are asked once for all sessions.
const loginAsker = "login"

// AskLogin asks a person to log in to the server of a case, which has that address: those whom the policy
// asks where no rule names anybody. The question has been recorded when AskLogin returns.
func (g *Gate) AskLogin(ctx context.Context, of Case, address, reason string) (Held, error) {
	policy := g.Policy()
	ruling := Ruling{Move: Ask, Gate: "ask", Rule: "built in: logins", Reason: reason}
	policy.Whom(&ruling)
	params, err := json.Marshal(map[string]string{"address": address})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	c := &Call{Case: Case{Attachment: loginAsker, Agent: of.Agent, Server: of.Server, Patience: 24 * time.Hour}}
	c.Message = Message{
		Seq: uint64(now.UnixNano()), Received: now, Side: wire.FromServer, Method: MethodLogin,
		Line: fmt.Appendf(nil, `{"params":%s}`, params), Envelope: wire.Envelope{Params: wire.Span{Start: len(`{"params":`), End: len(`{"params":`) + len(params)}},
	}
	c.ID = correlation(c.Attachment, c.Seq)
	held, err := g.Approver.Ask(ctx, &Question{Call: c, Ruling: ruling, Subject: c.subject(ruling.Basis)})
	if err != nil {
		return nil, err
	}
	r := c.record(policy, nil, ruling)
	r.Verdict, r.Approval, r.Session = "hold", held.ID(), of.Session
	if err := g.Recorder.Record(ctx, r, nil, nil); err != nil {
		withdraw(ctx, held)
		return nil, fmt.Errorf("record the question: %w", errors.Join(ErrUnrecorded, err))
	}
	return held, nil
}
