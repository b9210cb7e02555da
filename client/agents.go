package client

import (
	"context"
	"iter"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// RunAgent runs an agent of the configuration headless, and yields what it says until
// it has ended: the last event is Ended. When ctx ends, or the loop is left before,
// the run is ended. [ErrNotFound] says that there is no such agent, [ErrForbidden]
// that this caller may not run one, [ErrTooLarge] that as many run as may.
func (c *Client) RunAgent(ctx context.Context, req *pb.RunAgentRequest) iter.Seq2[*pb.RunEvent, error] {
	return receive(ctx, pb.NewAgentsClient(c.conn).Run, req)
}

// CancelRun asks a run to end early, [ErrNotFound] when there is none of that id. Its
// events go on until it has ended.
func (c *Client) CancelRun(ctx context.Context, id string) error {
	_, err := pb.NewAgentsClient(c.conn).Cancel(ctx, &pb.CancelRunRequest{Id: id})
	return err
}

// ListAgents returns the agents of the configuration in force, by name.
func (c *Client) ListAgents(ctx context.Context) ([]*pb.Agent, error) {
	out, err := pb.NewAgentsClient(c.conn).List(ctx, &pb.ListAgentsRequest{})
	return out.GetAgents(), err
}
