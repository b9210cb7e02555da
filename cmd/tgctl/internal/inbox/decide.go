package inbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// decision holds the arguments of approve and deny.
type decision struct {
	answer  pb.Answer
	note    string
	subject string // hex, or a prefix of it: the question must have this subject
	from    string // deny: all open questions of this server
	edit    bool
	grant   grantFlags
	terms   *pb.GrantTerms // nil for no grant
	prover  *approval.Prover
}

func (a *app) approveCmd() *cobra.Command {
	d := decision{answer: pb.Answer_ANSWER_APPROVE}
	cmd := &cobra.Command{
		Use:   "approve ID... [flags]",
		Short: "Approve questions: each call is forwarded once",
		Long: `Approve one or more questions. Each approval applies to exactly the call that
was asked about, byte for byte, and forwards it once. What was approved is
printed.

A question of level presence also needs your passphrase or a code. It is asked
for at the terminal, after a summary of the question, and read from nowhere
else: no flag, no pipe. See "tgctl presence".

With --for, --times, --match or --in the approval is also a grant, which
approves further calls without asking. By default it covers calls with the same
arguments in the same session for an hour. It never covers calls that touch
ThoughtGate's own files, nor a call with facts that this one does not have, and
it ends when the tool's definition changes. See "tgctl grants".

A command of the agent's own shell can be granted by its grain: --match verb is
the same program with the same verb (git push), --match program a program that
does one thing (ls), both in the folder of the command and below it. You are
still asked about a command that does more, or has a fact that is a reason to
ask. "tgctl approvals show" lists the grants that an approval can be, and says
why there is no wider one.

With --edit you change the arguments first, in $VISUAL or $EDITOR. The rules
judge your version like a call of the agent, both versions are recorded, and
the agent is told that the arguments were changed.`,
		Example: `  $ tgctl approvals approve A-17
  $ tgctl approvals approve A-17 A-18 --note "discussed with Ana"
  $ tgctl approvals approve A-17 --for 8h --match arg=branch --in project
  $ tgctl approvals approve A-18 --match verb`,
		Args:              ui.AtLeastOne("ID"),
		ValidArgsFunction: a.CompleteApprovals(),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			return a.decide(ctx, c, &d, args)
		}),
	}
	cmd.Flags().StringVar(&d.note, "note", "", "a `TEXT` for the record")
	cmd.Flags().BoolVar(&d.edit, "edit", false, "change the arguments in an editor, and approve the result")
	d.grant.add(cmd)
	cmd.Flags().StringVar(&d.subject, "subject", "", "answer only if the question's subject, as printed by show, begins with `HEX`")
	return a.WithJSON(cmd, &pb.Decided{})
}

func (a *app) denyCmd() *cobra.Command {
	d := decision{answer: pb.Answer_ANSWER_DENY}
	cmd := &cobra.Command{
		Use:   "deny ID... [flags]",
		Short: "Deny questions: the calls are not executed",
		Long: `Deny one or more questions. The agent is told that the call was denied and not
executed, and the reason, if you give one. A denial overrides an approval that
no call has used yet.`,
		Example: `  $ tgctl approvals deny A-17 --reason "use the staging database"
  $ tgctl approvals deny --all-from github`,
		ValidArgsFunction: a.CompleteApprovals(),
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			return a.decide(ctx, c, &d, args)
		}),
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if (len(args) == 0) == (d.from == "") {
			return errors.New("give either ids of questions or --all-from SERVER")
		}
		return nil
	}
	cmd.Flags().StringVar(&d.note, "reason", "", "a `TEXT` for the agent and the record")
	cmd.Flags().StringVar(&d.subject, "subject", "", "answer only if the question's subject, as printed by show, begins with `HEX`")
	cmd.Flags().StringVar(&d.from, "all-from", "", "deny every waiting question of `SERVER`")
	ui.CompleteFlag(cmd, "all-from", connect.Listed(a.App, func(c *client.Client, ctx context.Context) ([]*pb.Approval, error) {
		return c.ListApprovals(ctx, false)
	}, (*pb.Approval).GetServer))
	return a.WithJSON(cmd, &pb.Decided{})
}

