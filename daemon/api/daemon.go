package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/session"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// daemonService implements the Daemon service.
type daemonService struct {
	pb.UnimplementedDaemonServer
	s *Server
}

func (v daemonService) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	s := v.s
	sessions, ungoverned := count(s.Sessions.List())
	attached := s.Sessions.Attachments()
	open, _ := s.Approvals.Counts()
	resp := &pb.StatusResponse{
		Build: s.Build, Protocol: client.Protocol, Pid: int32(os.Getpid()), Started: timestamppb.New(s.Started),
		Activated: s.Activated, ControlSocket: s.Control, ShimSocket: s.Shim,
		Set:      setTo(s.Policies.Describe()),
		Sessions: sessions, Ungoverned: ungoverned, Attachments: uint32(len(attached)), OtherShims: otherBuilds(attached, s.Build),
		Pending: uint32(open), HeldDefinitions: uint32(s.Pins.Waiting()),
		WithheldStarts: uint32(s.Trust.Waiting()), Kept: s.countKept(),
		AuditDir: s.AuditDir, AuditSeq: s.Audit.Seq(), Warnings: s.Warnings(), Presence: presenceTo(s.Presence.State()),
	}
	resp.Fleet, _ = s.fleetState()
	resp.Projects = each(s.Projects(), func(f ProjectFile) *pb.ProjectFile {
		return &pb.ProjectFile{Path: f.Path, Digest: f.Digest, Rules: uint32(f.Rules), Problems: diagnosticsTo(f.Problems)}
	})
	resp.Unseen = each(s.AgentHooks.Unseen(), unseenTo)
	if err := s.Audit.Failure(); err != nil {
		resp.AuditFailure = err.Error()
	}
	if failure, at := s.Policies.Failure(); failure != "" {
		resp.ReloadFailure, resp.ReloadFailed = failure, timestamppb.New(at)
	}
	return resp, nil
}

// countKept counts the programs that the daemon keeps running, and the sessions with servers behind an address, by kind.
func (s *Server) countKept() []*pb.KindCount {
	var counts []*pb.KindCount
	by := map[string]*pb.KindCount{}
	add := func(kind string, state supervise.State) {
		c := by[kind]
		if c == nil {
			c = &pb.KindCount{Kind: kind}
			by[kind], counts = c, append(counts, c)
		}
		c.All++
		switch state {
		case supervise.Failed:
			c.Failed++
		case supervise.Degraded, supervise.Restarting:
			c.Unwell++
		}
	}
	for _, fleet := range s.Fleets {
		for _, i := range fleet.List() {
			add(i.Kind, i.Status.State)
		}
	}
	for _, a := range s.Sessions.Attachments() {
		if a.Shim.Remote {
			state, _ := s.remoteStateOf(a)
			add(kindRemote, state)
		}
	}
	return counts
}

// otherBuilds counts the shims of other builds.
func otherBuilds(attached []session.Attached, build string) (n uint32) {
	for _, a := range attached {
		if a.Build != build {
			n++
		}
	}
	return n
}

// count counts the sessions whose wrap is present, and the servers that run past them.
func count(all []session.State) (sessions, ungoverned uint32) {
	for _, st := range all {
		if st.Present {
			sessions++
			ungoverned += uint32(len(st.Ungoverned))
		}
	}
	return sessions, ungoverned
}

func (v daemonService) Reload(ctx context.Context, _ *pb.ReloadRequest) (*pb.ReloadResponse, error) {
	ctx, by, err := v.s.decider(ctx, "a reload")
	if err != nil {
		return nil, err
	}
	set, problems, err := v.s.Policies.Reload(ctx, by)
	if err != nil {
		return nil, client.NewError(client.ReasonInvalid, err.Error(), diagnosticsTo(problems)...)
	}
	return &pb.ReloadResponse{Set: setTo(set), Warnings: diagnosticsTo(problems)}, nil
}

func (v daemonService) Metrics(_ context.Context, req *pb.MetricsRequest) (*pb.MetricsResponse, error) {
	resp := &pb.MetricsResponse{}
	var err error
	if !req.GetSamples() {
		resp.Text, err = v.s.Config.Metrics.Text()
		return resp, err
	}
	samples, err := v.s.Config.Metrics.Samples()
	for _, s := range samples {
		m := &pb.Sample{Name: s.Name, Kind: s.Kind, Labels: map[string]string{}, Value: s.Value, Count: s.Count}
		for _, l := range s.Labels {
			m.Labels[l.Name] = l.Value
		}
		for _, b := range s.Buckets {
			m.Buckets = append(m.Buckets, &pb.Bucket{Bound: b.Bound, Value: b.Value})
		}
		resp.Samples = append(resp.Samples, m)
	}
	return resp, err
}

