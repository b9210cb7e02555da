package inbox

import (
	"context"
	"errors"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

func (a *app) watchCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "watch [ID]",
		Short: "Answer questions as they arrive, on a full screen",
		Long: `Show the waiting questions on the whole screen, each from the moment it is asked
until it ends, and answer them with keys:

  up, down       select a question
  enter          show it in full: everything that show prints
  a, then y      approve it
  d, then enter  deny it, with a reason if you type one
  g              approve it and grant further calls: set the bounds of the
                 grant with the arrow keys, as --match, --for, --times and
                 --in of approve do, then enter, then y
  e              change its arguments in $VISUAL or $EDITOR; your version is
                 shown beside the agent's, then a and y approve it
  esc            back to the list
  q              quit

A question is shown in full before it can be answered, and the answer applies
only to what was shown. The eight digits beside an id are the beginning of its
subject. When the list has just changed by itself, a, d, g and e do nothing for
half a second. Others may answer in the meantime; the first answer counts. With
an ID, that question is selected first.`,
		Example:           `  $ tgctl approvals watch`,
		Args:              ui.AtMostOne,
		ValidArgsFunction: a.CompleteApprovals(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.fullScreen(); err != nil {
				return err
			}
			first := ""
			if len(args) > 0 {
				first = approval.ID(args[0])
			}
			return a.watchApprovals(cmd.Context(), first)
		},
	}
}

// fullScreen returns an error if a full screen can't be shown here.
func (a *app) fullScreen() error {
	const hint = "List the questions instead: tgctl approvals"
	switch term := a.Getenv("TERM"); {
	case !a.InTerminal || !a.OutTerminal:
		return &ui.HintError{Err: errors.New("watch needs a terminal for input and output"), Hint: hint}
	case term == "" || term == "dumb":
		return &ui.HintError{Err: errors.New("watch needs a full-screen terminal, but TERM is unset or dumb"), Hint: hint}
	}
	return nil
}

// watchApprovals runs the full-screen queue until the user quits or ctx ends. The
// question with the id first is selected at the start, if it is open.
func (a *app) watchApprovals(ctx context.Context, first string) error {
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	live, stop := context.WithCancel(ctx) // ends goroutines and an editor that has the screen
	defer stop()
	m := &watchModel{queue: &queue{app: a, wanted: first}, client: c, ctx: live}
	program := tea.NewProgram(m, tea.WithInput(a.In), tea.WithOutput(a.Out), tea.WithEnvironment(a.Environ()), tea.WithoutSignalHandler())
	m.send = program.Send
	defer context.AfterFunc(ctx, program.Quit)() // SIGTERM, or a SIGINT that does not come from a key
	_, err = program.Run()
	return err
}

// watchModel connects the queue with a terminal and the daemon.
type watchModel struct {
	queue  *queue
	client *client.Client
	ctx    context.Context // ends with the screen
	send   func(tea.Msg)   // safe for concurrent use; returns when the screen has ended
}

// queueMsg delivers the result of something that the queue asked for. Like the queue's
// methods, it is called from one goroutine.
type queueMsg func(q *queue) action

// secondMsg reports that a second has passed, so that displayed times change.
type secondMsg time.Time

func second() tea.Cmd {
	return tea.Tick(time.Second, func(now time.Time) tea.Msg { return secondMsg(now) })
}

func (m *watchModel) Init() tea.Cmd { return tea.Batch(second(), m.watch) }

// watch sends the daemon's events about questions to the screen until it ends.
func (m *watchModel) watch() tea.Msg {
	for event := range inbox.Watch(m.ctx, m.client) {
		m.send(event)
	}
	return nil
}

// read reads a question for d, and then what happened before it.
func (m *watchModel) read(d *detail) tea.Msg {
	ctx, cancel := context.WithTimeout(m.ctx, inbox.Timeout)
	defer cancel()
	asked, err := m.client.GetApproval(ctx, d.id)
	m.send(queueMsg(func(q *queue) action { return q.loaded(d, asked, err) }))
	if err != nil || !approval.IsOpen(asked) {
		return nil
	}
	before := readPast(ctx, m.client, asked)
	return queueMsg(func(q *queue) action { return q.setHistory(d, before) })
}

// Update passes msg to the queue and starts what the queue asks for.
func (m *watchModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	before := m.queue.width
	w := m.queue.told(msg)
	switch {
	case w.quit:
		return m, tea.Quit
	case w.suspend:
		return m, tea.Suspend
	case w.edit != nil:
		return m, m.edit(w.edit)
	case w.read != nil:
		return m, func() tea.Msg { return m.read(w.read) }
	case w.decide != nil:
		return m, func() tea.Msg {
			done, err := inbox.Decide(m.ctx, m.client, w.decide)
			return queueMsg(func(q *queue) action { return q.handleDecided(w.decide, done, err) })
		}
	}
	switch msg.(type) {
	case secondMsg:
		return m, second()
	case tea.WindowSizeMsg:
		if before > 0 {
			return m, afresh
		}
	}
	return m, nil
}

// afresh redraws the screen after resetting the scroll margins. Bubble Tea scrolls
// between margins and then sets them to the height it knows of; if the terminal has grown
// meanwhile, its lower part would stay outside.
var afresh = tea.Sequence(tea.Raw("\x1b[r"), tea.ClearScreen)

// told handles msg.
func (q *queue) told(msg tea.Msg) action {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		q.width, q.height = msg.Width, msg.Height
		q.layout()
	case tea.KeyPressMsg:
		return q.press(msg.String(), msg.Text)
	case tea.PasteMsg:
		q.pasted(msg.Content)
	case inbox.Event:
		return q.event(msg)
	case queueMsg:
		return msg(q)
	}
	return action{}
}

// View draws the screen. It emphasizes with bold, which needs no colour.
func (m *watchModel) View() tea.View {
	var b strings.Builder
	for i, line := range m.queue.screen() {
		if i > 0 {
			b.WriteByte('\n')
		}
		if line.strong {
			b.WriteString("\x1b[1m" + string(line.text) + "\x1b[m")
		} else {
			b.WriteString(string(line.text))
		}
	}
	v := tea.NewView(b.String())
	v.AltScreen = true
	return v
}
