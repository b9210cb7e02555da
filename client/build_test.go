package client

import (
	"context"
	"net"
	"os"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// versioned is a fake daemon that reports its build, with results and with errors.
type versioned struct {
	pb.UnimplementedDaemonServer
	pb.UnimplementedApprovalsServer
	build string
}

func (v *versioned) header() metadata.MD { return metadata.Pairs(BuildHeader, v.build) }

func (v *versioned) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{}, grpc.SetHeader(ctx, v.header())
}

func (v *versioned) Stop(ctx context.Context, _ *pb.StopRequest) (*pb.StopResponse, error) {
	if err := grpc.SetHeader(ctx, v.header()); err != nil {
		return nil, err
	}
	return nil, NewError(ReasonForbidden, "no")
}

func (v *versioned) Watch(_ *pb.WatchApprovalsRequest, stream grpc.ServerStreamingServer[pb.ApprovalEvent]) error {
	if err := stream.SetHeader(v.header()); err != nil {
		return err
	}
	return stream.Send(&pb.ApprovalEvent{Approval: &pb.Approval{Id: "A-1"}})
}

func TestWithBuildTellsOfEachNewBuild(t *testing.T) {
	v := &versioned{build: "v1"}
	f := newFake(t)
	f.stop()
	l, err := net.Listen("unix", f.socket)
	if err == nil {
		err = os.Chmod(f.socket, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterDaemonServer(server, v)
	pb.RegisterApprovalsServer(server, v)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Stop()
		<-served
	}()
	var mu sync.Mutex
	var heard []string
	c := f.dial(WithBuild(func(build string) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, build)
	}))
	if _, err := c.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.build = "v2"
	if err := c.Stop(t.Context()); err == nil {
		t.Error("an error was answered and none arrived")
	}
	v.build = "v3"
	for _, err := range c.WatchApprovals(t.Context()) {
		if err != nil {
			t.Error(err)
		}
	}
	if want := []string{"v1", "v2", "v3"}; !slices.Equal(heard, want) {
		t.Errorf("heard of %q, want %q", heard, want)
	}
}
