// Package extension is for programs that join ThoughtGate's gate: they see calls
// before these are judged, see results before an agent does, offer tools and models,
// and run commands for a person.
//
// An extension is a program that the daemon starts, with a manifest beside it
// that says what it may do (docs/writing-extensions-go.md has a whole one). The
// two speak over its standard input and output, in the messages of
// proto/thoughtgate/extension/v1. This package speaks for it: a program fills a
// [Handler] and calls [Serve].
//
// What a program prints itself goes to standard error; the daemon keeps the last
// lines. Standard output belongs to Serve.
package extension

import (
	"context"
	"encoding/json"
	"io"
	"os"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// ProtocolVersion is the version of the protocol that this package speaks. The
// manifest has to name it.
const ProtocolVersion = 1

// Call is what an agent wants done: which tool of which server, with which
// arguments. Arguments are JSON, byte for byte as they will be sent.
type Call = pb.Call

// Capability is something an extension offers besides tools and commands. The
// gate lists it for others to read.
type Capability = pb.Capability

// Handler is what an extension does. Fields that are nil are what it doesn't. All
// functions may be called by several goroutines at once, and while others run. An
// error becomes the answer: then a call or a result is blocked, unless the
// manifest says on_error: continue. Contexts end when the gate takes its question
// back or the conversation ends.
type Handler struct {
	// Start is called once, before all else, with what the gate says of itself.
	// Host may be kept. The gate waits 10 s for it. An error ends the extension.
	Start func(ctx context.Context, host *Host) error

	// Before is asked about each call that the manifest's hooks.before names. The
	// gate waits 5 s. call is the handler's.
	Before func(ctx context.Context, call *Call) (Answer, error)

	// After is asked likewise about results, before the agent sees them. result is
	// JSON and the handler's.
	After func(ctx context.Context, call *Call, result json.RawMessage) (Answer, error)

	// Tools are offered to agents as those of a server with the extension's name.
	Tools []Tool

	// Commands are run by `tgctl ext run NAME COMMAND`, by their name.
	Commands map[string]Command

	// Providers answer for models.
	Providers []Provider

	// Capabilities are listed.
	Capabilities []*Capability

	// ConfigChanged is told of values that changed, one after the other, once the
	// extension has asked [Host.Subscribe]. The Host has the new value already.
	// Nothing else is read meanwhile, so it must return at once and ask nothing of
	// the Host.
	ConfigChanged func(key, value string)
}

// Serve answers the gate on standard input and output until the gate ends the
// conversation, which is nil. Then it waits for the functions of h that still
// run. It may be called once in a program.
func Serve(ctx context.Context, h Handler) error {
	return ServeOver(ctx, os.Stdin, os.Stdout, h)
}

// ServeOver is Serve over other streams, as for tests. When ctx ends it closes
// in.
func ServeOver(ctx context.Context, in io.ReadCloser, out io.Writer, h Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newServer(h, out)
	stop := context.AfterFunc(ctx, func() { in.Close() })
	defer stop()
	err := s.read(ctx, in)
	cancel()
	s.end()
	s.work.Wait()
	return err
}

// Answer is what an extension says of a call or a result. The zero Answer is
// none, which is an error.
type Answer struct {
	action pb.Action
	with   json.RawMessage
	reason string
}

// Continue lets it be as it is, as far as this extension goes.
func Continue() Answer { return Answer{action: pb.Action_ACTION_CONTINUE} }

// Modify puts something else in its place: whole arguments, or a whole result,
// as JSON. What stays should be copied byte for byte. The call is judged as if
// the agent had made it so.
func Modify(with json.RawMessage) Answer { return Answer{action: pb.Action_ACTION_MODIFY, with: with} }

// Block refuses it, with one sentence that a person and a model will read.
func Block(reason string) Answer { return Answer{action: pb.Action_ACTION_BLOCK, reason: reason} }

// Error is what the gate answers when it doesn't do what it was asked.
type Error struct {
	Code    int64 // as JSON-RPC has them; -32602 for what the manifest does not permit
	Message string
}

func (e *Error) Error() string { return e.Message }
