package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	format "github.com/thoughtgate/thoughtgated/internal/fleet"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// publish publishes a policy as an administrator does.
func (o *organization) publish(t *testing.T, header nats.Header, data []byte) {
	t.Helper()
	_, err := streams.Put(t.Context(), o.admin, &nats.Msg{Subject: streams.Policy("dev"), Header: header, Data: data}, nil)
	must(t, err)
}

// policyMessage is a policy that is pushed.
func policyMessage(t *testing.T, bundle string) *nats.Msg {
	t.Helper()
	return &nats.Msg{Subject: streams.Policy("dev"), Data: policyOf(t, []byte(bundle))}
}

func policyOf(t *testing.T, bundle []byte) []byte {
	t.Helper()
	data, err := proto.Marshal(&pb.InstallPolicyRequest{Timestamp: []byte("timestamp"), Bundle: bundle})
	must(t, err)
	return data
}

// TestPolicy publishes policies before and after the courier starts: with new root
// metadata, pushed, and too large for that.
func TestPolicy(t *testing.T) {
	o := newOrganization(t)
	for version := 2; version <= 3; version++ {
		_, err := streams.Put(t.Context(), o.admin, &nats.Msg{Subject: streams.TUF("root", strconv.Itoa(version)), Data: []byte{byte(version)}}, nil)
		must(t, err)
	}
	m := o.newMember(t, engine.Grant{Role: engine.Device, Group: "dev"}, nil)
	large := policyOf(t, make([]byte, 100<<10))
	sum := sha256.Sum256(large)
	_, err := streams.Put(t.Context(), o.admin, &nats.Msg{Subject: streams.Bundle(hex.EncodeToString(sum[:])), Data: large}, nil)
	must(t, err)
	o.publish(t, nats.Header{streams.Root: {"3"}, streams.Fetch: {hex.EncodeToString(sum[:])}}, nil)
	m.start(t)
	got := next(t, m.installs)
	if len(got.GetBundle()) != 100<<10 || !slices.EqualFunc(got.GetRoots(), [][]byte{{2}, {3}}, bytes.Equal) {
		t.Errorf("installed: %d bytes, roots %v", len(got.GetBundle()), got.GetRoots())
	}
	began := time.Now()
	o.publish(t, nil, policyOf(t, []byte("pushed")))
	if got := next(t, m.installs); string(got.GetBundle()) != "pushed" {
		t.Errorf("installed: %q", got.GetBundle())
	}
	t.Logf("pushed in %v", time.Since(began))
	// What is not what it was asked for, or no policy at all, is not handed to the daemon.
	forged := sha256.Sum256([]byte("another"))
	_, err = streams.Put(t.Context(), o.admin, &nats.Msg{Subject: streams.Bundle(hex.EncodeToString(forged[:])), Data: large}, nil)
	must(t, err)
	o.publish(t, nil, []byte("no policy"))
	o.publish(t, nil, policyOf(t, []byte("the next")))
	if got := next(t, m.installs); string(got.GetBundle()) != "the next" {
		t.Errorf("installed: %q", got.GetBundle())
	}
	m.stop()
	o.publish(t, nats.Header{streams.Fetch: {hex.EncodeToString(forged[:])}}, nil)
	m.start(t)
	time.Sleep(time.Second) // in vain
	if len(m.installs) > 0 {
		t.Errorf("installed: %v", <-m.installs)
	}
}

