package courier

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// reportEvery is how often a device reports its state, give or take a fifth.
	reportEvery = 5 * time.Minute
	// reportGap is the least time between two reports.
	reportGap = 2 * time.Second
)

// report reports the state of the device at times, and when it has changed.
func (c *Courier) report(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	changes, failed := make(chan *pb.FleetState), make(chan error, 1)
	defer func() {
		cancel()
		<-failed // what reads the states has ended
	}()
	go func() {
		defer close(failed)
		for state, err := range c.states(ctx) {
			if err != nil {
				failed <- err
				return
			}
			select {
			case changes <- state:
			case <-ctx.Done():
				return
			}
		}
	}()
	var newest, reported fleet.Seen
	due := time.NewTimer(0) // at once
	defer due.Stop()
	<-due.C
	for {
		select {
		case err := <-failed:
			return err
		case state := <-changes:
			newest = seen(state, c.fork())
			if withoutLog(newest) != withoutLog(reported) {
				due.Reset(reportGap / 2)
			}
			continue
		case <-due.C:
		}
		newest.At, newest.Fork = time.Now().Unix(), c.fork()
		if _, err := streams.Put(ctx, c.link.Conn, &nats.Msg{Subject: streams.Seen(c.link.Device), Data: newest.Encode()}, nil); err != nil {
			return err
		}
		c.failed("report", nil)
		reported = newest
		pause(ctx, reportGap)
		due.Reset(reportEvery*4/5 + rand.N(reportEvery*2/5))
	}
}

// withoutLog is a report without what changes with every record.
func withoutLog(s fleet.Seen) fleet.Seen {
	s.At, s.Seq, s.Head = 0, 0, ""
	return s
}

// seen is what the engine is told of a state.
func seen(state *pb.FleetState, fork string) fleet.Seen {
	mode := fleet.ModeFloor
	if state.GetMode() == pb.FleetMode_FLEET_MODE_FULL {
		mode = fleet.ModeFull
	}
	return fleet.Seen{
		V: fleet.SeenVersion, Device: state.GetDevice(), Build: state.GetBuild(), Group: state.GetGroup(), Mode: mode,
		Bundle: state.GetBundleVersion(), Digest: state.GetBundleDigest(), Timestamp: state.GetTimestampVersion(), Root: state.GetRootVersion(),
		Failure: state.GetFailure(), Log: state.GetLog(), Seq: state.GetLogSeq(), Head: hex.EncodeToString(state.GetLogHash()), Fork: fork, Pending: state.GetPending(),
	}
}

// ReportLeft tells the engine that the device has left.
func (l *Link) ReportLeft(ctx context.Context, group string, mode fleet.Mode) error {
	s := fleet.Seen{V: fleet.SeenVersion, Device: l.Device, At: time.Now().Unix(), Group: group, Mode: mode, Left: true}
	_, err := streams.Put(ctx, l.Conn, &nats.Msg{Subject: streams.Seen(l.Device), Data: s.Encode()}, nil)
	return err
}