// stopDelay is the delay before the daemon stops, so that the answer gets out.
const stopDelay = 50 * time.Millisecond

func (v daemonService) Stop(ctx context.Context, req *pb.StopRequest) (*pb.StopResponse, error) {
	_, by, err := v.s.decider(ctx, "stopping the daemon")
	if err != nil {
		return nil, err
	}
	if req.GetOnlyAsk() {
		return &pb.StopResponse{}, nil
	}
	v.s.Logger.Info("asked to stop", "by", by)
	time.AfterFunc(stopDelay, v.s.Stop)
	return &pb.StopResponse{}, nil
}

func setTo(set PolicySet) *pb.PolicySet {
	return &pb.PolicySet{
		Source: set.Source, Digest: set.Digest, Profile: string(set.Profile),
		Rules: uint32(set.Rules), Policies: uint32(set.Policies), By: set.By, Since: momentTo(set.Since),
		Natively: set.Natively, Project: set.Project, Fleet: set.Fleet, Checked: uint32(set.Checked),
		Files: each(set.Files, func(f policy.File) *pb.PolicyFile {
			return &pb.PolicyFile{Path: f.Path, Digest: f.Digest, Changed: slices.Contains(set.Changed, f.Path)}
		}),
		Waiting: each(set.Waiting, func(w policy.Waiting) *pb.WaitingPolicy {
			return &pb.WaitingPolicy{Policy: w.Policy, File: w.Place.File, Line: uint32(w.Place.Line), Tools: w.Tools}
		}),
		Refused: each(set.Refused, func(r policy.Refused) *pb.RefusedTool {
			return &pb.RefusedTool{
				Tool: r.Tool, Policy: r.Policy, File: r.Place.File, Line: uint32(r.Place.Line), Column: uint32(r.Place.Column), Reason: r.Reason,
			}
		}),
	}
}

func diagnosticsTo(problems []config.Diagnostic) []*pb.Diagnostic {
	return each(problems, func(d config.Diagnostic) *pb.Diagnostic {
		severity := pb.Severity_SEVERITY_ERROR
		if d.Severity == config.Warning {
			severity = pb.Severity_SEVERITY_WARNING
		}
		return &pb.Diagnostic{
			File: d.File, Line: uint32(d.Line), Column: uint32(d.Column), Severity: severity,
			Id: d.ID, Message: d.Message, Hint: d.Hint,
		}
	})
}

// longestProfile is the longest time that a profile is taken if the client does not end it.
const longestProfile = 10 * time.Minute

// profileKinds are the supported profiles. cpu, mutex and block cover only the time after the
// request.
var profileKinds = []string{"cpu", "heap", "allocs", "goroutine", "mutex", "block"}

func (v daemonService) Profile(stream grpc.BidiStreamingServer[pb.ProfileRequest, pb.ProfileChunk]) error {
	ctx, by, err := v.s.decider(stream.Context(), "a profile of the daemon")
	if err != nil {
		return err
	}
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	kind := req.GetKind()
	if !slices.Contains(profileKinds, kind) {
		return toStatus(fmt.Errorf("unknown profile %q: %w", kind, gate.ErrInvalid))
	}
	v.s.Logger.Info("profiles itself", "kind", kind, "by", by)
	if err := stream.Send(&pb.ProfileChunk{}); err != nil { // the profile has begun
		return err
	}
	enough := func() error {
		ctx, cancel := context.WithTimeout(ctx, longestProfile)
		defer cancel()
		ended := make(chan error, 1)
		go func() { // ends with the stream
			_, err := stream.Recv()
			ended <- err
		}()
		select {
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-ctx.Done():
			return stream.Context().Err() // nil if only longestProfile has passed
		}
	}
	var out bytes.Buffer
	if err := profile(kind, &out, enough); err != nil {
		return toStatus(err)
	}
	for chunk := range slices.Chunk(out.Bytes(), 64<<10) {
		if err := stream.Send(&pb.ProfileChunk{Data: chunk}); err != nil {
			return err
		}
	}
	return nil
}

// profile writes a profile. Profiles that cover a period end when enough returns.
func profile(kind string, w io.Writer, enough func() error) error {
	switch kind {
	case "cpu":
		if err := pprof.StartCPUProfile(w); err != nil {
			return fmt.Errorf("another profile is being taken: %w", gate.ErrInvalid)
		}
		defer pprof.StopCPUProfile()
		return enough()
	case "mutex":
		defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(10))
	case "block":
		runtime.SetBlockProfileRate(int(10 * time.Microsecond))
		defer runtime.SetBlockProfileRate(0)
	case "heap":
		runtime.GC() // drop garbage, which is not in use
	}
	if kind == "mutex" || kind == "block" {
		if err := enough(); err != nil {
			return err
		}
	}
	return pprof.Lookup(kind).WriteTo(w, 0)
}