// The daemon ends what it streams when the policy changes. The upload goes on at once, and no
// error is shown.
func TestUploadGoesOn(t *testing.T) {
	o := newOrganization(t)
	link := o.link(t, o.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"}))
	mine := newLog(t, 1024)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	u := &courier.Uploader{
		Conn: link.Conn, Device: link.Device, Log: logID,
		Read: func(ctx context.Context, log string, from uint64) iter.Seq2[*pb.FleetAuditRecord, error] {
			return func(yield func(*pb.FleetAuditRecord, error) bool) {
				left := 101 // the first one is known to the engine
				for r, err := range mine.read(ctx, log, from) {
					if !yield(r, err) {
						return
					}
					if left--; left == 0 || r.GetSeq() == uint64(mine.records) { // what is left of a batch is sent at once
						yield(nil, status.Error(codes.Unavailable, "the policy has changed"))
						return
					}
				}
			}
		},
	}
	u.Failed = func(err error) {
		if err != nil {
			t.Error(err)
		}
		if u.Sent() == uint64(mine.records) {
			cancel()
		}
	}
	must(t, u.Run(ctx))
	if u.Sent() != uint64(mine.records) {
		t.Errorf("%d records were sent", u.Sent())
	}
}

// TestReport reads what a device says of itself, and says again once that has changed.
func TestReport(t *testing.T) {
	o := newOrganization(t)
	m := o.newMember(t, engine.Grant{Role: engine.Device, Group: "dev"}, nil)
	m.start(t)
	reader := o.as(t, engine.Reader)
	for _, pending := range []uint32{0, 3} {
		if pending > 0 {
			m.wait(pending)
		}
		for tries := 0; ; tries++ {
			stored, err := streams.Last(t.Context(), reader, streams.SeenStream, streams.Seen(m.device))
			if err == nil {
				seen, err := format.ParseSeen(stored.Data)
				must(t, err)
				if seen.Device == m.device && seen.Pending == pending && seen.Log == logID && seen.Seq == 1 {
					break
				}
			}
			if tries == 600 {
				t.Fatalf("no report with %d questions: %v", pending, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// TestQuestions has an approver answer questions of another device: one while it waits, and
// one while it is away.
func TestQuestions(t *testing.T) {
	o, asks, answers, recipient := newPair(t)
	q := newQuestion(asks, "A-1-00000000", recipient)
	began := time.Now()
	asks.questions <- q
	checkDecision(t, answers, q, next(t, asks.decisions))
	t.Logf("answered in %v", time.Since(began))
	// A second decision of the same approver is not stored.
	_, err := streams.Put(t.Context(), o.link(t, answers.id).Conn, &nats.Msg{Subject: streams.Decide(asks.device, q.GetId(), streams.Approver(recipient)), Data: []byte("x")}, nil)
	if err == nil {
		t.Error("a second decision was stored")
	}
	// The approver answers once the device is away.
	away, answered := make(chan struct{}), make(chan struct{})
	answers.foreign = func(ctx context.Context, f *pb.ForeignQuestion) (*pb.ForeignAnswer, error) {
		<-away
		defer close(answered)
		return approves(ctx, f)
	}
	q = newQuestion(asks, "A-2-00000000", recipient)
	asks.questions <- q
	reader := o.admin
	for {
		if _, err := streams.Last(t.Context(), reader, streams.AskStream, streams.Ask("dev", asks.device, q.GetId())); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	asks.stop()
	close(away)
	next(t, answered)
	for {
		if _, err := streams.Last(t.Context(), reader, streams.DecideStream, streams.Decide(asks.device, q.GetId(), streams.Approver(recipient))); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	asks.questions <- q
	asks.start(t)
	checkDecision(t, answers, q, next(t, asks.decisions))
}

// TestWithdrawn ends a question while an approver is asked. One that waits when an approver
// comes is asked then.
func TestWithdrawn(t *testing.T) {
	o, asks, answers, recipient := newPair(t)
	answers.stop()
	asked, ended := make(chan *pb.ForeignQuestion, 10), make(chan struct{}, 10)
	answers.foreign = func(ctx context.Context, f *pb.ForeignQuestion) (*pb.ForeignAnswer, error) {
		asked <- f
		<-ctx.Done()
		ended <- struct{}{}
		return nil, ctx.Err()
	}
	q := newQuestion(asks, "A-1-00000000", recipient)
	other, err := courier.NewApproverKey()
	must(t, err)
	stranger, err := other.Recipient()
	must(t, err)
	asks.questions <- newQuestion(asks, "A-2-00000000", stranger) // not for this approver
	asks.questions <- q
	for {
		if _, err := streams.Last(t.Context(), o.admin, streams.AskStream, streams.Ask("dev", asks.device, q.GetId())); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	answers.start(t)
	f := next(t, asked)
	if !bytes.Equal(f.GetStatement(), q.GetStatement()) || !bytes.Equal(f.GetShown(), q.GetShown()) || f.GetDevice() != asks.device {
		t.Errorf("asked: %v", f)
	}
	asks.questions <- &pb.FleetQuestion{Id: q.GetId(), Ended: true, End: "withdrawn"}
	next(t, ended)
	if len(asked) > 0 {
		t.Errorf("asked, too: %v", <-asked)
	}
}
