package main

import (
	"context"
	"errors"
	"testing"
	"time"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Who waits for a place in the window, or for room to keep an observation, goes
// on when the link has ended. A shim whose agent had left while the daemon was
// gone once stayed for ever.
func TestEndedLinkLetsGo(t *testing.T) {
	l := &link{window: make(chan struct{}, 1), kept: make([]*pb.Observe, maxObservations), over: make(chan struct{})}
	l.room.L = &l.mu
	l.window <- struct{}{}
	ended := make(chan error, 2)
	go func() { ended <- l.submit(context.Background(), &call{}, false) }()
	go func() {
		l.observe(&pb.Observe{})
		ended <- errGateLost
	}()
	l.end(errGateLost)
	l.end(errDrain)
	for range 2 {
		select {
		case err := <-ended:
			if !errors.Is(err, errGateLost) {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("somebody waits still")
		}
	}
}
