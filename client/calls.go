package client

import (
	"context"
	"iter"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Status tells what the daemon is, what is in force, and what goes on.
func (c *Client) Status(ctx context.Context) (*pb.StatusResponse, error) {
	return pb.NewDaemonClient(c.conn).Status(ctx, &pb.StatusRequest{})
}

// Reload puts the configuration as it is on disk in force. When something is
// wrong with it the old one stays, and the error's Diagnostics say what.
func (c *Client) Reload(ctx context.Context) (*pb.ReloadResponse, error) {
	return pb.NewDaemonClient(c.conn).Reload(ctx, &pb.ReloadRequest{})
}

// Metrics returns what the daemon has counted since it started, in the text format
// of Prometheus.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) {
	out, err := pb.NewDaemonClient(c.conn).Metrics(ctx, &pb.MetricsRequest{})
	return out.GetText(), err
}

// MetricSamples returns the same one by one, in the same order.
func (c *Client) MetricSamples(ctx context.Context) ([]*pb.Sample, error) {
	out, err := pb.NewDaemonClient(c.conn).Metrics(ctx, &pb.MetricsRequest{Samples: true})
	return out.GetSamples(), err
}

// Stop asks the daemon to end. It returns before the daemon has gone.
func (c *Client) Stop(ctx context.Context) error {
	_, err := pb.NewDaemonClient(c.conn).Stop(ctx, &pb.StopRequest{})
	return err
}

// MayStop asks whether the daemon would end if this process told it to; nothing
// ends. [ErrForbidden] says that it would not.
func (c *Client) MayStop(ctx context.Context) error {
	_, err := pb.NewDaemonClient(c.conn).Stop(ctx, &pb.StopRequest{OnlyAsk: true})
	return err
}

// Validate reads the configuration at path, which is absolute, and says all
// that is wrong with it. An empty path is the daemon's own configuration.
func (c *Client) Validate(ctx context.Context, path string) (*pb.ValidateResponse, error) {
	return pb.NewPoliciesClient(c.conn).Validate(ctx, &pb.ValidateRequest{Path: path})
}

// PolicySet describes the set of rules and policies in force.
func (c *Client) PolicySet(ctx context.Context) (*pb.PolicySet, error) {
	return pb.NewPoliciesClient(c.conn).Get(ctx, &pb.GetPolicySetRequest{})
}

// ListApprovals returns the open questions, oldest first; with all the decided
// ones too, newest first. Of long arguments there are only the beginnings: see
// ArgumentsBytes, and GetApproval.
func (c *Client) ListApprovals(ctx context.Context, all bool) ([]*pb.Approval, error) {
	out, err := pb.NewApprovalsClient(c.conn).List(ctx, &pb.ListApprovalsRequest{All: all})
	return out.GetApprovals(), err
}

// DenyFrom says no to every open question of a server. It returns those questions,
// and why others could not be denied.
func (c *Client) DenyFrom(ctx context.Context, server, note, surface string) (denied []*pb.Approval, failed []string, err error) {
	out, err := pb.NewApprovalsClient(c.conn).DenyFrom(ctx, &pb.DenyFromRequest{Server: server, Note: note, Surface: surface})
	return out.GetDenied(), out.GetFailed(), err
}

// GetApproval returns one question, [ErrNotFound] when there never was one of
// that name.
func (c *Client) GetApproval(ctx context.Context, id string) (*pb.Approval, error) {
	return pb.NewApprovalsClient(c.conn).Get(ctx, &pb.GetApprovalRequest{Id: id})
}

// ListGrants returns the grants in force, oldest first; with all also those that
// have ended, after the others, newest first.
func (c *Client) ListGrants(ctx context.Context, all bool) ([]*pb.Grant, error) {
	out, err := pb.NewApprovalsClient(c.conn).ListGrants(ctx, &pb.ListGrantsRequest{All: all})
	return out.GetGrants(), err
}

// RevokeGrant ends a grant and returns it, [ErrNotFound] when none of that name is
// in force.
func (c *Client) RevokeGrant(ctx context.Context, id string) (*pb.Grant, error) {
	out, err := pb.NewApprovalsClient(c.conn).RevokeGrant(ctx, &pb.RevokeGrantRequest{Id: id})
	return out.GetGrant(), err
}

// WatchApprovals yields every open question, then each change, as ListApprovals
// returns them, until ctx ends, the loop is left, or an error was yielded.
func (c *Client) WatchApprovals(ctx context.Context) iter.Seq2[*pb.ApprovalEvent, error] {
	return receive(ctx, pb.NewApprovalsClient(c.conn).Watch, &pb.WatchApprovalsRequest{})
}

// Decide answers a question. Its subject is that of the question which was
// shown: [ErrChanged] says that it is another by now, [ErrDecided] that somebody
// was faster or the time is up, [ErrForbidden] that this caller may not answer. A
// yes to a question of level presence needs a proof: without one that counts it is
// [ErrProofNeeded], [ErrProofWrong], [ErrLockedOut] or [ErrNotEnrolled].
func (c *Client) Decide(ctx context.Context, d *pb.Decision) (*pb.Decided, error) {
	return pb.NewApprovalsClient(c.conn).Decide(ctx, d)
}

// Report has an answer recorded that a surface was given and did not believe.
// [ErrForbidden] says that the caller may not decide, and so not report either.
func (c *Client) Report(ctx context.Context, r *pb.ReportRequest) error {
	_, err := pb.NewApprovalsClient(c.conn).Report(ctx, r)
	return err
}

