package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// An error of a daemon package arrives at the client as the sentinel of the same name, with the
// same text.
func TestErrorsRoundTrip(t *testing.T) {
	for _, tt := range []struct{ daemon, client error }{
		{gate.ErrNotFound, client.ErrNotFound},
		{gate.ErrDecided, client.ErrDecided},
		{gate.ErrChanged, client.ErrChanged},
		{gate.ErrLocked, client.ErrLocked},
		{gate.ErrVersion, client.ErrVersion},
		{gate.ErrInvalid, client.ErrInvalid},
		{gate.ErrForbidden, client.ErrForbidden},
		{gate.ErrWithheld, client.ErrWithheld},
		{gate.ErrTooLarge, client.ErrTooLarge},
		{gate.ErrFull, client.ErrTooLarge},
		{gate.ErrNotRunning, client.ErrNotRunning},
		{gate.ErrProofNeeded, client.ErrProofNeeded},
		{gate.ErrProofWrong, client.ErrProofWrong},
		{gate.ErrLockedOut, client.ErrLockedOut},
		{gate.ErrEnrolled, client.ErrEnrolled},
		{gate.ErrNotEnrolled, client.ErrNotEnrolled},
		{context.Canceled, context.Canceled},
		{context.DeadlineExceeded, context.DeadlineExceeded},
	} {
		err := fmt.Errorf("decide A-1: %w", tt.daemon)
		st, ok := status.FromError(toStatus(err))
		if !ok || st.Code() == codes.OK {
			t.Errorf("%v: no status", err)
			continue
		}
		back := client.FromStatus(st.Err())
		if !errors.Is(back, tt.client) {
			t.Errorf("%v: arrives as %v", err, back)
		}
		if tt.daemon != gate.ErrInvalid && st.Message() != err.Error() {
			t.Errorf("%v: its words arrive as %q", err, st.Message())
		}
	}
	// That it is invalid is said by the rest.
	for _, err := range []error{fmt.Errorf("the prompt is empty: %w", gate.ErrInvalid), fmt.Errorf("run: %w", fmt.Errorf("the prompt is empty: %w", gate.ErrInvalid))} {
		back := client.FromStatus(toStatus(err))
		if !errors.Is(back, client.ErrInvalid) || !strings.HasSuffix(back.Error(), "the prompt is empty") {
			t.Errorf("%v: arrives as %v", err, back)
		}
	}
	if err := toStatus(nil); err != nil {
		t.Errorf("nil: got %v", err)
	}
	if code := status.Code(toStatus(errors.New("disk on fire"))); code != codes.Internal {
		t.Errorf("an error without a sentinel: got %v, want Internal", code)
	}
}
