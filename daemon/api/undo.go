package api

import (
	"context"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/daemon/copies"
	"github.com/thoughtgate/thoughtgated/internal/undo"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// undoService implements the Undo service.
type undoService struct {
	pb.UnimplementedUndoServer
	s *Server
}

func (v undoService) List(context.Context, *pb.ListCopiesRequest) (*pb.ListCopiesResponse, error) {
	all, err := v.s.Copies.List()
	return &pb.ListCopiesResponse{Copies: each(all, copyTo)}, err
}

func (v undoService) Plan(ctx context.Context, req *pb.PlanUndoRequest) (*pb.UndoPlan, error) {
	ctx, _, err := v.s.decider(ctx, "a look at the copy "+req.GetId())
	if err != nil {
		return nil, err
	}
	p, err := v.s.Copies.Plan(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &pb.UndoPlan{
		Copy: copyTo(p.Info), Write: each(first(p.Write), textOf), Replace: each(first(p.Replace), textOf), Failed: each(first(p.Failed), leftTo),
		Writes: uint32(len(p.Write)), Replaces: uint32(len(p.Replace)), Fails: uint32(len(p.Failed)), Same: uint32(p.Same),
		RootGone: p.RootGone, RootReplaced: p.RootReplaced, Digest: p.Digest,
	}, nil
}

func (v undoService) Restore(ctx context.Context, req *pb.RestoreRequest) (*pb.Restored, error) {
	ctx, who, level, err := v.s.loosening(ctx, "bringing back "+req.GetId(), req.GetProof()) // as for an approval of a call of high risk
	if err != nil {
		return nil, err
	}
	by := copies.By{Decider: who, Surface: surfaceOf(ctx, who, req.GetSurface()), Level: level}
	r, err := v.s.Copies.Restore(ctx, req.GetId(), req.GetDigest(), by)
	if err != nil {
		return nil, err
	}
	return &pb.Restored{
		Written: uint32(r.Written), Same: uint32(r.Same), Failed: each(first(r.Failed), leftTo),
		Kept: each(first(r.Kept), func(k undo.Kept) *pb.Kept { return &pb.Kept{Name: textOf(k.Name), Now: textOf(k.Now)} }),
	}, nil
}

const (
	mostCopyNames = 100
	mostPlanNames = 1000
)

func first[T any](all []T) []T { return all[:min(len(all), mostPlanNames)] }

func copyTo(i undo.Info) *pb.Copy {
	return &pb.Copy{
		Id: i.Label, Copy: i.ID, Root: textOf(i.Root), Names: each(i.Names[:min(len(i.Names), mostCopyNames)], textOf), Made: timestamppb.New(i.Made),
		Files: uint32(i.Files + i.Links), Bytes: uint64(i.Bytes),
	}
}

func leftTo(l undo.Left) string { return textOf(string(l.Name)) + ": " + textOf(l.Why) }

// textOf returns the name of a file as text. What is no text is escaped.
func textOf(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}