// PresenceStatus tells how it stands with the secret that proves presence. With
// deciding the caller is about to ask a person for it: [ErrForbidden] says that it
// may not decide, and otherwise the daemon has looked at this process, so that it
// can hide its memory and go on over the same connection.
func (c *Client) PresenceStatus(ctx context.Context, deciding bool) (*pb.PresenceState, error) {
	out, err := pb.NewPresenceClient(c.conn).Status(ctx, &pb.PresenceStatusRequest{Deciding: deciding})
	return out.GetState(), err
}

// EnrolPresence makes a secret: [ErrEnrolled] when there is one, [ErrProofWrong]
// when the code is not one of its key, [ErrInvalid] when it can't be one. The
// caller wipes what it gave, here as in all calls that take a secret.
func (c *Client) EnrolPresence(ctx context.Context, secret *pb.PresenceSecret) (*pb.PresenceState, error) {
	out, err := pb.NewPresenceClient(c.conn).Enrol(ctx, &pb.EnrolPresenceRequest{Secret: secret})
	return out.GetState(), err
}

// RotatePresence puts a new secret in place of the old one. Errors are those of
// EnrolPresence and RemovePresence, but for ErrEnrolled.
func (c *Client) RotatePresence(ctx context.Context, req *pb.RotatePresenceRequest) (*pb.PresenceState, error) {
	out, err := pb.NewPresenceClient(c.conn).Rotate(ctx, req)
	return out.GetState(), err
}

// RemovePresence takes the secret away: [ErrProofWrong] when the passphrase is not
// its own, [ErrLockedOut] when none is looked at, [ErrNotEnrolled] when there is no
// secret, [ErrForbidden] when this caller may not.
func (c *Client) RemovePresence(ctx context.Context, req *pb.RemovePresenceRequest) error {
	_, err := pb.NewPresenceClient(c.conn).Remove(ctx, req)
	return err
}

// ReadAudit yields the records that q selects, oldest first, byte for byte as
// they are stored. With q.Follow it then waits for more, until ctx ends, the
// loop is left, or an error was yielded.
func (c *Client) ReadAudit(ctx context.Context, q *pb.AuditQuery) iter.Seq2[*pb.AuditRecord, error] {
	return receive(ctx, pb.NewAuditClient(c.conn).Read, q)
}

// ListPins returns what is known of the tools, prompts and templates of a
// server, or of all servers when server is empty.
func (c *Client) ListPins(ctx context.Context, server string) ([]*pb.Pin, error) {
	out, err := pb.NewPinsClient(c.conn).List(ctx, &pb.ListPinsRequest{Server: server})
	return out.GetPins(), err
}

// DiffPin shows what differs between the definition accepted and the one that
// waits, [ErrNotFound] when there is no such pin.
func (c *Client) DiffPin(ctx context.Context, ref *pb.PinRef) (*pb.PinDiff, error) {
	return pb.NewPinsClient(c.conn).Diff(ctx, ref)
}

// AcceptPins accepts definitions that wait, all of them or none: [ErrChanged]
// says that something else waits by now than what was shown, [ErrDecided] that it
// is accepted already, [ErrForbidden] that this caller may not.
func (c *Client) AcceptPins(ctx context.Context, req *pb.AcceptPinsRequest) ([]*pb.Pin, error) {
	out, err := pb.NewPinsClient(c.conn).Accept(ctx, req)
	return out.GetPins(), err
}

// ListServers returns the servers that were seen, each launch of its own.
func (c *Client) ListServers(ctx context.Context) ([]*pb.Server, error) {
	out, err := pb.NewServersClient(c.conn).List(ctx, &pb.ListServersRequest{})
	return out.GetServers(), err
}

// AcceptServer accepts a stranger, and the definitions that wait for no other
// reason. Errors are those of AcceptPins.
func (c *Client) AcceptServer(ctx context.Context, req *pb.AcceptServerRequest) (*pb.AcceptServerResponse, error) {
	return pb.NewServersClient(c.conn).Accept(ctx, req)
}

// Look says what would run if a server that a project names were started, nil
// when there is nothing to agree to. A start that nobody has agreed to waits from
// then on.
func (c *Client) Look(ctx context.Context, req *pb.LookRequest) (*pb.ServerStart, error) {
	out, err := pb.NewServersClient(c.conn).Look(ctx, req)
	return out.GetStart(), err
}

// ListStarts returns the starts of servers of projects that are known of, those
// that wait first.
func (c *Client) ListStarts(ctx context.Context) ([]*pb.ServerStart, error) {
	out, err := pb.NewServersClient(c.conn).ListStarts(ctx, &pb.ListStartsRequest{})
	return out.GetStarts(), err
}

// AcceptStart agrees to a start that waits: [ErrNotFound] says that there is none
// of that digest, [ErrDecided] that it is agreed to already, [ErrForbidden] that
// this caller may not.
func (c *Client) AcceptStart(ctx context.Context, req *pb.AcceptStartRequest) (*pb.ServerStart, error) {
	return pb.NewServersClient(c.conn).AcceptStart(ctx, req)
}

// ForgetStart takes an agreement back. Errors are those of AcceptStart, but for
// ErrDecided.
func (c *Client) ForgetStart(ctx context.Context, req *pb.ForgetStartRequest) error {
	_, err := pb.NewServersClient(c.conn).ForgetStart(ctx, req)
	return err
}

// ListProcesses returns the shims that are attached, oldest first, and then the
// programs that the daemon keeps.
func (c *Client) ListProcesses(ctx context.Context) ([]*pb.Process, error) {
	out, err := pb.NewProcessesClient(c.conn).List(ctx, &pb.ListProcessesRequest{})
	return out.GetProcesses(), err
}

// ListSessions returns the sessions that are open or not yet cleaned up.
func (c *Client) ListSessions(ctx context.Context) ([]*pb.Session, error) {
	out, err := pb.NewSessionsClient(c.conn).List(ctx, &pb.ListSessionsRequest{})
	return out.GetSessions(), err
}
