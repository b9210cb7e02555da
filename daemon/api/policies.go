package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/pin"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/rehearse"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// policiesService implements the Policies service.
type policiesService struct {
	pb.UnimplementedPoliciesServer
	s *Server
}

func (v policiesService) Validate(_ context.Context, req *pb.ValidateRequest) (*pb.ValidateResponse, error) {
	if len(req.GetBundle()) > 0 {
		return &pb.ValidateResponse{Problems: diagnosticsTo(v.s.Policies.ValidateBundle(req.GetBundle()))}, nil
	}
	path, set, problems := v.s.Policies.Validate(req.GetPath())
	resp := &pb.ValidateResponse{Path: path, Problems: diagnosticsTo(problems)}
	if set != nil {
		resp.Set = setTo(*set)
	}
	return resp, nil
}

func (v policiesService) Get(context.Context, *pb.GetPolicySetRequest) (*pb.PolicySet, error) {
	set := v.s.Policies.Describe()
	m := setTo(set)
	for i, f := range set.Files {
		if m.Files[i].Changed {
			m.Files[i].Loaded = f.Text
		}
	}
	m.Detail = detailTo(v.s.Policies.Detail())
	return m, nil
}

func detailTo(d policy.Detail) *pb.PolicyDetail {
	m := &pb.PolicyDetail{Sources: entriesTo(d.Sources), Rules: entriesTo(d.Rules), Policies: entriesTo(d.Policies)}
	for _, w := range d.Workflows {
		one := &pb.PolicyWorkflow{
			Name: w.Name, File: w.Place.File, Line: uint32(w.Place.Line), Asks: string(w.Destination.Type), Timeout: durationpb.New(w.Timeout),
			Require: cmp.Or(string(w.Require), "default"), Redact: w.RedactFields,
			Surfaces: each(w.Surfaces, func(s config.Surface) string { return string(s) }),
		}
		if s := &w.Destination; s.Type == config.DestinationSlack {
			one.Slack = &pb.SlackDestination{
				Channel: s.Channel, BotToken: s.BotTokenEnv, AppToken: s.AppTokenEnv, Mention: s.Mention, Approvers: s.Approvers,
			}
		}
		m.Workflows = append(m.Workflows, one)
	}
	return m
}

func entriesTo(entries []policy.Entry) []*pb.PolicyEntry {
	return each(entries, func(e policy.Entry) *pb.PolicyEntry {
		return &pb.PolicyEntry{Cited: citationTo(e.Cited), Sources: e.Sources, Agents: e.Agents, Methods: e.Methods, Workflow: e.Workflow, Undo: e.Undo}
	})
}

// Stages makes the stages on which calls are rehearsed.
type Stages interface {
	// InForce returns a stage under the set in force.
	InForce() (*rehearse.Stage, []config.Diagnostic)
	// OnDisk returns a stage under the configuration at path; if path is empty, the daemon's own as
	// it is on disk. It also returns the path of the configuration, empty for the built-in default,
	// and its problems. If there are errors, the stage is nil.
	OnDisk(path string) (*rehearse.Stage, string, []config.Diagnostic)
	// Past returns a stage for calls of long ago, on which nothing on the disk is looked at. It judges by
	// the configuration at path, or by the built-in default if path is empty. If there are errors, the
	// stage is nil.
	Past(path string) (*rehearse.Stage, []config.Diagnostic)
	// Candidate returns the configuration at path, as OnDisk finds it, to be tried on recorded
	// calls; with text, as if the file had that. If there are errors, the candidate is nil.
	Candidate(path string, text []byte) (Candidate, PolicySet, []config.Diagnostic, error)
}

// Candidate is a configuration to be tried on recorded calls.
type Candidate interface {
	// Backtest judges the recorded calls between since and until again; a zero time is no bound. It
	// calls progress now and then, and stops with its error.
	Backtest(ctx context.Context, since, until time.Time, progress func(records uint64) error) (*rehearse.Backtest, error)
}

// refused returns the error for a configuration with errors.
func refused(problems []config.Diagnostic) error {
	return client.NewError(client.ReasonInvalid, "the configuration has errors, so calls can't be judged with it; correct it, then: tgctl policy check", diagnosticsTo(problems)...)
}

