package extension

import (
	"context"
	"fmt"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// Command runs a command for a person. What it writes to out is shown at once. It returns the
// exit code of `tgctl ext run`. The timeout is 120 s.
type Command func(ctx context.Context, out *Output, args []string) (exit int, err error)

// Output shows a command's output to a person. It is safe for concurrent use. It must not be
// used after the command has returned.
type Output struct {
	server  *server
	request string
}

// Write shows text with its line breaks.
func (o *Output) Write(text []byte) (int, error) {
	if err := o.event("text", string(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Notice shows one line about the command, apart from its output.
func (o *Output) Notice(line string) error { return o.event("system", line) }

func (o *Output) event(kind, content string) error {
	event := marshal(struct {
		Kind    string `json:"kind"`
		Content string `json:"content,omitempty"`
	}{kind, content})
	return o.server.send(&pb.Frame{Body: &pb.Frame_CommandOutput{CommandOutput: &pb.CommandOutput{RequestId: o.request, Event: event}}})
}

// Task is a long operation whose progress a person sees.
type Task struct {
	server *server
	id     string
}

// Task starts a task, shown with a label. [Task.Done] ends it.
func (o *Output) Task(label string) (*Task, error) {
	o.server.mu.Lock()
	o.server.tasks++
	t := &Task{o.server, fmt.Sprintf("%s-%d", o.request, o.server.tasks)}
	o.server.mu.Unlock()
	return t, t.server.send(&pb.Frame{Body: &pb.Frame_TaskStart{TaskStart: &pb.TaskStart{Id: t.id, Label: label}}})
}

// Update reports how much of the task is done.
func (t *Task) Update(current, total uint64) error {
	return t.server.send(&pb.Frame{Body: &pb.Frame_TaskUpdate{TaskUpdate: &pb.TaskUpdate{Id: t.id, Current: &current, Total: &total}}})
}

// Log shows a line of the task's log.
func (t *Task) Log(line string) error {
	return t.server.send(&pb.Frame{Body: &pb.Frame_TaskLog{TaskLog: &pb.TaskLog{Id: t.id, Line: line}}})
}

// Done ends the task; nil means success.
func (t *Task) Done(failed error) error {
	done := &pb.TaskDone{Id: t.id}
	if failed != nil {
		text := failed.Error()
		done.Error = &text
	}
	return t.server.send(&pb.Frame{Body: &pb.Frame_TaskDone{TaskDone: done}})
}

func (s *server) command(ctx context.Context, asked *pb.CommandRequest) (int32, error) {
	run := s.handler.Commands[asked.Command]
	if run == nil {
		return 0, fmt.Errorf("command %q: %w", asked.Command, errNotOffered)
	}
	out := &Output{s, asked.RequestId}
	exit, err := run(ctx, out, asked.Args)
	if err != nil {
		return 0, err
	}
	return int32(exit), out.event("done", "")
}
