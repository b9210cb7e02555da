package slack

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	api "github.com/slack-go/slack"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	denyView        = "deny"
	reasonID        = "reason" // of the input and of its block
	maxReasonLength = 500
)

// answer is what somebody pressed.
type answer struct {
	c        card // a copy from the time of the press
	user     string
	answer   pb.Answer
	note     string
	trigger  string // opens a modal; valid for 3 s
	approver bool   // the configuration in force names the user
	unasked  error  // why the daemon could not be asked for approver; nil if it was
}

// handlePress handles one press: of a button below a question, or of the submit button of the form
// for a reason.
func (a *app) handlePress(ctx context.Context, in *api.InteractionCallback) {
	ans, why := a.parsePress(ctx, in)
	if why != "" {
		a.o.Say("ignored a press by %s: %s", display.Name(in.User.ID), why)
		formOf, _, _ := strings.Cut(in.View.PrivateMetadata, " ")
		if channel := cmp.Or(in.Channel.ID, formOf); channel != "" && isID(in.User.ID, "UW") {
			a.whisper(ctx, channel, in.Message.ThreadTimestamp, in.User.ID, "Your answer was not accepted: "+string(why)+". To list the waiting questions in a terminal: `tgctl approvals`")
		}
		return
	}
	id := display.Name(ans.c.ID)
	yes := ans.answer == pb.Answer_ANSWER_APPROVE
	switch {
	case ans.unasked != nil:
		a.unanswered(ctx, ans, ans.unasked)
		return
	case !ans.approver: // the daemon refuses and records it
	case yes && !ans.c.approvable():
		a.o.Say("%s: ignored an approval by %s: not allowed on Slack", id, display.Name(ans.user))
		text := " cannot be approved on Slack. Approve it in a terminal: " + code("tgctl approvals approve "+id, 100)
		if login := approval.LoginCommand(ans.c.q); login != "" {
			text = " cannot be approved. Log in, in a terminal: " + code(login, 300)
		}
		a.reply(ctx, ans, code(id, 40)+text)
		return
	case !yes && in.Type == api.InteractionTypeBlockActions && a.askReason(ctx, ans):
		return
	}
	a.decide(ctx, ans)
}

// parsePress finds out what was pressed. If nothing follows from the press, it returns nil and the
// reason.
func (a *app) parsePress(ctx context.Context, in *api.InteractionCallback) (*answer, display.Safe) {
	ans := &answer{user: in.User.ID, trigger: in.TriggerID, answer: pb.Answer_ANSWER_DENY}
	var channel, ts, value string
	switch in.Type {
	case api.InteractionTypeBlockActions:
		actions := in.ActionCallback.BlockActions
		if len(actions) != 1 || actions[0] == nil || actions[0].BlockID != answerBlock {
			return nil, "the button is unknown"
		}
		switch actions[0].ActionID {
		case pressApprove:
			ans.answer = pb.Answer_ANSWER_APPROVE
		case pressDeny:
		default:
			return nil, "the button is unknown"
		}
		channel, ts, value = in.Channel.ID, cmp.Or(in.Container.MessageTs, in.Message.Timestamp), actions[0].Value
	case api.InteractionTypeViewSubmission:
		channel, value, _ = strings.Cut(in.View.PrivateMetadata, " ")
		ts, value, _ = strings.Cut(value, " ")
		if in.View.CallbackID != denyView {
			return nil, "the form is unknown"
		}
		if state := in.View.State; state != nil {
			ans.note = clip(strings.TrimSpace(state.Values[reasonID][reasonID].Value))
		}
	default:
		return nil, "the kind of event is unknown"
	}
	if !isID(ans.user, "UW") {
		return nil, "the event does not name the user"
	}
	c := a.cardAt(ctx, channel, ts, value)
	switch {
	case c == nil:
		return nil, a.explainStalePress(ctx, channel, ts, value)
	case value != c.key():
		return nil, "the button does not belong to the question in the message"
	}
	ans.c = *c
	flow, ok, err := a.flow(ctx, c.Workflow)
	if ok {
		ans.c.flow = flow
	}
	ans.approver, ans.unasked = ok && slices.Contains(flow.GetSlack().GetApprovers(), ans.user), err
	return ans, ""
}

// clip limits the length of a reason. The daemon does not rely on the limit of Slack's input
// field.
func clip(s string) string {
	if r := []rune(s); len(r) > maxReasonLength {
		return string(r[:maxReasonLength]) + " [cut]"
	}
	return s
}

// cardAt returns a copy of the card whose message is at channel and ts, or nil. A press can
// arrive before Slack has replied where it posted the message, so cardAt waits for that.
func (a *app) cardAt(ctx context.Context, channel, ts, value string) *card {
	ctx, cancel := context.WithTimeout(ctx, ackAfter/2)
	defer cancel()
	for {
		found, underway, noted := a.look(channel, ts, value)
		if found != nil || !underway {
			return found
		}
		select {
		case <-noted:
		case <-ctx.Done():
			return nil
		}
	}
}

