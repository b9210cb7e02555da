package inbox

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// plainKeys is what help prints in the plain queue.
const plainKeys = `show ID           print a question in full
approve ID        approve it, once it was printed in full
deny ID [REASON]  deny it
list              print what waits
quit              end`

// plainQueue is the queue as lines: each question is printed when it is asked, in a few lines, and typed
// lines answer. Nothing is drawn over.
type plainQueue struct {
	*app
	client *client.Client
	rows   []*approval.Row
	shown  map[string][]byte // subjects of open questions that were printed in full
	bell   bool
	began  time.Time // older questions don't ring
}

// watchPlain runs the plain queue until the person quits, the input ends or ctx ends.
func (a *app) watchPlain(ctx context.Context, o watchOptions) error {
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, stop := context.WithCancel(ctx)
	p := &plainQueue{app: a, client: c, shown: map[string][]byte{}, bell: o.bell, began: a.Now()}
	events := make(chan inbox.Event)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() {
		for e := range inbox.Watch(ctx, c) {
			select {
			case events <- e:
			case <-ctx.Done():
			}
		}
	})
	a.PrintMessage("Questions are printed as they are asked. Type help for what to type.")
	if o.first != "" {
		if err := p.obey(ctx, "show "+o.first); err != nil {
			return err
		}
	}
	input := newTypedLines(a.In)
	defer input.close()
	for line := input.next(); ; {
		select {
		case e := <-events:
			p.event(e)
		case typed := <-line:
			err := typed.err
			if err == nil {
				err = p.obey(ctx, typed.text)
			}
			if err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			line = input.next()
		case <-ctx.Done():
			return nil
		}
	}
}

// typedLines reads lines one at a time, when they are asked for: what else reads from the terminal between
// them loses nothing. A read from a terminal can't be interrupted, so its goroutine ends with the program.
type typedLines struct {
	want  chan struct{}
	lines chan typedLine
}

type typedLine struct {
	text string
	err  error
}

func newTypedLines(r io.Reader) *typedLines {
	t := &typedLines{want: make(chan struct{}, 1), lines: make(chan typedLine, 1)}
	go func() {
		in := bufio.NewReader(r)
		for range t.want {
			text, err := in.ReadString('\n')
			t.lines <- typedLine{text, err}
		}
	}()
	return t
}

// next returns where the next line arrives.
func (t *typedLines) next() <-chan typedLine {
	t.want <- struct{}{}
	return t.lines
}

func (t *typedLines) close() { close(t.want) }

// event prints an event of the inbox.
func (p *plainQueue) event(e inbox.Event) {
	id := e.Question.GetId()
	i := slices.IndexFunc(p.rows, func(r *approval.Row) bool { return r.ID == id })
	switch e.Kind {
	case inbox.Lost:
		p.PrintMessage("Not connected to the daemon, which keeps its questions; reconnecting ...")
	case inbox.Open:
		r := approval.NewRow(e.Question)
		if i >= 0 {
			if was := p.rows[i]; was.MovedOn != r.MovedOn && r.MovedOn {
				p.say(ui.InTone(display.Faint, display.Name(id)+": "+approval.WhenMovedOn)...)
			}
			p.rows[i] = r
			return
		}
		p.rows = append(p.rows, r)
		p.say(p.rowLines(r)...)
		if p.bell && r.Created.After(p.began) {
			_, _ = io.WriteString(p.Err, "\a") // as with messages, a failure could be reported nowhere
		}
	case inbox.Ended:
		if i >= 0 {
			p.rows = slices.Delete(p.rows, i, i+1)
		}
		delete(p.shown, id)
		p.say(ui.InTone(display.Faint, approval.EndLine(e.Question))...)
	}
}

// rowLines tells of a question in a few lines.
func (p *plainQueue) rowLines(r *approval.Row) []ui.Line {
	id := display.Name(r.ID)
	lines := ui.InTone(display.Strong, id+" waits, "+display.Span(r.Expires.Sub(p.Now()))+" left: "+r.Call+" on "+r.Server+" for "+r.Agent)
	if args := rowArgs(r, cmp.Or(ui.Behind(2, p.Width()), ui.ShortRoom)); args != "" {
		lines = append(lines, ui.Line{Text: "  " + args})
	}
	for _, part := range ui.Hanging("  "+cmp.Or(ui.Choose(r.MovedOn, approval.WhenMovedOn, ""), r.Danger, r.Why), p.Width(), 2) {
		lines = append(lines, ui.Line{Text: part, Tone: display.Warn})
	}
	return lines
}

// say prints lines. A failure shows when the next command prints.
func (p *plainQueue) say(lines ...ui.Line) { _ = p.PrintToned(lines) }

// obey does what a typed line says. io.EOF ends the queue.
func (p *plainQueue) obey(ctx context.Context, line string) error {
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	id, note, _ := strings.Cut(strings.TrimSpace(rest), " ")
	id = approval.ID(id)
	switch verb {
	case "":
	case "q", "quit":
		return io.EOF
	case "l", "list":
		p.say(slices.Concat(ui.Map(p.rows, p.rowLines)...)...)
		if len(p.rows) == 0 {
			p.PrintMessage("No question is waiting.")
		}
	case "s", "show":
		p.show(ctx, id)
	case "a", "approve":
		if p.shown[id] == nil {
			p.PrintMessage("%s was not printed in full yet. Type: show %s", display.Name(id), display.Name(id))
			return nil
		}
		p.decide(ctx, &decision{answer: pb.Answer_ANSWER_APPROVE, subject: hex.EncodeToString(p.shown[id])}, id)
	case "d", "deny":
		p.decide(ctx, &decision{answer: pb.Answer_ANSWER_DENY, note: strings.TrimSpace(note)}, id)
	default:
		p.PrintMessage("%s", plainKeys)
	}
	return nil
}

// decide answers a question and prints what was decided, or why it was not.
func (p *plainQueue) decide(ctx context.Context, d *decision, id string) {
	if err := p.app.decide(ctx, p.client, d, []string{id}); err != nil {
		p.PrintError(err)
	}
}

// show prints a question in full.
func (p *plainQueue) show(ctx context.Context, id string) {
	q, err := p.client.GetApproval(ctx, id)
	if err != nil {
		p.PrintError(approval.Failure(id, err))
		return
	}
	lines := approval.Sheet(q, p.Now()).Toned(p.Width())
	if len(q.GetArguments()) > 0 {
		lines = append(lines, paramLines(q, p.Width())...)
	}
	lines = append(lines, readPast(ctx, p.client, q).lines(q, p.Now(), p.Width())...)
	if err := p.PrintToned(lines); err != nil {
		return // it was not shown
	}
	if approval.IsOpen(q) {
		p.shown[id] = bytes.Clone(q.GetSubject())
	}
}
