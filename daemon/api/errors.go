package api

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/approval/presence"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/undo"
)

// reasons maps errors of the daemon's packages to reasons in the protocol, which the client maps
// back. The first match counts.
var reasons = []struct {
	err    error
	reason string
}{
	{gate.ErrNotFound, client.ReasonNotFound},
	{gate.ErrDecided, client.ReasonDecided},
	{gate.ErrChanged, client.ReasonChanged},
	{undo.ErrChanged, client.ReasonChanged},
	{undo.ErrNoSnapshot, client.ReasonNotFound},
	{undo.ErrTooLarge, client.ReasonTooLarge},
	{gate.ErrLocked, client.ReasonLocked},
	{gate.ErrVersion, client.ReasonVersion},
	{gate.ErrWithheld, client.ReasonWithheld},
	{gate.ErrForbidden, client.ReasonForbidden},
	{gate.ErrTooLarge, client.ReasonTooLarge},
	{gate.ErrFull, client.ReasonTooLarge},
	{gate.ErrBurst, client.ReasonTooLarge},
	{gate.ErrTooMany, client.ReasonTooLarge},
	{gate.ErrNotRunning, client.ReasonNotRunning},
	{gate.ErrProofNeeded, client.ReasonProofNeeded},
	{gate.ErrProofWrong, client.ReasonProofWrong},
	{gate.ErrLockedOut, client.ReasonLockedOut},
	{gate.ErrNoFleet, client.ReasonNoFleet},
	{gate.ErrEnrolled, client.ReasonEnrolled},
	{gate.ErrNotEnrolled, client.ReasonNotEnrolled},
	{gate.ErrInvalid, client.ReasonInvalid},
}

// toStatus converts an error of the daemon to a gRPC status. It returns nil for nil.
func toStatus(err error) error {
	var already *client.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &already):
		return already
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			e := client.NewError(r.reason, strings.TrimSuffix(err.Error(), ": "+gate.ErrInvalid.Error())) // which the rest says better
			var locked *presence.LockedOutError
			if errors.As(err, &locked) {
				return e.WithUntil(locked.Until)
			}
			return e
		}
	}
	return status.Error(codes.Internal, err.Error())
}
