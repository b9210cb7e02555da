package inbox

import (
	"context"
	"io"

	tea "charm.land/bubbletea/v2"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// editing runs the person's editor while the screen is suspended. It implements
// tea.ExecCommand.
type editing struct {
	app   *app
	ctx   context.Context // ends with the screen
	asked *pb.Approval
	edit  []byte // the edited arguments
}

// Run runs the editor until it exits.
func (e *editing) Run() (err error) {
	e.edit, err = e.app.editArguments(e.ctx, e.asked, e.app.Out)
	return err
}

// The editor uses the app's terminal, so these are ignored.
func (*editing) SetStdin(io.Reader)  {}
func (*editing) SetStdout(io.Writer) {}
func (*editing) SetStderr(io.Writer) {}

// edit gives the terminal to the editor, and passes the result to the queue.
func (m *watchModel) edit(asked *pb.Approval) tea.Cmd {
	e := &editing{app: m.queue.app, ctx: m.ctx, asked: asked}
	return tea.Exec(e, func(err error) tea.Msg {
		return queueMsg(func(q *queue) action { return q.edited(asked, e.edit, err) })
	})
}

// edited handles the arguments that a person wrote instead of asked's, or the editor's error.
func (q *queue) edited(asked *pb.Approval, arguments []byte, err error) action {
	d := q.detail
	if d == nil || d.question != asked {
		return action{} // another question is shown now
	}
	d.inEditor = false
	switch {
	case err != nil:
		q.status = approval.Clipped(display.Text(err.Error()))
	case d.ended == "":
		q.status = ""
		q.replace(arguments)
	}
	return action{}
}

// replace sets the arguments to send; nil restores the agent's.
func (q *queue) replace(arguments []byte) {
	d := q.detail
	d.edit, d.seen, d.top = arguments, nil, 0
	q.layout()
}

// editedLines lays out the edited arguments and how they differ from the agent's.
func editedLines(asked *pb.Approval, edit []byte, columns int) []ui.Line {
	lines := jsonLines("your arguments, to be judged like a call of the agent", edit, columns)
	lines = append(lines, ui.InTone(display.Faint, "", "your changes:")...)
	if diff := differing(comparedPart(asked), edit, columns); len(diff) > 0 {
		lines = append(lines, diff...)
	} else {
		lines = append(lines, ui.Line{Text: "  only the formatting of the values"})
	}
	return lines
}