// look finds the card whose message is at channel and ts. underway reports whether the message
// of value is being posted; noted is closed when that was recorded.
func (a *app) look(channel, ts, value string) (found *card, underway bool, noted <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.cards {
		switch {
		case c.TS != "" && c.Channel == channel && c.TS == ts:
			copied := *c
			return &copied, false, a.recorded
		case c.TS == "" && c.unsure && c.key() == value:
			underway = true
		}
	}
	return nil, underway, a.recorded
}

// explainStalePress returns why a press on a message without a card is ignored. If the message is of a
// question that has ended, it is scheduled for an update.
func (a *app) explainStalePress(ctx context.Context, channel, ts, value string) display.Safe {
	id, _, _ := strings.Cut(value, " ")
	q, err := a.o.Gate.GetApproval(ctx, id)
	if err != nil || keyOf(q) != value || isOpen(q) {
		return "the message is unknown"
	}
	if flow, ok, err := a.flow(ctx, q.GetWorkflow()); err == nil && ok {
		a.mu.Lock()
		defer a.mu.Unlock()
		c := newCard(q, flow)
		c.Channel, c.TS, c.dirty = channel, ts, true
		a.cards[value+" "+ts] = c
		a.lane(c.Asked).wakeUp()
	}
	return "it came too late: " + display.Name(id) + " is " + display.Safe(strings.ToLower(stateWord(q)))
}

// askReason opens a form for the reason of a denial and reports whether it did. If it fails,
// the question is denied without a reason.
func (a *app) askReason(ctx context.Context, ans *answer) bool {
	if !ans.c.open() {
		return false
	}
	input := api.NewPlainTextInputBlockElement(nil, reasonID)
	input.Multiline, input.MaxLength = true, maxReasonLength
	block := api.NewInputBlock(reasonID, plain("Reason for the agent"), nil, input)
	block.Optional = true
	id := display.Name(ans.c.ID)
	_, err := a.slack.OpenViewContext(ctx, ans.trigger, api.ModalViewRequest{
		Type: api.VTModal, CallbackID: denyView, Title: plain("Deny " + escaped(id, 16)), Submit: plain("Deny"), Close: plain("Back"),
		PrivateMetadata: strings.Join([]string{ans.c.Channel, ans.c.TS, ans.c.ID, ans.c.Subject}, " "),
		Blocks:          api.Blocks{BlockSet: []api.Block{block}},
	})
	if err != nil {
		a.o.Say("%s: %s; denying it without a reason", id, errorWithHint(explainError(err, "ask for a reason")))
	}
	return err == nil
}

// decide sends the decision to the daemon, and tells the user if it does not count.
func (a *app) decide(ctx context.Context, ans *answer) {
	id := display.Name(ans.c.ID)
	subject, err := hex.DecodeString(ans.c.Subject)
	if err != nil {
		return // the subject was written by this program
	}
	done, err := inbox.Decide(ctx, a.o.Gate, &pb.Decision{
		Id: ans.c.ID, Subject: subject, Answer: ans.answer, Note: ans.note, Surface: surface, Approver: ans.user,
	})
	q := done.GetApproval()
	if q != nil {
		_ = a.updateCard(ctx, q) // the card exists, so the daemon is not asked
	}
	switch {
	case err == nil:
		a.o.Say("%s: %s by %s", id, strings.ToLower(stateWord(q)), display.Name(ans.user))
	case errors.Is(err, client.ErrDecided):
		text := "Your answer came too late: " + code(id, 40) + " has ended."
		if q != nil {
			ended := card{q: q}
			text += "\n" + ended.ended()
		}
		a.o.Say("%s: the answer of %s came too late", id, display.Name(ans.user))
		a.reply(ctx, ans, text)
	default:
		a.unanswered(ctx, ans, err)
	}
}

// unanswered tells the user why the answer does not count.
func (a *app) unanswered(ctx context.Context, ans *answer, err error) {
	id := display.Name(ans.c.ID)
	a.o.Say("%s: the answer of %s was not accepted: %s", id, display.Name(ans.user), display.Text(err.Error()))
	switch {
	case errors.Is(err, client.ErrForbidden) && !ans.approver:
		a.reply(ctx, ans, "You are not an approver of workflow "+code(display.Name(ans.c.Workflow), 80)+", so your answer was refused. It is recorded.")
	case errors.Is(err, client.ErrNotRunning):
		a.reply(ctx, ans, "ThoughtGate is not running, so nothing was decided. "+code(id, 40)+" is still waiting; try again later.")
	default:
		a.reply(ctx, ans, "Nothing was decided: "+code(display.Text(err.Error()), 1000))
	}
}

// reply shows text to the user who pressed, and to nobody else.
func (a *app) reply(ctx context.Context, ans *answer, text string) {
	a.whisper(ctx, ans.c.Channel, ans.c.Thread, ans.user, text)
}