func (v policiesService) Explain(stream grpc.BidiStreamingServer[pb.ExplainRequest, pb.Explanation]) error {
	var stage *rehearse.Stage
	var addresses map[string][]string
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if stage == nil {
			var problems []config.Diagnostic
			switch {
			case req.GetPast():
				stage, problems = v.s.Stages.Past(req.GetConfig())
			case req.GetConfig() == "":
				stage, problems = v.s.Stages.InForce()
			default:
				stage, _, problems = v.s.Stages.OnDisk(req.GetConfig())
			}
			if stage == nil {
				return refused(problems)
			}
			defer stage.Close()
			addresses = v.s.addresses()
		}
		line := lineFrom(req)
		if len(line.Command) == 0 {
			line.Command = addresses[line.Server]
		}
		answer, err := stage.Judge(stream.Context(), line, !req.GetBrief())
		out := &pb.Explanation{}
		if err != nil {
			out.Error = err.Error()
		} else {
			out = explanationTo(answer)
		}
		if answer != nil && answer.Verdict == "ask" && req.GetConfig() == "" && !req.GetPast() {
			if out.Grants, err = v.s.grantsOn(stream.Context(), req); err != nil {
				return err
			}
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

// addresses returns what stands in the place of a command for each server that was behind an address when it
// was last seen.
func (s *Server) addresses() map[string][]string {
	if s.Pins == nil { // without a daemon
		return nil
	}
	last := map[string]pin.Server{}
	for _, one := range s.Pins.Servers() {
		if !one.Seen.Before(last[one.ID].Seen) {
			last[one.ID] = one
		}
	}
	all := map[string][]string{}
	for id, one := range last {
		if gate.IsAddress(one.Command) {
			all[id] = one.Command
		}
	}
	return all
}

func lineFrom(m *pb.ExplainRequest) rehearse.Line {
	return rehearse.Line{
		Server: m.GetServer(), Method: m.GetMethod(), Subject: m.GetSubject(),
		Arguments: m.GetArguments(), Params: m.GetParams(), Result: m.GetResult(), Definition: m.GetDefinition(),
		Agent: m.GetAgent(), Session: m.GetSession(), Project: m.GetProject(), Command: m.GetCommand(), Assume: m.GetAssume(),
	}
}

func explanationTo(a *rehearse.Answer) *pb.Explanation {
	m := &pb.Explanation{
		Verdict: a.Verdict, Hidden: a.Hidden, Observed: a.Observed, Forwarded: a.Forwarded, Profile: string(a.Profile),
		Gate: a.Gate, Rule: a.Rule, Policies: a.Policies, Reason: a.Reason, Set: a.Set,
		Workflow: a.Workflow, Surfaces: a.Surfaces, Grant: a.Grant, Level: string(a.Level), Natively: a.Natively,
		Hooks: a.Hooks, ResultHooks: a.ResultHooks,
	}
	if a.Shown != nil || a.Perhaps != "" {
		m.Past = &pb.PastVerdict{Shown: a.Shown, Unclear: a.Unclear, Perhaps: a.Perhaps}
	}
	if a.Timeout > 0 {
		m.Timeout = durationpb.New(a.Timeout)
	}
	for _, f := range a.Facts {
		m.Facts = append(m.Facts, &pb.CallFact{Name: f.Name, Detail: f.Detail, Member: f.Member, Place: f.Place, By: f.By})
	}
	if a.Why == nil {
		return m
	}
	for _, c := range a.Why.Cited {
		m.Cited = append(m.Cited, citationTo(c))
	}
	for _, n := range a.Why.Near {
		m.Near = append(m.Near, &pb.NearRule{Rule: citationTo(n.Cited), Because: n.Because})
	}
	for _, s := range a.Why.Steps {
		change := &pb.PolicyChange{Change: s.Change, Alternative: s.Or, By: s.By}
		if s.Move != 0 {
			change.Verdict = s.Move.String()
		}
		m.Changes = append(m.Changes, change)
	}
	return m
}

func citationTo(c gate.Cited) *pb.Citation {
	return &pb.Citation{
		Kind: c.Kind, Name: c.Name, File: c.File, Line: uint32(c.Line), Column: uint32(c.Column),
		Does: c.Does, Says: c.Says, Project: c.Theirs, Fleet: c.Fleet,
	}
}

func (v policiesService) Test(ctx context.Context, req *pb.TestPoliciesRequest) (*pb.TestPoliciesResponse, error) {
	return &pb.TestPoliciesResponse{Files: each(req.GetFiles(), func(f *pb.TestFile) *pb.TestFileResult {
		return v.testFile(ctx, req.GetConfig(), f)
	})}, nil
}

// testFile tests the configuration at path, or the one that the file names, with one test file.
func (v policiesService) testFile(ctx context.Context, path string, f *pb.TestFile) *pb.TestFileResult {
	out := &pb.TestFileResult{Path: f.GetPath()}
	file, problems := config.ParseTests(f.GetPath(), f.GetText())
	out.Problems = diagnosticsTo(problems)
	if file == nil {
		return out
	}
	if path == "" {
		path = file.Config
	}
	stage, source, problems := v.s.Stages.OnDisk(path)
	out.Config, out.Problems = source, append(out.Problems, diagnosticsTo(problems)...)
	if stage == nil {
		return out
	}
	defer stage.Close()
	for _, r := range stage.Test(ctx, file) {
		result := &pb.TestResult{Name: r.Test.Name, Line: uint32(r.Test.Place.Line), Got: explanationTo(r.Answer)}
		for _, d := range r.Differences {
			result.Differences = append(result.Differences, &pb.TestDifference{What: d.What, Want: d.Want, Got: d.Got})
		}
		out.Results = append(out.Results, result)
	}
	return out
}

// maxTried is how long a configuration may be that is in no file, in bytes.
const maxTried = 64 << 10

func (v policiesService) Backtest(req *pb.BacktestRequest, stream grpc.ServerStreamingServer[pb.BacktestEvent]) error {
	if n := len(req.GetText()); n > maxTried {
		return client.NewError(client.ReasonInvalid, fmt.Sprintf("the configuration has %d bytes, and at most %d can be tried; put it into a file", n, maxTried))
	}
	candidate, set, problems, err := v.s.Stages.Candidate(req.GetConfig(), req.GetText())
	if err != nil {
		return err
	}
	if candidate == nil {
		return refused(problems)
	}
	send := func(e *pb.BacktestEvent) error { return stream.Send(e) }
	if err := send(&pb.BacktestEvent{Event: &pb.BacktestEvent_Set{Set: &pb.BacktestSet{Set: setTo(set), Warnings: diagnosticsTo(problems)}}}); err != nil {
		return err
	}
	b, err := candidate.Backtest(stream.Context(), timeOf(req.GetSince()), timeOf(req.GetUntil()), func(records uint64) error {
		return send(&pb.BacktestEvent{Event: &pb.BacktestEvent_Progress{Progress: &pb.BacktestProgress{Records: records}}})
	})
	if err != nil {
		return err
	}
	for _, f := range b.Flips() {
		if err := send(&pb.BacktestEvent{Event: &pb.BacktestEvent_Flip{Flip: flipTo(f)}}); err != nil {
			return err
		}
	}
	for _, u := range b.Unknowns() {
		unknown := &pb.BacktestUnknown{
			Server: u.Kind.Server, Method: u.Kind.Method, Subject: u.Kind.Subject, Was: u.Kind.Was, Because: u.Kind.Because,
			Calls: u.Calls, First: u.First, Last: u.Last,
		}
		if err := send(&pb.BacktestEvent{Event: &pb.BacktestEvent_Unknown{Unknown: unknown}}); err != nil {
			return err
		}
	}
	return send(&pb.BacktestEvent{Event: &pb.BacktestEvent_Summary{Summary: summaryTo(&b.Summary)}})
}

func flipTo(f rehearse.Counted[rehearse.Flip]) *pb.BacktestFlip {
	return &pb.BacktestFlip{
		Server: f.Kind.Server, Method: f.Kind.Method, Subject: f.Kind.Subject, Was: f.Kind.Was, Would: f.Kind.Would,
		Loosens: f.Kind.Loosens(), WasBy: f.Kind.WasBy, WouldBy: f.Kind.WouldBy, Reason: f.Kind.Reason,
		Calls: f.Calls, First: f.First, Last: f.Last,
	}
}

func summaryTo(s *rehearse.Summary) *pb.BacktestSummary {
	m := &pb.BacktestSummary{
		Calls: s.Calls, Same: s.Same, Tighter: s.Tighter, Looser: s.Looser, Unknown: s.Unknown, Unread: s.Unread, More: s.More,
	}
	if s.Calls > 0 {
		m.First, m.Last = timestamppb.New(s.First), timestamppb.New(s.Last)
	}
	return m
}
