package slack

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"

	api "github.com/slack-go/slack"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// Width of the values in columns, the maximum number of texts, and the length of each.
	valuesColumns = 100
	valuesTexts   = 3
	valuesMost    = 2800

	rowsMost = 2600 // of all lines above the values together
	rowMost  = 500
	callMost = 300
)

// Ids of the buttons and of their block.
const (
	pressApprove = "approve"
	pressDeny    = "deny"
	answerBlock  = "answer"
)

// post is a message to send.
type post struct {
	text   string // shown where blocks are not, as in notifications
	blocks []api.Block
}

// digest identifies the content of a message.
func (p *post) digest() string {
	text, _ := json.Marshal(p.blocks) // blocks made here can always be encoded
	sum := sha256.Sum256(append(text, p.text...))
	return hex.EncodeToString(sum[:16])
}

// post lays out a card: the question with its buttons while it is open, and its end afterwards.
func (c *card) post(sheet Sheet) *post {
	id := display.Name(c.ID)
	p := &post{text: "ThoughtGate asks " + escaped(id, 40) + ": " + escaped(sheet.Call, callMost)}
	p.add(api.NewHeaderBlock(api.NewTextBlockObject(api.PlainTextType, "Question "+escaped(id, headerMost-20), false, false)))
	if c.open() && c.Thread == "" {
		p.mention(c.flow)
	}
	rows := []string{code(sheet.Call, callMost)}
	used, cut := units(rows[0]), wasCut(rows[0])
	put := func(line string) {
		cut = cut || wasCut(line)
		if used += units(line) + 1; used <= rowsMost {
			rows = append(rows, line)
		}
	}
	for _, row := range sheet.Rows {
		if text := code(row.Text, rowMost); text != "" {
			put("*" + escaped(row.Label, 40) + ":* " + text)
		}
	}
	if cut = cut || used > rowsMost; cut {
		rows = append(rows, "_Shortened; in full:_ "+code("tgctl approvals show "+id, 100))
	}
	rows = append(rows, "*digest:* "+code(display.Safe(c.Subject), 80))
	p.add(section(strings.Join(rows, "\n")))
	if c.open() {
		cut = c.values(p, sheet.Values) || cut
		c.ask(p, sheet, cut)
	} else {
		p.add(section(c.ended()))
	}
	return p
}

// wasCut reports whether the code span at the end of line was cut.
func wasCut(line string) bool { return strings.HasSuffix(line, ellipsis+"`") }

// mention adds the users and groups that a workflow mentions.
func (p *post) mention(w *pb.PolicyWorkflow) {
	if who := mentions(w.GetSlack().GetMention()); who != "" && units(who) < textMost {
		p.add(section(who))
	}
}

func (p *post) add(b api.Block) { p.blocks = append(p.blocks, b) }

// section returns a block of text in which Slack links only what is marked up as a link.
func section(text string) api.Block {
	return api.NewSectionBlock(api.NewTextBlockObject(api.MarkdownType, text, false, true), nil, nil)
}

// values adds the values of the call, and reports whether any were cut.
func (c *card) values(p *post, raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	show, size, hidden := code("tgctl approvals show "+display.Name(c.ID), 100), len(raw), ""
	switch n := c.q.GetArgumentsBytes(); {
	case n > 0:
		size, hidden = int(min(n, math.MaxInt32)), "they could not be read"
	case c.plain:
		hidden = "Slack did not accept them"
	}
	head := "*values,* " + string(display.Count(size)) + " bytes:"
	if hidden != "" {
		p.add(section(head + " " + hidden + ". See them in a terminal: " + show))
		return true
	}
	var lines []display.Safe
	for line := range strings.SplitSeq(string(display.JSON(raw, valuesColumns)), "\n") {
		lines = append(lines, display.Safe(line))
	}
	p.add(section(head))
	texts, left := fences(lines, valuesMost, valuesTexts)
	for _, text := range texts {
		p.add(section(text))
	}
	if left > 0 {
		p.add(section(ellipsis + " *" + string(display.Count(left)) + " more lines are not shown here:* " + show))
	}
	return left > 0
}

