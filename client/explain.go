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
// from servers carries over to later questions. It is for one goroutine, or for one that sends and one
// that receives.
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
	if err := e.Send(q); err != nil {
		return nil, err
	}
	return e.Receive()
}

// Send sends a question without waiting for the answer. If the stream has ended, Receive returns the
// reason.
func (e *Explaining) Send(q *pb.ExplainRequest) error {
	if err := e.stream.Send(q); err != nil && !errors.Is(err, io.EOF) {
		return FromStatus(err)
	}
	return nil
}

// Receive returns the answer to the oldest question that has none yet.
func (e *Explaining) Receive() (*pb.Explanation, error) {
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
