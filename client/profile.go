package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Profile has the daemon tell what it spends, as pprof reads it, and writes that to
// w. kind is cpu, heap, allocs, goroutine, mutex or block; cpu, mutex and block look
// until enough is closed, ten minutes at most. What was seen is lost when ctx ends. A
// first write of nothing tells that the daemon has let itself be looked at.
func (c *Client) Profile(ctx context.Context, kind string, enough <-chan struct{}, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewDaemonClient(c.conn).Profile(ctx)
	if err != nil {
		return FromStatus(err)
	}
	if err := stream.Send(&pb.ProfileRequest{Kind: kind}); err != nil && !errors.Is(err, io.EOF) {
		return FromStatus(err)
	}
	go func() { // ends with ctx
		select {
		case <-enough:
			_ = stream.CloseSend() // Recv tells what is wrong with the stream
		case <-ctx.Done():
		}
	}()
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return FromStatus(err)
		}
		if _, err := w.Write(chunk.GetData()); err != nil {
			return fmt.Errorf("write the profile: %w", err)
		}
	}
}
