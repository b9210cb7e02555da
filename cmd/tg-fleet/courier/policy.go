package courier

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/tuf"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// confirmEvery is how often the stored policy is handed to the daemon again, which so
	// learns that it is still the newest one.
	confirmEvery = 6 * time.Hour
	// fetchSpread is over which time the devices of a group fetch a policy that is too
	// large to be pushed.
	fetchSpread = 30 * time.Second
	// installGap is the least time between two policies that the daemon has to verify.
	installGap = time.Second
)

// policies hands every policy of the group to the daemon: the stored one first, then
// those that are published. Nothing of it is believed here.
func (c *Courier) policies(ctx context.Context) error {
	pushed := make(chan *nats.Msg, 16)
	sub, err := c.link.ChanSubscribe(streams.LivePolicy(c.id.Group), pushed)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := c.confirm(ctx); err != nil {
		return err
	}
	again := time.NewTimer(confirmEvery/2 + rand.N(confirmEvery))
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
			again.Reset(confirmEvery/2 + rand.N(confirmEvery))
			err = c.confirm(ctx)
		case msg := <-pushed:
			err = c.pushed(ctx, msg, pushed)
		}
		if err != nil {
			return err
		}
		pause(ctx, installGap)
	}
}

// confirm hands the stored policy to the daemon.
func (c *Courier) confirm(ctx context.Context) error {
	stored, err := streams.Last(ctx, c.link.Conn, streams.PolicyStream, streams.Policy(c.id.Group))
	if errors.Is(err, streams.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.install(ctx, stored)
}

// pushed hands a policy that was pushed to the daemon, or the one after it if there is one
// by then.
func (c *Courier) pushed(ctx context.Context, msg *nats.Msg, more <-chan *nats.Msg) error {
	stored, ok := streams.Live(msg, streams.PolicyStream)
	if !ok {
		return nil
	}
	if stored.Header.Get(streams.Fetch) != "" {
		pause(ctx, rand.N(fetchSpread))
	}
	for len(more) > 0 {
		if later, ok := streams.Live(<-more, streams.PolicyStream); ok {
			stored = later
		}
	}
	return c.install(ctx, stored)
}

// install hands a policy to the daemon. It returns no error if the daemon refuses it.
func (c *Courier) install(ctx context.Context, stored streams.Stored) error {
	data := stored.Data
	if sum := stored.Header.Get(streams.Fetch); sum != "" {
		var err error
		if data, err = c.fetch(ctx, sum); err != nil {
			return fmt.Errorf("fetch the policy: %w", err)
		}
	}
	request := &pb.InstallPolicyRequest{}
	if err := proto.Unmarshal(data, request); err != nil {
		c.failed("get policies", fmt.Errorf("what was published is no policy: %w", err))
		return nil
	}
	roots, err := c.roots(ctx, stored.Header.Get(streams.Root))
	if err != nil {
		return fmt.Errorf("fetch root metadata: %w", err)
	}
	request.Roots = roots
	_, err = c.hand(ctx, request)
	return err
}

// hand hands a policy to the daemon, and reports whether it takes it. The error is that the daemon
// is not there.
func (c *Courier) hand(ctx context.Context, request *pb.InstallPolicyRequest) (bool, error) {
	response, err := c.Daemon.InstallPolicy(ctx, request)
	if status.Code(err) == codes.Unavailable || ctx.Err() != nil {
		return false, fmt.Errorf("hand the policy to the daemon: %w", err) // and again once it is there
	}
	if err != nil {
		c.failed("get policies", fmt.Errorf("the daemon refuses the policy: %w", err))
		return false, nil
	}
	c.failed("get policies", nil)
	if response.GetInstalled() {
		c.Log.Info("policy", "version", response.GetState().GetBundleVersion())
	}
	return true, nil
}

// fetch returns the content that has a SHA-256.
func (c *Courier) fetch(ctx context.Context, sum string) ([]byte, error) {
	want, err := hex.DecodeString(sum)
	if err != nil || len(want) != sha256.Size {
		return nil, errors.New("the digest is malformed")
	}
	stored, err := streams.Last(ctx, c.link.Conn, streams.BundleStream, streams.Bundle(hex.EncodeToString(want)))
	if err != nil {
		return nil, err
	}
	if got := sha256.Sum256(stored.Data); string(got[:]) != string(want) {
		return nil, errors.New("the content does not have the digest by which it was asked for")
	}
	return stored.Data, nil
}

// roots returns the root metadata that are newer than the daemon's, up to the version
// newest.
func (c *Courier) roots(ctx context.Context, newest string) ([][]byte, error) {
	last, err := strconv.ParseUint(newest, 10, 32)
	if err != nil {
		return nil, nil // the daemon has all that it needs, or refuses the policy
	}
	state, err := c.current(ctx)
	if err != nil {
		return nil, err
	}
	var roots [][]byte
	for version := state.GetRootVersion() + 1; version <= last && len(roots) < tuf.MaxNewRoots; version++ {
		stored, err := streams.Last(ctx, c.link.Conn, streams.BundleStream, streams.TUF("root", strconv.FormatUint(version, 10)))
		if errors.Is(err, streams.ErrNone) {
			break
		}
		if err != nil {
			return nil, err
		}
		roots = append(roots, stored.Data)
	}
	return roots, nil
}
