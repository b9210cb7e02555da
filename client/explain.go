package client

import (
	"context"
	"errors"
	"io"
	"iter"

	"google.golang.org/grpc"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Explaining is a stream of questions about how calls would be judged. What a session knows
// from servers carries over to later questions. It is for one goroutine.
type Explaining struct {
	stream grpc.BidiStreamingClient[pb.ExplainRequest, pb.Explanation]
	cancel context.CancelFunc
}

// Explain opens such a stream. The caller must close it.
func (c *Client) Explain(ctx context.Context) (*Explaining, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := pb.NewPoliciesClient(c.conn).Explain(ctx)
	if err != nil {
		cancel()
		return nil, FromStatus(err)
	}
	return &Explaining{stream, cancel}, nil
}

// Ask returns how q would be judged. The first question names the configuration to judge by; if
// that has errors, the error's Diagnostics list them. An Explanation with an Error concerns an
// invalid question; further questions may follow.
func (e *Explaining) Ask(q *pb.ExplainRequest) (*pb.Explanation, error) {
	// If the stream has ended, Recv returns the reason.
	if err := e.stream.Send(q); err != nil && !errors.Is(err, io.EOF) {
		return nil, FromStatus(err)
	}
	out, err := e.stream.Recv()
	return out, FromStatus(err)
}

// Close closes the stream.
func (e *Explaining) Close() { e.cancel() }

// TestPolicies tests a configuration against files of expected verdicts.
func (c *Client) TestPolicies(ctx context.Context, req *pb.TestPoliciesRequest) (*pb.TestPoliciesResponse, error) {
	return pb.NewPoliciesClient(c.conn).Test(ctx, req)
}

// Backtest judges the recorded calls again. It yields first what they are judged by, then the
// verdicts that would differ, and last a summary.
func (c *Client) Backtest(ctx context.Context, req *pb.BacktestRequest) iter.Seq2[*pb.BacktestEvent, error] {
	return receive(ctx, pb.NewPoliciesClient(c.conn).Backtest, req)
}
