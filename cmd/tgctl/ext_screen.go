package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// commandScreen shows what a command says: its text on stdout, byte for byte but
// on a terminal, and the rest on stderr. Where stderr is a terminal its last line
// is the progress of the work that is under way.
type commandScreen struct {
	partial
	tasks []*shownTask // under way, in the order in which they began
	drawn bool         // the line of progress is there
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

// output shows a piece of output. Text may come in pieces of a line.
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
		if err := s.text(text); err != nil {
			return err
		}
	default: // system, and what a newer daemon may know
		s.endLine()
		s.say("%s", display.Lines(text))
	}
	return s.draw()
}

// task keeps the line of progress right. That something has failed is told
// anywhere.
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
	case t.GetPhase() == "log" && s.errTerminal:
		s.endLine()
		s.say("%s", display.Lines(t.GetLine()))
	case t.GetPhase() == "done":
		label := t.GetLabel()
		if at >= 0 {
			label = s.tasks[at].label
			s.tasks = slices.Delete(s.tasks, at, at+1)
		}
		if why := t.GetError(); why != "" {
			s.endLine()
			s.say("%s failed: %s", display.Text(label), display.Text(why))
		}
	}
	return s.draw()
}

// draw shows the progress of what began last, unless text stands in the line.
func (s *commandScreen) draw() error {
	if !s.errTerminal || len(s.tasks) == 0 || (s.open && s.outTerminal) {
		return nil
	}
	s.drawn = true
	columns := s.errColumns
	if columns < 20 {
		columns = 80
	}
	_, err := fmt.Fprint(s.err, "\r", display.Fit(progressLine(s.tasks, columns-1), columns-1), "\x1b[K")
	return err
}

// erase takes the line of progress away.
func (s *commandScreen) erase() error {
	if !s.drawn {
		return nil
	}
	s.drawn = false
	_, err := fmt.Fprint(s.err, "\r\x1b[K")
	return err
}

// leave leaves a clean line behind.
func (s *commandScreen) leave() {
	_ = s.erase() // there is nobody else to tell
	s.endLine()
}

// barColumns is how wide the bar of a line of progress is.
const barColumns = 24

// progressLine shows how far the work is that began last, and how much else goes
// on.
func progressLine(tasks []*shownTask, columns int) display.Safe {
	t := tasks[len(tasks)-1]
	var tail display.Safe
	switch {
	case t.total > 0:
		part := min(float64(t.current)/float64(t.total), 1)
		full := int(part * barColumns)
		tail = display.Safe(fmt.Sprintf("  [%s%s] %3.0f%%", strings.Repeat("#", full), strings.Repeat("-", barColumns-full), part*100))
	case t.current > 0:
		tail = display.Safe(fmt.Sprintf("  %d", t.current))
	default:
		tail = "  ..."
	}
	tail += either(len(tasks) > 1, "  and "+display.Count(len(tasks)-1)+" more", "")
	label := display.Text(t.label) + after(display.Text(t.message))
	return display.Fit(label, max(columns-display.Width(tail), 8)) + tail
}
