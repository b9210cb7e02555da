package client

import (
	"context"
	"errors"
	"fmt"
	"io"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Profile profiles the daemon and writes the profile to w, in the format of pprof. kind is cpu,
// heap, allocs, goroutine, mutex or block; cpu, mutex and block are sampled until enough is
// closed, for at most ten minutes. When ctx ends, the samples are lost. The first write is
// empty and reports that the daemon has permitted the profile.
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
			_ = stream.CloseSend() // Recv returns the error of the stream
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
