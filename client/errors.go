package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"syscall"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Domain is the domain of the ErrorInfo in each error status.
const Domain = "thoughtgate"

// Reasons of errors, for programs. The ErrorInfo of a status carries one; each has one status
// code and one sentinel.
const (
	ReasonNotFound   = "NOT_FOUND"
	ReasonDecided    = "DECIDED"
	ReasonChanged    = "CHANGED"
	ReasonLocked     = "LOCKED"
	ReasonVersion    = "VERSION"
	ReasonInvalid    = "INVALID"
	ReasonForbidden  = "FORBIDDEN"
	ReasonTooLarge   = "TOO_LARGE"
	ReasonNotRunning = "NOT_RUNNING"
	ReasonWithheld   = "WITHHELD"

	ReasonProofNeeded = "PROOF_NEEDED"
	ReasonProofWrong  = "PROOF_WRONG"
	ReasonLockedOut   = "LOCKED_OUT"
	ReasonEnrolled    = "ENROLLED"
	ReasonNotEnrolled = "NOT_ENROLLED"
	ReasonNoFleet     = "NO_FLEET"
)

// Sentinel errors, to be tested with [errors.Is].
var (
	ErrNotFound   = errors.New("not found")
	ErrDecided    = errors.New("already decided")
	ErrChanged    = errors.New("not the question that was shown")
	ErrLocked     = errors.New("locked by another session")
	ErrVersion    = errors.New("versions do not fit")
	ErrInvalid    = errors.New("invalid")
	ErrForbidden  = errors.New("forbidden")
	ErrTooLarge   = errors.New("too large")
	ErrNotRunning = errors.New("thoughtgated is not running")
	ErrWithheld   = errors.New("withheld until a person accepts it")

	// ErrProofNeeded reports that an approval needs a proof of presence, ErrProofWrong that the
	// proof is invalid, and ErrLockedOut that no proof is checked until [Error.Until].
	ErrProofNeeded = errors.New("a passphrase or code is needed")
	ErrProofWrong  = errors.New("wrong passphrase or code")
	ErrLockedOut   = errors.New("locked")
	ErrEnrolled    = errors.New("presence is set up already")
	ErrNotEnrolled = errors.New("presence is not set up")
	ErrNoFleet     = errors.New("this machine is in no fleet")
)

// kinds maps sentinels to reasons and codes. The first row with a code is what the code means
// without a reason.
var kinds = []struct {
	err    error
	reason string
	code   codes.Code
}{
	{ErrNotFound, ReasonNotFound, codes.NotFound},
	{ErrInvalid, ReasonInvalid, codes.InvalidArgument},
	{ErrForbidden, ReasonForbidden, codes.PermissionDenied},
	{ErrWithheld, ReasonWithheld, codes.PermissionDenied},
	{ErrTooLarge, ReasonTooLarge, codes.ResourceExhausted},
	{ErrNotRunning, ReasonNotRunning, codes.Unavailable},
	{ErrVersion, ReasonVersion, codes.Unimplemented}, // a call that this daemon does not have
	{ErrVersion, ReasonVersion, codes.FailedPrecondition},
	{ErrDecided, ReasonDecided, codes.FailedPrecondition},
	{ErrChanged, ReasonChanged, codes.FailedPrecondition},
	{ErrLocked, ReasonLocked, codes.FailedPrecondition},
	{ErrEnrolled, ReasonEnrolled, codes.FailedPrecondition},
	{ErrNotEnrolled, ReasonNotEnrolled, codes.FailedPrecondition},
	{ErrNoFleet, ReasonNoFleet, codes.FailedPrecondition},
	{ErrProofNeeded, ReasonProofNeeded, codes.Unauthenticated},
	{ErrProofWrong, ReasonProofWrong, codes.Unauthenticated},
	{ErrLockedOut, ReasonLockedOut, codes.Unauthenticated},
}

