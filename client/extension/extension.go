// Package extension is for programs that extend ThoughtGate's gate. They see calls before they
// are judged, see results before an agent does, offer tools and models, and run commands for a
// person.
//
// An extension is a program that the daemon starts, with a manifest beside it that says what it
// may do (docs/writing-extensions.md has a complete one). The two communicate over the
// program's standard input and output, with the messages of proto/thoughtgate/extension/v1.
// This package implements the protocol: a program fills in a [Handler] and calls [Serve].
//
// A program may print to standard error; the daemon keeps the last lines. Standard output
// belongs to Serve.
package extension

import (
	"context"
	"encoding/json"
	"io"
	"os"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// ProtocolVersion is the version of the protocol that this package implements. The manifest
// must name it.
const ProtocolVersion = 1

// Call is an agent's call of a tool of a server. Arguments are JSON, byte for byte as they will
// be forwarded.
type Call = pb.Call

// Capability describes something that an extension offers besides tools and commands. The gate
// only lists it.
type Capability = pb.Capability

// Handler implements an extension. A nil field means that the extension does not do that. The
// functions may be called by several goroutines at once. An error becomes the answer: it blocks
// a call or result, unless the manifest says on_error: continue. A context ends when the gate
// cancels its request or the connection ends.
type Handler struct {
	// Start is called once, before all other functions. Host may be kept. The timeout is 10 s.
	// An error ends the extension.
	Start func(ctx context.Context, host *Host) error

	// Before is called for each call that the manifest's hooks.before selects. Its timeout is
	// 5 s. Before owns call.
	Before func(ctx context.Context, call *Call) (Answer, error)

	// After is called in the same way for results, before the agent sees them. result is JSON.
	// After owns call and result.
	After func(ctx context.Context, call *Call, result json.RawMessage) (Answer, error)

	// Tools are offered to agents as those of the server ext-NAME.
	Tools []Tool

	// Commands are run by `tgctl ext run NAME COMMAND`. The keys are their names.
	Commands map[string]Command

	// Providers offer models.
	Providers []Provider

	// Capabilities are listed for people.
	Capabilities []*Capability

	// ConfigChanged is called for each value that changes, one call at a time, after the
	// extension has called [Host.Subscribe]. The Host has the new value already. Nothing is
	// read from the gate meanwhile, so ConfigChanged must return at once and must not call
	// methods of Host that ask the gate.
	ConfigChanged func(key, value string)
}

// Serve handles the gate's requests on standard input and output until the gate closes the
// connection, for which it returns nil. Before it returns it waits for running functions of h.
// It may be called once in a program.
func Serve(ctx context.Context, h Handler) error {
	return ServeOver(ctx, os.Stdin, os.Stdout, h)
}

// ServeOver is Serve over other streams, for tests. When ctx ends, it closes in.
func ServeOver(ctx context.Context, in io.ReadCloser, out io.Writer, h Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := newServer(h, out)
	stop := context.AfterFunc(ctx, func() { in.Close() })
	defer stop()
	err := s.read(ctx, in)
	cancel()
	s.failPendingRequests()
	s.work.Wait()
	return err
}

// Answer is what an extension decides about a call or a result. The zero Answer is invalid.
type Answer struct {
	action pb.Action
	with   json.RawMessage
	reason string
}

// Continue returns the Answer that leaves the call or result unchanged.
func Continue() Answer { return Answer{action: pb.Action_ACTION_CONTINUE} }

// Modify returns the Answer that replaces the arguments or the result as a whole with other
// JSON. What stays should be copied byte for byte. The call is judged as if the agent had made
// it that way.
func Modify(with json.RawMessage) Answer { return Answer{action: pb.Action_ACTION_MODIFY, with: with} }

// Block returns the Answer that denies the call or withholds the result, with a sentence for a
// person and a model.
func Block(reason string) Answer { return Answer{action: pb.Action_ACTION_BLOCK, reason: reason} }

// Error is an error that the gate answered a request with.
type Error struct {
	Code    int64 // as in JSON-RPC; -32602 for what the manifest does not permit
	Message string
}

func (e *Error) Error() string { return e.Message }
