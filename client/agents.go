package client

import (
	"context"
	"iter"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// RunAgent runs an agent of the configuration headless and yields the events of the run; the
// last event is Ended. When ctx ends or the loop is left early, the run is ended. Errors are
// [ErrNotFound] if there is no such agent, [ErrForbidden] if this caller may not run one, and
// [ErrTooLarge] if too many agents run.
func (c *Client) RunAgent(ctx context.Context, req *pb.RunAgentRequest) iter.Seq2[*pb.RunEvent, error] {
	return receive(ctx, pb.NewAgentsClient(c.conn).Run, req)
}

// CancelRun asks a run to end early. Its events continue until it has ended. The error is
// [ErrNotFound] if there is no run with that id.
func (c *Client) CancelRun(ctx context.Context, id string) error {
	_, err := pb.NewAgentsClient(c.conn).Cancel(ctx, &pb.CancelRunRequest{Id: id})
	return err
}

// ListAgents returns the agents of the configuration in force, sorted by name.
func (c *Client) ListAgents(ctx context.Context) ([]*pb.Agent, error) {
	out, err := pb.NewAgentsClient(c.conn).List(ctx, &pb.ListAgentsRequest{})
	return out.GetAgents(), err
}
