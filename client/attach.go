package client

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Attachment is one stream of the Gate service: one shim, joined to the daemon
// for as long as the stream lives. Send may be called by one goroutine while
// another is in Recv. It does not come back by itself when it tears; whoever
// holds it attaches again with the same hello and submits what is open.
type Attachment struct {
	stream  grpc.BidiStreamingClient[pb.Up, pb.Down]
	welcome *pb.Welcome
	cancel  context.CancelFunc
	close   sync.Once
}

// Attach opens an attachment and waits for the daemon's welcome. ctx bounds
// the waiting only. The caller closes the attachment.
func (c *Client) Attach(ctx context.Context, hello *pb.Hello) (*Attachment, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	a, err := c.attach(life, hello)
	if !stop() { // ctx ended first, and that is why
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("attach server %s: %w", hello.GetServer(), FromStatus(err))
	}
	a.cancel = cancel
	return a, nil
}

func (c *Client) attach(ctx context.Context, hello *pb.Hello) (*Attachment, error) {
	stream, err := c.gate.Attach(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(&pb.Up{Msg: &pb.Up_Hello{Hello: hello}}); err != nil {
		_, err = stream.Recv() // Send says only that the stream has ended; Recv says why
		return nil, err
	}
	down, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	welcome := down.GetWelcome()
	if welcome == nil {
		return nil, NewError(ReasonVersion, "the daemon's first word is no welcome")
	}
	return &Attachment{stream: stream, welcome: welcome}, nil
}

// Welcome returns what the daemon said holds for the attachment.
func (a *Attachment) Welcome() *pb.Welcome { return a.welcome }

// Send sends one message. up may be used again when it returns. The error of a
// stream that has ended is told by Recv.
func (a *Attachment) Send(up *pb.Up) error { return a.stream.Send(up) }

// Recv returns the next message of the daemon, or why there is none: io.EOF
// when the daemon has ended the stream in order.
func (a *Attachment) Recv() (*pb.Down, error) { return a.stream.Recv() }

// CloseSend says that nothing more will be sent. The daemon then ends the stream.
func (a *Attachment) CloseSend() error { return a.stream.CloseSend() }

// Close ends the stream at once. It may be called more than once.
func (a *Attachment) Close() { a.close.Do(a.cancel) }