// ask adds the question's deadline and the buttons. cut says that the message does not show
// everything.
func (c *card) ask(p *post, sheet Sheet, cut bool) {
	id := display.Name(c.ID)
	lines := []string{"Waiting until " + moment(c.q.GetExpires().AsTime()) + "."}
	approvable := c.approvable()
	switch login := approval.LoginCommand(c.q); {
	case login != "":
		lines = append(lines, "Nobody can approve this, so you can only deny it here. To log in, in a terminal: "+code(login, 300))
	case c.presence():
		lines = append(lines, "Approval needs proof of presence, so you can only deny here. To approve, in a terminal: "+code("tgctl approvals approve "+id, 100))
	case !approvable:
		lines = append(lines, "This can be denied but not approved on Slack. To approve, in a terminal: "+code("tgctl approvals approve "+id, 100))
	}
	if c.unsure {
		lines = append(lines, "This may be a duplicate: Slack did not confirm the first message.")
	}
	p.add(section(strings.Join(lines, "\n")))
	var buttons []api.BlockElement
	if approvable {
		yes := api.NewButtonBlockElement(pressApprove, c.key(), plain("Approve"))
		yes.Style = api.StylePrimary
		sure := code(sheet.Call, confirmMost-150) + " is forwarded once, exactly as it was asked."
		if c.q.GetDevice() != "" {
			sure = code(sheet.Call, confirmMost-150) + " is executed once, on another machine. The key of the user of this one signs that."
		}
		if cut {
			sure += " *Not all of it is shown in this message.*"
		}
		yes.Confirm = api.NewConfirmationBlockObject(plain("Approve "+escaped(id, 40)+"?"),
			api.NewTextBlockObject(api.MarkdownType, sure, false, true), plain("Approve"), plain("Back"))
		buttons = append(buttons, yes)
	}
	no := api.NewButtonBlockElement(pressDeny, c.key(), plain("Deny"))
	no.Style = api.StyleDanger
	p.add(api.NewActionBlock(answerBlock, append(buttons, no)...))
}

func plain(text string) *api.TextBlockObject {
	return api.NewTextBlockObject(api.PlainTextType, text, false, false)
}

// ended returns how the question ended.
func (c *card) ended() string {
	q := c.q
	if c.gone {
		return "*Ended.* ThoughtGate no longer knows this question, and nothing was decided."
	}
	lines := []string{"*" + stateWord(q) + "*" + c.by()}
	if note := display.Text(q.GetNote()); note != "" {
		lines = append(lines, "*note:* "+code(note, 1000))
	}
	switch {
	case q.GetState() == pb.ApprovalState_APPROVAL_STATE_EXPIRED:
		lines = append(lines, "Nobody answered in time, so the call was denied.")
	case q.GetGood() != nil && !q.GetSpent():
		lines = append(lines, "The agent was told to repeat the call; the answer is kept until "+moment(q.GetGood().AsTime())+".")
	case q.GetEdited():
		lines = append(lines, "It was approved with changed arguments.")
	}
	return strings.Join(lines, "\n")
}

// by returns who answered, from where and when.
func (c *card) by() string {
	q, by := c.q, ""
	switch {
	case q.GetApprover() != "" && isID(q.GetApprover(), "UW"):
		by = " by <@" + q.GetApprover() + "> on Slack"
	case q.GetDecider() != "":
		by = " by " + code(ui.Who(q.GetDecider(), q.GetSurface(), "the user"), 300)
	}
	if q.GetDecided() != nil {
		by += ", " + moment(q.GetDecided().AsTime())
	}
	return by
}

// stateWord names the state of a question.
func stateWord(q *pb.Approval) string { return cmp.Or(stateWords[q.GetState()], "Ended") }

var stateWords = map[pb.ApprovalState]string{
	pb.ApprovalState_APPROVAL_STATE_OPEN:      "Waiting",
	pb.ApprovalState_APPROVAL_STATE_APPROVED:  "Approved",
	pb.ApprovalState_APPROVAL_STATE_REJECTED:  "Denied",
	pb.ApprovalState_APPROVAL_STATE_EXPIRED:   "Expired",
	pb.ApprovalState_APPROVAL_STATE_WITHDRAWN: "Withdrawn",
}

// head returns the message that a burst of questions hangs below as a thread.
func head(count int, flow *pb.PolicyWorkflow) *post {
	text := string(display.Count(count)) + " questions at once. They follow in this thread."
	p := &post{text: "ThoughtGate asks " + text}
	p.mention(flow)
	p.add(section("*" + text + "*\n" + code("tgctl approvals", 40) + " lists them; `tgctl approvals deny --all-from SERVER` denies those of one server."))
	return p
}
