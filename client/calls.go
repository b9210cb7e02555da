package client

import (
	"context"
	"iter"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Status returns what the daemon is, what is in force, and what is going on.
func (c *Client) Status(ctx context.Context) (*pb.StatusResponse, error) {
	return pb.NewDaemonClient(c.conn).Status(ctx, &pb.StatusRequest{})
}

// Reload puts the configuration on disk in force. If it is invalid, the old one stays in force,
// and the error's Diagnostics say why.
func (c *Client) Reload(ctx context.Context) (*pb.ReloadResponse, error) {
	return pb.NewDaemonClient(c.conn).Reload(ctx, &pb.ReloadRequest{})
}

// Metrics returns the daemon's metrics since its start, in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	out, err := pb.NewDaemonClient(c.conn).Metrics(ctx, &pb.MetricsRequest{})
	return out.GetText(), err
}

// MetricSamples returns the same metrics as samples, in the same order.
func (c *Client) MetricSamples(ctx context.Context) ([]*pb.Sample, error) {
	out, err := pb.NewDaemonClient(c.conn).Metrics(ctx, &pb.MetricsRequest{Samples: true})
	return out.GetSamples(), err
}

// Stop asks the daemon to end. It returns before the daemon has ended.
func (c *Client) Stop(ctx context.Context) error {
	_, err := pb.NewDaemonClient(c.conn).Stop(ctx, &pb.StopRequest{})
	return err
}

// MayStop asks whether the daemon would end if this process called Stop; it does not end. The
// error is [ErrForbidden] if it would not.
func (c *Client) MayStop(ctx context.Context) error {
	_, err := pb.NewDaemonClient(c.conn).Stop(ctx, &pb.StopRequest{OnlyAsk: true})
	return err
}

// Validate checks the configuration at path, which must be absolute, and returns its errors and
// warnings. An empty path stands for the daemon's own configuration.
func (c *Client) Validate(ctx context.Context, path string) (*pb.ValidateResponse, error) {
	return pb.NewPoliciesClient(c.conn).Validate(ctx, &pb.ValidateRequest{Path: path})
}

// ValidateBundle checks the policy of a fleet, and returns its errors and warnings.
func (c *Client) ValidateBundle(ctx context.Context, bundle []byte) (*pb.ValidateResponse, error) {
	return pb.NewPoliciesClient(c.conn).Validate(ctx, &pb.ValidateRequest{Bundle: bundle})
}

// PolicySet describes the rules and policies in force.
func (c *Client) PolicySet(ctx context.Context) (*pb.PolicySet, error) {
	return pb.NewPoliciesClient(c.conn).Get(ctx, &pb.GetPolicySetRequest{})
}

// ListApprovals returns the questions that are waiting, oldest first; with all, the decided
// ones follow, newest first. Long arguments are truncated: see ArgumentsBytes and GetApproval.
func (c *Client) ListApprovals(ctx context.Context, all bool) ([]*pb.Approval, error) {
	out, err := pb.NewApprovalsClient(c.conn).List(ctx, &pb.ListApprovalsRequest{All: all})
	return out.GetApprovals(), err
}

// DenyFrom denies every waiting question of a server. It returns the denied questions, and why
// others could not be denied.
func (c *Client) DenyFrom(ctx context.Context, server, note, surface string) (denied []*pb.Approval, failed []string, err error) {
	out, err := pb.NewApprovalsClient(c.conn).DenyFrom(ctx, &pb.DenyFromRequest{Server: server, Note: note, Surface: surface})
	return out.GetDenied(), out.GetFailed(), err
}

// GetApproval returns one question, or [ErrNotFound] if there never was one with that id.
func (c *Client) GetApproval(ctx context.Context, id string) (*pb.Approval, error) {
	return pb.NewApprovalsClient(c.conn).Get(ctx, &pb.GetApprovalRequest{Id: id})
}

// ListGrants returns the grants in force, oldest first; with all, those that have ended follow,
// newest first.
func (c *Client) ListGrants(ctx context.Context, all bool) ([]*pb.Grant, error) {
	out, err := pb.NewApprovalsClient(c.conn).ListGrants(ctx, &pb.ListGrantsRequest{All: all})
	return out.GetGrants(), err
}

// ListCopies returns the copies of files that calls have destroyed, newest first.
func (c *Client) ListCopies(ctx context.Context) ([]*pb.Copy, error) {
	out, err := pb.NewUndoClient(c.conn).List(ctx, &pb.ListCopiesRequest{})
	return out.GetCopies(), err
}

// PlanUndo returns what bringing back a copy would do now. The error is [ErrNotFound] if there is
// no such copy, or no longer.
func (c *Client) PlanUndo(ctx context.Context, id string) (*pb.UndoPlan, error) {
	return pb.NewUndoClient(c.conn).Plan(ctx, &pb.PlanUndoRequest{Id: id})
}

// Restore does what a plan says. The error is [ErrChanged] if the files changed after it was made,
// and [ErrProofNeeded] if presence is set up and there is no proof.
func (c *Client) Restore(ctx context.Context, req *pb.RestoreRequest) (*pb.Restored, error) {
	return pb.NewUndoClient(c.conn).Restore(ctx, req)
}

