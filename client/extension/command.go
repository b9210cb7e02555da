package extension

import (
	"context"
	"fmt"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// Command is run for a person. What it writes to out appears at once. It returns
// the exit code of `tgctl ext run`. The gate waits 120 s.
type Command func(ctx context.Context, out *Output, args []string) (exit int, err error)

// Output is what a person sees of a command. It is safe for concurrent use, and
// of no more use when the command has returned.
type Output struct {
	server  *server
	request string
}

// Write shows text, with the line breaks that it has.
func (o *Output) Write(text []byte) (int, error) {
	if err := o.event("text", string(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Notice shows one line about the command itself, apart from what it prints.
func (o *Output) Notice(line string) error { return o.event("system", line) }

func (o *Output) event(kind, content string) error {
	event := marshal(struct {
		Kind    string `json:"kind"`
		Content string `json:"content,omitempty"`
	}{kind, content})
	return o.server.send(&pb.Frame{Body: &pb.Frame_CommandOutput{CommandOutput: &pb.CommandOutput{RequestId: o.request, Event: event}}})
}

// Task is something that takes its time, of which a person sees how far it is.
type Task struct {
	server *server
	id     string
}

// Task begins a task with that name for a person. [Task.Done] ends it.
func (o *Output) Task(label string) (*Task, error) {
	o.server.mu.Lock()
	o.server.tasks++
	t := &Task{o.server, fmt.Sprintf("%s-%d", o.request, o.server.tasks)}
	o.server.mu.Unlock()
	return t, t.server.send(&pb.Frame{Body: &pb.Frame_TaskStart{TaskStart: &pb.TaskStart{Id: t.id, Label: label}}})
}

// Update says how much of the task is done.
func (t *Task) Update(current, total uint64) error {
	return t.server.send(&pb.Frame{Body: &pb.Frame_TaskUpdate{TaskUpdate: &pb.TaskUpdate{Id: t.id, Current: &current, Total: &total}}})
}

// Log shows one line of the task.
func (t *Task) Log(line string) error {
	return t.server.send(&pb.Frame{Body: &pb.Frame_TaskLog{TaskLog: &pb.TaskLog{Id: t.id, Line: line}}})
}

// Done ends the task; nil means that it went well.
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