// decide answers the questions with the given ids. If one of several can't be answered,
// it prints why and answers the rest.
func (a *app) decide(ctx context.Context, c *client.Client, d *decision, ids []string) error {
	ids = distinct(ids)
	if d.subject != "" && len(ids) != 1 {
		return ui.Misuse("--subject needs exactly one question")
	}
	if d.from != "" {
		return a.denyFrom(ctx, c, d)
	}
	terms, err := d.grant.terms()
	if err != nil {
		return &ui.UsageError{Err: err}
	}
	d.terms, d.prover = terms, &approval.Prover{Client: c}
	defer d.prover.Close()
	if d.edit && (len(ids) > 1 || terms != nil) {
		return ui.Misuse("--edit needs exactly one question, and no grant")
	}
	var failed error
	for _, id := range ids {
		if err := a.decideOne(ctx, c, d, id); err != nil {
			err = approval.Failure(id, err)
			if len(ids) == 1 {
				return err
			}
			a.PrintError(err)
			failed = err
		}
	}
	if failed != nil {
		return &ui.ExitError{Code: ui.ExitCode(failed)}
	}
	return nil
}

// decideOne reads a question and answers exactly what it read: it sends the subject with
// the answer, and the daemon refuses if the subject has changed.
func (a *app) decideOne(ctx context.Context, c *client.Client, d *decision, id string) error {
	q, err := c.GetApproval(ctx, id)
	if err != nil {
		return err
	}
	// A denial beats an approval that no call has used yet.
	late := d.answer == pb.Answer_ANSWER_DENY && q.GetState() == pb.ApprovalState_APPROVAL_STATE_APPROVED && q.GetGood() != nil && !q.GetSpent()
	if !approval.IsOpen(q) && !late {
		return fmt.Errorf("%w: %s", client.ErrDecided, approval.StateLine(q, a.Now()))
	}
	if want, err := hex.DecodeString(strings.ToLower(d.subject)); err != nil || len(want) < 4 && d.subject != "" {
		return ui.Misuse("invalid --subject %q: use an even number of hexadecimal digits, at least 8", d.subject)
	} else if !bytes.HasPrefix(q.GetSubject(), want) {
		return fmt.Errorf("%w: its subject is %x", client.ErrChanged, q.GetSubject())
	}
	if login := approval.LoginCommand(q); login != "" && d.answer == pb.Answer_ANSWER_APPROVE { // before anything is edited or proved
		return &ui.HintError{Err: errors.New("a login can't be approved"), Hint: "Log in with: " + string(login)}
	}
	if q.GetOnlyColleagues() && d.answer == pb.Answer_ANSWER_APPROVE {
		return &ui.HintError{Err: errors.New("only a colleague can approve it"), Hint: "It waits in the queue of those whom your fleet's policy names. To deny it: tgctl approvals deny " + ui.Word(q.GetId())}
	}
	var edit []byte
	if d.edit {
		if edit, err = a.editArguments(ctx, q, a.Err); err != nil {
			return err
		}
		if err := a.tell(editedLines(q, edit, a.ErrColumns)); err != nil {
			return err
		}
	}
	var proof *pb.Proof
	if d.answer == pb.Answer_ANSWER_APPROVE && approval.NeedsProof(q) {
		if proof, err = d.prover.Proof(ctx, func() error { return a.aboutToApprove(q, d.subject != "") }); err != nil {
			return err
		}
	}
	done, err := c.Decide(ctx, &pb.Decision{
		Id: q.GetId(), Subject: q.GetSubject(), Answer: d.answer, Note: d.note, Surface: a.Surface(), Grant: d.terms, Edit: edit, Proof: proof,
	})
	clear(proof.GetPassphrase())
	clear(proof.GetCode())
	if errors.Is(err, client.ErrProofWrong) || errors.Is(err, client.ErrLockedOut) {
		d.prover.Forget()
	}
	if err != nil {
		return err
	}
	return a.printDecided(d, q, edit, done)
}

