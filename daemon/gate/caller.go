package gate

import (
	"context"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// callerKey is where a context keeps who called.
type callerKey struct{}

type caller struct {
	who  string
	peer *record.Peer
}

// WithCaller returns a context for what a person asked for: records that are
// made with it and name who as their decider also say what the kernel showed of
// that process. It carries evidence and decides nothing.
func WithCaller(ctx context.Context, who string, peer *record.Peer) context.Context {
	return context.WithValue(ctx, callerKey{}, caller{who, peer})
}

// toldKey is where a context says that a record only tells.
type toldKey struct{}

// Telling returns a context for a record that only tells what has happened, so
// that nothing depends on it any more. Its recorder need not wait until it is as
// safe as others: it is soon.
func Telling(ctx context.Context) context.Context { return context.WithValue(ctx, toldKey{}, true) }

// OnlyTells reports whether a context is one of Telling.
func OnlyTells(ctx context.Context) bool { return ctx.Value(toldKey{}) != nil }

// paramsKey is where a context says that values are params.
type paramsKey struct{}

// ofParams returns a context for a record whose values are all of the params of a
// call, and not its arguments alone.
func ofParams(ctx context.Context) context.Context {
	return context.WithValue(ctx, paramsKey{}, true)
}

// OfParams reports whether the values of a record are all of the params of a call.
func OfParams(ctx context.Context) bool { return ctx.Value(paramsKey{}) != nil }

// PeerOf is what the kernel showed of who, nil when the context is not of a call
// of theirs.
func PeerOf(ctx context.Context, who string) *record.Peer {
	if c, ok := ctx.Value(callerKey{}).(caller); ok && c.who == who {
		return c.peer
	}
	return nil
}