// RevokeGrant ends a grant and returns it. The error is [ErrNotFound] if no grant with that id
// is in force.
func (c *Client) RevokeGrant(ctx context.Context, id string) (*pb.Grant, error) {
	out, err := pb.NewApprovalsClient(c.conn).RevokeGrant(ctx, &pb.RevokeGrantRequest{Id: id})
	return out.GetGrant(), err
}

// WatchApprovals yields every waiting question and then each change, in the form of
// ListApprovals, until ctx ends, the loop is left, or an error is yielded.
func (c *Client) WatchApprovals(ctx context.Context) iter.Seq2[*pb.ApprovalEvent, error] {
	return receive(ctx, pb.NewApprovalsClient(c.conn).Watch, &pb.WatchApprovalsRequest{})
}

// Decide answers a question. The subject must be that of the question as it was shown. Errors
// are [ErrChanged] if the question has another subject now, [ErrDecided] if it was decided or
// has expired, and [ErrForbidden] if this caller may not answer. Approving a question of level
// presence needs a valid proof; without one the error is [ErrProofNeeded], [ErrProofWrong],
// [ErrLockedOut] or [ErrNotEnrolled].
func (c *Client) Decide(ctx context.Context, d *pb.Decision) (*pb.Decided, error) {
	return pb.NewApprovalsClient(c.conn).Decide(ctx, d)
}

// Report has the daemon record an answer that a surface got and did not trust. The error is
// [ErrForbidden] if the caller may not decide and therefore not report either.
func (c *Client) Report(ctx context.Context, r *pb.ReportRequest) error {
	_, err := pb.NewApprovalsClient(c.conn).Report(ctx, r)
	return err
}

// PresenceStatus returns the state of the presence secret. deciding says that the caller is
// about to ask a person for it. Then the error is [ErrForbidden] if the caller may not decide;
// otherwise the daemon has checked this process, which may now hide its memory and continue on
// the same connection.
func (c *Client) PresenceStatus(ctx context.Context, deciding bool) (*pb.PresenceState, error) {
	out, err := pb.NewPresenceClient(c.conn).Status(ctx, &pb.PresenceStatusRequest{Deciding: deciding})
	return out.GetState(), err
}

// EnrolPresence sets up a secret. Errors are [ErrEnrolled] if there is one, [ErrProofWrong] if
// the code does not match its key, and [ErrInvalid] if it is not acceptable. The caller must
// wipe the secret, as after every call that takes one.
func (c *Client) EnrolPresence(ctx context.Context, secret *pb.PresenceSecret) (*pb.PresenceState, error) {
	out, err := pb.NewPresenceClient(c.conn).Enrol(ctx, &pb.EnrolPresenceRequest{Secret: secret})
	return out.GetState(), err
}

// RotatePresence replaces the secret. Errors are those of EnrolPresence, except ErrEnrolled,
// and those of RemovePresence.
func (c *Client) RotatePresence(ctx context.Context, req *pb.RotatePresenceRequest) (*pb.PresenceState, error) {
	out, err := pb.NewPresenceClient(c.conn).Rotate(ctx, req)
	return out.GetState(), err
}

// RemovePresence removes the secret. Errors are [ErrProofWrong] if the passphrase is not that
// of the secret, [ErrLockedOut] while none is checked, [ErrNotEnrolled] if there is no secret,
// and [ErrForbidden] if this caller may not remove it.
func (c *Client) RemovePresence(ctx context.Context, req *pb.RemovePresenceRequest) error {
	_, err := pb.NewPresenceClient(c.conn).Remove(ctx, req)
	return err
}

// ReadAudit yields the records that q selects, oldest first, byte for byte as stored. With
// q.Follow it then waits for more, until ctx ends, the loop is left, or an error is yielded.
func (c *Client) ReadAudit(ctx context.Context, q *pb.AuditQuery) iter.Seq2[*pb.AuditRecord, error] {
	return receive(ctx, pb.NewAuditClient(c.conn).Read, q)
}

// ListPins returns the pins of the tools, prompts and templates of a server, or of all servers
// if server is empty.
func (c *Client) ListPins(ctx context.Context, server string) ([]*pb.Pin, error) {
	out, err := pb.NewPinsClient(c.conn).List(ctx, &pb.ListPinsRequest{Server: server})
	return out.GetPins(), err
}

// DiffPin compares the accepted definition with the waiting one. The error is [ErrNotFound] if
// there is no such pin.
func (c *Client) DiffPin(ctx context.Context, ref *pb.PinRef) (*pb.PinDiff, error) {
	return pb.NewPinsClient(c.conn).Diff(ctx, ref)
}

// AcceptPins accepts waiting definitions, all or none. Errors are [ErrChanged] if a definition
// differs from what was shown, [ErrDecided] if it is accepted already, and [ErrForbidden] if
// this caller may not accept it.
func (c *Client) AcceptPins(ctx context.Context, req *pb.AcceptPinsRequest) ([]*pb.Pin, error) {
	out, err := pb.NewPinsClient(c.conn).Accept(ctx, req)
	return out.GetPins(), err
}

