package gate

import (
	"context"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// callerKey is the context key of the caller.
type callerKey struct{}

type caller struct {
	who  string
	peer *record.Peer
}

// WithCaller returns a context for an operation that a person requested. Records written with
// it that name who as their decider also hold what the kernel showed of that process. It is
// evidence and decides nothing.
func WithCaller(ctx context.Context, who string, peer *record.Peer) context.Context {
	return context.WithValue(ctx, callerKey{}, caller{who, peer})
}

// toldKey is the context key of Telling.
type toldKey struct{}

// WithReportOnly returns a context for a record that only reports what has happened, so that nothing
// depends on it. The recorder need not wait until the record is durable; it soon is.
func WithReportOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, toldKey{}, true)
}

// IsReportOnly reports whether ctx was made by Telling.
func IsReportOnly(ctx context.Context) bool { return ctx.Value(toldKey{}) != nil }

// paramsKey is the context key of ofParams.
type paramsKey struct{}

// ofParams returns a context for a record whose values are all params of a call, not only its
// arguments.
func ofParams(ctx context.Context) context.Context {
	return context.WithValue(ctx, paramsKey{}, true)
}

// OfParams reports whether the values of a record are all params of a call.
func OfParams(ctx context.Context) bool { return ctx.Value(paramsKey{}) != nil }

// PeerOf returns what the kernel showed of who, or nil if the context is not of one of their
// calls.
func PeerOf(ctx context.Context, who string) *record.Peer {
	if c, ok := ctx.Value(callerKey{}).(caller); ok && c.who == who {
		return c.peer
	}
	return nil
}
