package api

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// processesService serves Processes.
type processesService struct {
	pb.UnimplementedProcessesServer
	s *Server
}

func (v processesService) List(context.Context, *pb.ListProcessesRequest) (*pb.ListProcessesResponse, error) {
	resp := &pb.ListProcessesResponse{}
	for _, a := range v.s.Sessions.Attachments() {
		resp.Processes = append(resp.Processes, &pb.Process{
			Attachment: a.Shim.Attachment, Server: a.Shim.Server, Launch: a.Shim.Launch, Command: a.Shim.Command,
			Session: a.Shim.Session, Agent: a.Shim.Agent, Profile: string(a.Profile),
			ShimPid: a.Peer.PID, ServerPid: a.Server.PID, Since: timestamppb.New(a.Since),
			Judged: a.Judged, Denied: a.Denied, Pending: uint32(a.Held), Build: a.Build, Detached: a.Detached,
		})
	}
	return resp, nil
}