// ListServers returns the servers that were seen, one entry for each launch.
func (c *Client) ListServers(ctx context.Context) ([]*pb.Server, error) {
	out, err := pb.NewServersClient(c.conn).List(ctx, &pb.ListServersRequest{})
	return out.GetServers(), err
}

// AcceptServer accepts a new server, and those of its definitions that wait for no other
// reason. Errors are those of AcceptPins.
func (c *Client) AcceptServer(ctx context.Context, req *pb.AcceptServerRequest) (*pb.AcceptServerResponse, error) {
	return pb.NewServersClient(c.conn).Accept(ctx, req)
}

// Look returns what would run if a server that a project names were started, or nil if nothing
// needs a person's agreement. A start that nobody has accepted waits from then on.
func (c *Client) Look(ctx context.Context, req *pb.LookRequest) (*pb.ServerStart, error) {
	out, err := pb.NewServersClient(c.conn).Look(ctx, req)
	return out.GetStart(), err
}

// ListStarts returns the known starts of servers of projects, waiting ones first.
func (c *Client) ListStarts(ctx context.Context) ([]*pb.ServerStart, error) {
	out, err := pb.NewServersClient(c.conn).ListStarts(ctx, &pb.ListStartsRequest{})
	return out.GetStarts(), err
}

// AcceptStart accepts a waiting start. Errors are [ErrNotFound] if there is none with that
// digest, [ErrDecided] if it is accepted already, and [ErrForbidden] if this caller may not
// accept it.
func (c *Client) AcceptStart(ctx context.Context, req *pb.AcceptStartRequest) (*pb.ServerStart, error) {
	return pb.NewServersClient(c.conn).AcceptStart(ctx, req)
}

// ForgetStart revokes the acceptance of a start. Errors are those of AcceptStart, except
// ErrDecided.
func (c *Client) ForgetStart(ctx context.Context, req *pb.ForgetStartRequest) error {
	_, err := pb.NewServersClient(c.conn).ForgetStart(ctx, req)
	return err
}

// ListProcesses returns the attachments, oldest first, and then the programs that the daemon
// runs.
func (c *Client) ListProcesses(ctx context.Context) ([]*pb.Process, error) {
	out, err := pb.NewProcessesClient(c.conn).List(ctx, &pb.ListProcessesRequest{})
	return out.GetProcesses(), err
}

// ListSessions returns the sessions that are open, and those that have ended and whose files could
// not be restored.
func (c *Client) ListSessions(ctx context.Context) ([]*pb.Session, error) {
	out, err := pb.NewSessionsClient(c.conn).List(ctx, &pb.ListSessionsRequest{})
	return out.GetSessions(), err
}

// ListRestoring returns the sessions of ListSessions, and those that have ended and whose files the
// daemon is about to restore. A file that none of them names is not going to be restored.
func (c *Client) ListRestoring(ctx context.Context) ([]*pb.Session, error) {
	out, err := pb.NewSessionsClient(c.conn).List(ctx, &pb.ListSessionsRequest{Restoring: true})
	return out.GetSessions(), err
}

// ListLogins returns the state of each login to a server behind an address, and where tokens lie.
func (c *Client) ListLogins(ctx context.Context) (*pb.ListLoginsResponse, error) {
	return pb.NewLoginsClient(c.conn).List(ctx, &pb.ListLoginsRequest{})
}

// Login logs a person in to a server. The first event says what to open, the last one that it is done.
// Leaving the loop ends the login. Errors are [ErrNotFound] if the daemon does not know the address of the
// server, and [ErrForbidden] below an agent.
func (c *Client) Login(ctx context.Context, req *pb.LoginRequest) iter.Seq2[*pb.LoginEvent, error] {
	return receive(ctx, pb.NewLoginsClient(c.conn).Login, req)
}

// Logout removes a login and revokes it at its issuer. Errors are those of Login; [ErrNotFound] also means
// that nobody is logged in. warning says why the issuer could not be told.
func (c *Client) Logout(ctx context.Context, req *pb.LogoutRequest) (warning string, err error) {
	out, err := pb.NewLoginsClient(c.conn).Logout(ctx, req)
	return out.GetWarning(), err
}

// Membership returns what this machine is a member of. Without a device it is in no fleet.
func (c *Client) Membership(ctx context.Context) (*pb.FleetState, error) {
	return pb.NewMembershipClient(c.conn).Get(ctx, &pb.GetMembershipRequest{})
}

// JoinFleet makes this machine a member of a fleet. Errors are [ErrForbidden] below an agent, and those of a
// missing or wrong proof once a secret is enrolled.
func (c *Client) JoinFleet(ctx context.Context, req *pb.JoinFleetRequest) (*pb.FleetState, error) {
	return pb.NewMembershipClient(c.conn).Join(ctx, req)
}

// LeaveFleet ends the membership, and removes the fleet's policy. Errors are those of JoinFleet.
func (c *Client) LeaveFleet(ctx context.Context, req *pb.LeaveFleetRequest) (*pb.FleetState, error) {
	return pb.NewMembershipClient(c.conn).Leave(ctx, req)
}