// printDecided prints what was decided. It uses q as it was read before, since a decided
// question no longer carries its arguments. edit holds the arguments that replaced those
// in q, nil if there are none.
func (a *app) printDecided(d *decision, q *pb.Approval, edit []byte, done *pb.Decided) error {
	if a.AsJSON {
		return a.PrintJSON(done)
	}
	ended := done.GetApproval()
	word, then := display.Safe("approved"), display.Safe("Applies to exactly this call, once. There is nothing to revoke.")
	if d.answer == pb.Answer_ANSWER_DENY {
		word, then = "denied", "The agent is told that the call was not executed."
	}
	if q.GetDevice() != "" {
		then = "tg-fleet signs that with your key and sends it to the other machine, for exactly this call.\nIf that fails: tgctl fleet status"
	}
	if ended.GetEdited() {
		then = "Applies to the call with your arguments, once, if the rules forward it.\nThe agent is told that they were changed."
	}
	if g := done.GetGrant(); g != nil {
		then = a.tilde(grantGiven(g))
		for _, o := range q.GetOffers() {
			if o.GetMatch() == g.GetMatch() {
				then += "\nBefore, it " + coveredBefore(q, o) + "."
			}
		}
	} else if d.answer == pb.Answer_ANSWER_APPROVE && len(q.GetOffers()) > 1 {
		then += "\nIt could have been a grant:"
		for _, line := range a.offerLines(q) {
			then += "\n" + line
		}
	}
	if ended.GetGood() != nil && q.GetParked() && q.GetWaiting() == 0 {
		then += "\nThe call is parked: the agent was told to repeat it. The answer is kept for " + display.Span(ended.GetGood().AsTime().Sub(a.Now())) + "."
	}
	line, room := word+" "+questionLine(q), cmp.Or(ui.Behind(2, a.Width()), ui.ShortRoom)
	if edit != nil {
		line += "\n  " + display.JSONLine(edit, room, "") + "\ninstead of:"
	}
	if _, err := fmt.Fprintf(a.Out, "%s\n", line); err != nil {
		return err
	}
	if err := a.printSent(d, q, room); err != nil {
		return err
	}
	return a.PrintLines(ui.Folded(then, a.Width()))
}

// printSent prints the arguments of a call that was decided: on one line if they fit into room columns or
// were denied, otherwise in full.
func (a *app) printSent(d *decision, q *pb.Approval, room int) error {
	if whole := ui.ShortParams(q.GetMethod(), q.GetArguments(), 0, ""); d.answer == pb.Answer_ANSWER_APPROVE && display.Width(whole) > room {
		return a.showParams(q, "all of it is on record: tgctl audit list --tool "+ui.ShellWord(display.Name(q.GetTool())))
	}
	if short := ui.ShortParams(q.GetMethod(), q.GetArguments(), room, ""); short != "" {
		return a.PrintLines([]display.Safe{"  " + short})
	}
	return nil
}

// denyFrom denies all open questions of one server.
func (a *app) denyFrom(ctx context.Context, c *client.Client, d *decision) error {
	denied, failed, err := c.DenyFrom(ctx, d.from, d.note, a.Surface())
	switch {
	case errors.Is(err, client.ErrForbidden):
		return approval.Failure(d.from, err)
	case err != nil:
		return err
	case len(denied)+len(failed) == 0:
		a.PrintMessage("No question of %s is waiting.", display.Name(d.from))
		return nil
	}
	for _, q := range denied {
		if err := a.printDecided(d, q, nil, &pb.Decided{Approval: q}); err != nil {
			return err
		}
	}
	for _, why := range failed {
		a.PrintError(errors.New(why))
	}
	if len(failed) > 0 {
		return &ui.ExitError{Code: ui.ExitFailed}
	}
	return nil
}

// distinct normalizes ids and removes duplicates. It keeps their order.
func distinct(ids []string) []string {
	var out []string
	for _, id := range ids {
		if id = approval.ID(id); !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// usualColumns is the width of a terminal that says nothing of its own.
const usualColumns = 80

// aboutToApprove prints all of the question that a secret is asked for. It fails if that is long, unless
// the person has seen it before.
func (a *app) aboutToApprove(q *pb.Approval, seen bool) error {
	columns := cmp.Or(a.ErrColumns, usualColumns)
	lines := paramLines(q, columns)
	if rest := len(lines) - showLines; rest > 0 && !seen {
		id := display.Name(q.GetId())
		return &ui.HintError{Err: fmt.Errorf("%s has %s of arguments, too many to read before a passphrase", id, ui.Plural(len(lines), "line", "lines")),
			Hint: fmt.Sprintf("Show it first: tgctl approvals show %s | less\nThen name what you saw: tgctl approvals approve %s --subject %s", id, id, approval.ShortSubject(q.GetSubject()))}
	} else if rest > 0 {
		lines = append(lines[:showLines], ui.Line{Text: "… " + ui.Plural(rest, "more line", "more lines"), Tone: display.Warn})
	}
	core := &ui.Sheet{}
	core.AddIn(display.Strong, "question", questionLine(q))
	approval.AddCore(core, q, a.Now())
	return a.tell(append(core.Toned(columns), lines...))
}

// tell prints lines for a person, beside the command's output.
func (a *app) tell(lines []ui.Line) error {
	return ui.WriteLines(a.Err, ui.Painted(a.ErrPaint(), lines))
}
