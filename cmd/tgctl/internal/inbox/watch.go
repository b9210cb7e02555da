package inbox

import (
	"context"
	"errors"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// QueueCommand returns the command queue, another name of approvals watch.
func QueueCommand(c *connect.App) *cobra.Command {
	cmd := (&app{c}).watchCmd()
	cmd.Use = "queue [ID]"
	cmd.Example = "  $ tgctl queue\n  $ tgctl queue --plain"
	return cmd
}

func (a *app) watchCmd() *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch [ID]",
		Short: "Answer questions as they arrive, on a full screen",
		Long: `Show the waiting questions on the whole screen, each from the moment it is asked
until it ends, and answer them with keys. From 100 columns on, the selected
question is shown beside the list.

` + queueKeys + `

A question is shown in full before it can be approved, and the approval applies
only to what was shown: until its arguments have been on the screen, a shows the
next part instead. The eight digits beside an id are the beginning of its
subject. When the list has just changed by itself, the answer keys do nothing
for half a second. Others may answer in the meantime; the first answer counts.
With an ID, that question is selected first.

With --plain, and where TERM is dumb, questions are printed as lines, in the
order in which they are read, and typed lines answer them.`,
		Example:           "  $ tgctl approvals watch\n  $ tgctl approvals watch --bell",
		Args:              ui.AtMostOne,
		ValidArgsFunction: a.CompleteApprovals(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !a.InTerminal || !a.OutTerminal {
				return &ui.HintError{Err: errors.New("the queue needs a terminal for input and output"), Hint: "List the questions instead: tgctl approvals"}
			}
			if len(args) > 0 {
				o.first = approval.ID(args[0])
			}
			if term := a.Getenv("TERM"); o.plain || term == "" || term == "dumb" {
				return a.watchPlain(cmd.Context(), o)
			}
			return a.watchApprovals(cmd.Context(), o)
		},
	}
	cmd.Flags().BoolVar(&o.plain, "plain", false, "print lines instead of drawing a screen, as for a screen reader")
	cmd.Flags().BoolVar(&o.bell, "bell", false, "ring the terminal's bell for new questions")
	return cmd
}

// watchOptions are the flags of watch.
type watchOptions struct {
	first       string // id of the question to begin with; empty for the oldest
	plain, bell bool
}

// watchApprovals runs the full-screen queue until the user quits or ctx ends.
func (a *app) watchApprovals(ctx context.Context, o watchOptions) error {
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	live, stop := context.WithCancel(ctx) // ends goroutines and an editor that has the screen
	defer stop()
	m := &watchModel{queue: &queue{app: a, wanted: o.first, bell: o.bell, started: a.Now()}, client: c, ctx: live}
	program := tea.NewProgram(m, tea.WithInput(a.In), tea.WithOutput(a.Out), tea.WithEnvironment(a.Environ()), tea.WithoutSignalHandler(),
		tea.WithColorProfile(colorprofile.ANSI256)) // the theme has chosen the colours; to detect more, tea would run tmux
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
	behind ui.Background

	superseded context.CancelFunc // ends the reading of a question that is shown no longer
}

// queueMsg delivers the result of something that the queue asked for. Like the queue's
// methods, it is called from one goroutine.
type queueMsg func(q *queue) action

// secondMsg reports that a second has passed, so that displayed times change.
type secondMsg time.Time

func second() tea.Cmd {
	return tea.Tick(time.Second, func(now time.Time) tea.Msg { return secondMsg(now) })
}

func (m *watchModel) Init() tea.Cmd {
	if m.behind = ui.BackgroundOf(m.queue.app.Getenv); m.behind != ui.Unknown {
		return tea.Batch(second(), m.watch)
	}
	return tea.Batch(second(), m.watch, tea.RequestBackgroundColor)
}

// watch sends the daemon's events about questions to the screen until it ends.
func (m *watchModel) watch() tea.Msg {
	for event := range inbox.Watch(m.ctx, m.client) {
		m.send(event)
	}
	return nil
}

// pastDelay is how long a question must be shown before its past is read: a person who moves through
// the list does not wait for it.
const pastDelay = 150 * time.Millisecond

// read returns a command that reads a question for d, and then what happened before it.
func (m *watchModel) read(d *detail) tea.Cmd {
	if m.superseded != nil {
		m.superseded()
	}
	ctx, cancel := context.WithTimeout(m.ctx, inbox.Timeout)
	m.superseded = cancel
	return func() tea.Msg {
		defer cancel()
		return m.readQuestion(ctx, d)
	}
}

func (m *watchModel) readQuestion(ctx context.Context, d *detail) tea.Msg {
	asked, err := m.client.GetApproval(ctx, d.id)
	m.send(queueMsg(func(q *queue) action { return q.loaded(d, asked, err) }))
	if err != nil || !approval.IsOpen(asked) {
		return nil
	}
	select {
	case <-time.After(pastDelay):
	case <-ctx.Done():
		return nil
	}
	before := readPast(ctx, m.client, asked)
	return queueMsg(func(q *queue) action { return q.setHistory(d, before) })
}

// Update passes msg to the queue and starts what the queue asks for.
func (m *watchModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	before := m.queue.width
	w := m.queue.told(msg)
	var next tea.Cmd
	switch {
	case w.quit:
		return m, tea.Quit
	case w.suspend:
		return m, tea.Suspend
	case w.edit != nil:
		return m, m.edit(w.edit)
	case w.read != nil:
		next = m.read(w.read)
	case w.decide != nil:
		next = m.decide(w.decide)
	case w.decideAll != nil:
		next = m.decide(w.decideAll...)
	}
	switch msg := msg.(type) {
	case secondMsg:
		next = tea.Batch(next, second())
	case tea.BackgroundColorMsg:
		m.behind = ui.Light
		if msg.IsDark() {
			m.behind = ui.Dark
		}
	case tea.WindowSizeMsg:
		if before > 0 {
			next = tea.Batch(next, afresh)
		}
	}
	if w.ring {
		next = tea.Batch(next, tea.Raw("\a"))
	}
	return m, next
}

// decide sends answers, one after the other.
func (m *watchModel) decide(all ...*pb.Decision) tea.Cmd {
	return func() tea.Msg {
		for _, d := range all {
			done, err := inbox.Decide(m.ctx, m.client, d)
			m.send(queueMsg(func(q *queue) action { return q.handleDecided(d, done, err) }))
		}
		return nil
	}
}

// afresh redraws the screen after resetting the scroll margins. Bubble Tea scrolls
// between margins and then sets them to the height it knows of; if the terminal has grown
// meanwhile, its lower part would stay outside.
var afresh = tea.Sequence(tea.Raw("\x1b[r"), tea.ClearScreen)

// told handles msg.
func (q *queue) told(msg tea.Msg) (w action) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		q.width, q.height = msg.Width, msg.Height
		q.layout()
	case tea.KeyPressMsg:
		w = q.press(msg.String(), msg.Text)
	case tea.PasteMsg:
		q.pasted(msg.Content)
	case inbox.Event:
		w = q.event(msg)
	case queueMsg:
		w = msg(q)
	}
	if w.isNothing() {
		w.read = q.follow().read
	}
	q.look()
	return w
}

// View draws the screen.
func (m *watchModel) View() tea.View {
	theme := ui.NewTheme(m.queue.app.Getenv, m.behind)
	var b strings.Builder
	for i, line := range m.queue.screen() {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, part := range line.parts() {
			b.WriteString(theme.Paint(part.tone, string(part.text)))
		}
	}
	v := tea.NewView(b.String())
	v.AltScreen = true
	return v
}
