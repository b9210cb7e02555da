package consoletest

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// ListGrants returns the grants, or those in force.
func (s approvalsServer) ListGrants(_ context.Context, req *pb.ListGrantsRequest) (*pb.ListGrantsResponse, error) {
	out := &pb.ListGrantsResponse{}
	for _, g := range s.d.Grants {
		if req.GetAll() || g.GetEnded() == nil {
			out.Grants = append(out.Grants, g)
		}
	}
	return out, nil
}

// RevokeGrant ends a grant that is in force.
func (s approvalsServer) RevokeGrant(_ context.Context, req *pb.RevokeGrantRequest) (*pb.RevokeGrantResponse, error) {
	for _, g := range s.d.Grants {
		if g.GetId() == req.GetId() && g.GetEnded() == nil {
			g.Ended, g.End = timestamppb.New(Noon), "revoked"
			return &pb.RevokeGrantResponse{Grant: g}, nil
		}
	}
	return nil, client.NewError(client.ReasonNotFound, "no grant "+req.GetId()+" is in force")
}

type presenceServer struct {
	pb.UnimplementedPresenceServer
	d *Daemon
}

// Status returns the state of the secret; without one that a test has set, none is enrolled.
func (s presenceServer) Status(context.Context, *pb.PresenceStatusRequest) (*pb.PresenceStatusResponse, error) {
	return &pb.PresenceStatusResponse{State: s.d.Presence}, nil
}
