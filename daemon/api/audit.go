package api

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/daemon/audit"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// auditService implements the Audit service.
type auditService struct {
	pb.UnimplementedAuditServer
	s *Server
}

func (v auditService) Read(m *pb.AuditQuery, stream grpc.ServerStreamingServer[pb.AuditRecord]) error {
	q := audit.Query{
		From: m.GetFrom(), Since: timeOf(m.GetSince()), Until: timeOf(m.GetUntil()),
		Server: m.GetServer(), Tool: m.GetTool(), Verdict: m.GetVerdict(), Session: m.GetSession(), Kind: record.Kind(m.GetKind()),
		Last: int(m.GetLast()), Follow: m.GetFollow(),
	}
	read := func(ctx context.Context) error {
		return v.s.Audit.Read(ctx, q, func(seq uint64, line, values []byte) error {
			return stream.Send(&pb.AuditRecord{Seq: seq, Line: line, Values: values})
		})
	}
	if q.Follow {
		return v.s.standing(stream.Context(), read)
	}
	return read(stream.Context())
}

func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
