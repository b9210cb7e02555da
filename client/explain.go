package client

import (
	"context"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Explaining asks what would become of calls, one after the other. What servers
// have said in a session is known to the questions after it. It is for one
// goroutine.
type Explaining struct {
	stream grpc.BidiStreamingClient[pb.ExplainRequest, pb.Explanation]
	cancel context.CancelFunc
}

// Explain begins to ask. The caller closes what it returns.
func (c *Client) Explain(ctx context.Context) (*Explaining, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := pb.NewPoliciesClient(c.conn).Explain(ctx)
	if err != nil {
		cancel()
		return nil, FromStatus(err)
	}
	return &Explaining{stream, cancel}, nil
}

// Ask returns what would become of q. The first question names the configuration
// to judge by; when that has errors, the error's Diagnostics say which. An
// Explanation with an Error is about a question that makes no sense, and the
// next one can be asked.
func (e *Explaining) Ask(q *pb.ExplainRequest) (*pb.Explanation, error) {
	// When the stream has ended, Recv says why.
	if err := e.stream.Send(q); err != nil && !errors.Is(err, io.EOF) {
		return nil, FromStatus(err)
	}
	out, err := e.stream.Recv()
	return out, FromStatus(err)
}

// Close ends the asking.
func (e *Explaining) Close() { e.cancel() }

// TestPolicies holds a configuration to files of expected verdicts.
func (c *Client) TestPolicies(ctx context.Context, req *pb.TestPoliciesRequest) (*pb.TestPoliciesResponse, error) {
	return pb.NewPoliciesClient(c.conn).Test(ctx, req)
}

// Backtest judges the calls on record once more, and yields first what they are
// judged by, then what would be otherwise, and a summary at the end.
func (c *Client) Backtest(ctx context.Context, req *pb.BacktestRequest) iter.Seq2[*pb.BacktestEvent, error] {
	return receive(ctx, pb.NewPoliciesClient(c.conn).Backtest, req)
}