// Error is an error from the daemon, or reports that there was no answer.
type Error struct {
	Reason      string            // one of the Reason constants; empty if none fits
	Message     string            // for a person
	Metadata    map[string]string // further data; may be nil
	Diagnostics []*pb.Diagnostic  // what is wrong with a file, and where
	Code        codes.Code        // of the status
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Is reports whether e is of the kind of target.
func (e *Error) Is(target error) bool {
	for _, k := range kinds {
		if k.reason == e.Reason && k.err == target {
			return true
		}
	}
	switch target {
	case context.Canceled:
		return e.Code == codes.Canceled
	case context.DeadlineExceeded:
		return e.Code == codes.DeadlineExceeded
	}
	return false
}

// metadataUntil is the key of Metadata that holds the time until which the error applies, in
// RFC 3339.
const metadataUntil = "until"

// WithUntil sets the time until which e applies, and returns e.
func (e *Error) WithUntil(t time.Time) *Error {
	e.Metadata = maps.Clone(e.Metadata)
	if e.Metadata == nil {
		e.Metadata = map[string]string{}
	}
	e.Metadata[metadataUntil] = t.UTC().Format(time.RFC3339Nano)
	return e
}

// Until returns the time set by WithUntil, or the zero time. With [ErrLockedOut] it is when
// proofs of presence are checked again.
func (e *Error) Until() time.Time {
	t, err := time.Parse(time.RFC3339Nano, e.Metadata[metadataUntil])
	if err != nil {
		return time.Time{}
	}
	return t
}

// GRPCStatus returns e as a gRPC status.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.Code, e.Message)
	details := make([]protoadapt.MessageV1, 0, 1+len(e.Diagnostics))
	if e.Reason != "" {
		details = append(details, protoadapt.MessageV1Of(&errdetails.ErrorInfo{Reason: e.Reason, Domain: Domain, Metadata: e.Metadata}))
	}
	for _, d := range e.Diagnostics {
		details = append(details, protoadapt.MessageV1Of(d))
	}
	if with, err := st.WithDetails(details...); err == nil {
		return with
	}
	return st
}

// NewError returns the error with a reason, for a server to return from a call. The client gets
// an equal error.
func NewError(reason, message string, diagnostics ...*pb.Diagnostic) *Error {
	code := codes.Unknown
	for _, k := range kinds {
		if k.reason == reason && k.code != codes.Unimplemented {
			code = k.code
			break
		}
	}
	return &Error{Reason: reason, Message: message, Diagnostics: diagnostics, Code: code}
}

// FromStatus converts an error of a call to an [*Error]. It returns nil for nil, and an error
// that is no status unchanged.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, already := errors.AsType[*Error](err); already {
		return err
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	e := &Error{Message: st.Message(), Code: st.Code()}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == Domain {
				e.Reason, e.Metadata = d.GetReason(), maps.Clone(d.GetMetadata())
			}
		case *pb.Diagnostic:
			e.Diagnostics = append(e.Diagnostics, proto.CloneOf(d))
		}
	}
	if e.Reason == "" {
		e.guess()
	}
	return e
}

// callErrors is an interceptor that converts the error of a unary call to an [*Error].
func callErrors(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return FromStatus(invoke(ctx, method, req, reply, cc, opts...))
}

// guess sets the reason of a status without one, from grpc itself or another server.
func (e *Error) guess() {
	for _, k := range kinds {
		if k.code == e.Code {
			e.Reason = k.reason
			break
		}
	}
	switch e.Code {
	case codes.FailedPrecondition:
		e.Reason = "" // several would fit
	case codes.Unavailable:
		e.Message = "the connection to thoughtgated was lost: " + e.Message
	case codes.Unimplemented:
		e.Message = "thoughtgated is of another version, restart it: " + e.Message
	}
}

var errDropped = errors.New("somebody listens there and does not answer")

// dialFailure says why the client could not connect to the socket at path.
func dialFailure(path string, err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("connect to thoughtgated at %s: %w", path, err)
	case errors.Is(err, fs.ErrNotExist):
		return notRunning("there is no socket at " + path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return notRunning("nobody listens at " + path)
	case err == nil:
		return fmt.Errorf("connect to thoughtgated at %s: %w; its log says why (under systemd: journalctl --user -u thoughtgated -e)", path, errDropped)
	}
	return fmt.Errorf("connect to thoughtgated: %w", err)
}

func notRunning(why string) error {
	return &Error{
		Reason:  ReasonNotRunning,
		Message: "thoughtgated is not running: " + why + "; start it with `tgctl daemon start`",
		Code:    codes.Unavailable,
	}
}
