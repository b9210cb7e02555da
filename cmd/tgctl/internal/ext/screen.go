package ext

import (
	"fmt"
	"slices"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// commandScreen shows the output of a command: its text on stdout, byte for byte unless
// stdout is a terminal, and the rest on stderr. If stderr is a terminal, its last line
// shows the progress of the current tasks.
type commandScreen struct {
	ui.Partial
	tasks []*shownTask // running, in the order in which they began
	drawn bool         // the progress line is on the screen
}

type shownTask struct {
	id, label, message string
	current, total     uint64
}

func (s *commandScreen) show(e *pb.InvokeEvent) error {
	switch e := e.GetEvent().(type) {
	case *pb.InvokeEvent_Output:
		return s.output(e.Output)
	case *pb.InvokeEvent_Task:
		return s.task(e.Task)
	}
	return nil
}

// output shows a piece of output. A line of text may come in several pieces.
func (s *commandScreen) output(o *pb.CommandOutput) error {
	if err := s.erase(); err != nil {
		return err
	}
	text := o.GetContent()
	switch o.GetKind() {
	case "done":
		return nil
	case "text":
		if text == "" {
			return s.draw()
		}
		if err := s.PrintPart(text); err != nil {
			return err
		}
	default: // system, and kinds that a newer daemon may have
		s.EndLine()
		s.PrintMessage("%s", display.Lines(text))
	}
	return s.draw()
}

// task updates the progress line. A failure is printed even if stderr is no terminal.
func (s *commandScreen) task(t *pb.TaskEvent) error {
	if err := s.erase(); err != nil {
		return err
	}
	at := slices.IndexFunc(s.tasks, func(one *shownTask) bool { return one.id == t.GetId() })
	switch {
	case t.GetPhase() == "start" && at < 0:
		s.tasks = append(s.tasks, &shownTask{id: t.GetId(), label: t.GetLabel()})
	case t.GetPhase() == "update" && at >= 0:
		s.tasks[at].current, s.tasks[at].total, s.tasks[at].message = t.GetCurrent(), t.GetTotal(), t.GetLine()
	case t.GetPhase() == "log" && s.ErrTerminal:
		s.EndLine()
		s.PrintMessage("%s", display.Lines(t.GetLine()))
	case t.GetPhase() == "done":
		label := t.GetLabel()
		if at >= 0 {
			label = s.tasks[at].label
			s.tasks = slices.Delete(s.tasks, at, at+1)
		}
		if why := t.GetError(); why != "" {
			s.EndLine()
			s.PrintMessage("%s failed: %s", display.Text(label), display.Text(why))
		}
	}
	return s.draw()
}

// draw shows the progress of the newest task, unless the line has text.
func (s *commandScreen) draw() error {
	if !s.ErrTerminal || len(s.tasks) == 0 || (s.Open && s.OutTerminal) {
		return nil
	}
	s.drawn = true
	columns := s.ErrColumns
	if columns < 20 {
		columns = 80
	}
	_, err := fmt.Fprint(s.Err, "\r", display.Fit(progressLine(s.tasks, columns-1), columns-1), "\x1b[K")
	return err
}

// erase removes the progress line.
func (s *commandScreen) erase() error {
	if !s.drawn {
		return nil
	}
	s.drawn = false
	_, err := fmt.Fprint(s.Err, "\r\x1b[K")
	return err
}

// leave removes the progress line and ends an unfinished line.
func (s *commandScreen) leave() {
	_ = s.erase() // there is no other place to report an error
	s.EndLine()
}

// progressLine shows the progress of the newest task and the number of other tasks.
func progressLine(tasks []*shownTask, columns int) display.Safe {
	t := tasks[len(tasks)-1]
	var tail display.Safe
	switch {
	case t.total > 0:
		part := min(float64(t.current)/float64(t.total), 1)
		tail = "  " + ui.Bar(part)
	case t.current > 0:
		tail = display.Safe(fmt.Sprintf("  %d", t.current))
	default:
		tail = "  ..."
	}
	tail += ui.Choose(len(tasks) > 1, "  and "+display.Count(len(tasks)-1)+" more", "")
	label := display.Text(t.label) + ui.AfterColon(display.Text(t.message))
	return display.Fit(label, max(columns-display.Width(tail), 8)) + tail
}
