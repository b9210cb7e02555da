package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet/stream"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// liar is an engine that has no streams, and answers what a test wants in their place.
type liar struct {
	*organization
	nc *nats.Conn

	mu     sync.Mutex
	stored [][]byte             // the batches that it has acknowledged
	cursor func() (data []byte) // what it says is the last one; nil: none
	ack    func(n int) string   // what it answers to the nth batch; empty: nothing
}

// newLiar starts one, and a device that knows it.
func newLiar(t *testing.T) (*liar, *courier.Identity) {
	t.Helper()
	l := &liar{organization: newOrganization(t)}
	id := l.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"})
	l.nc = l.asEngine(t)
	must(t, removeAudit(l))
	l.answer(t)
	return l, id
}

// asEngine connects with the keys of the account of the streams: it can publish whatever the
// engine itself can.
func (o *organization) asEngine(t *testing.T) *nats.Conn {
	t.Helper()
	account := o.key(t, "account-CORE")
	user, err := nkeys.CreateUser()
	must(t, err)
	public, err := user.PublicKey()
	must(t, err)
	token, err := jwt.NewUserClaims(public).Encode(account)
	must(t, err)
	ca, err := engine.CA(o.dir)
	must(t, err)
	nc, err := nats.Connect(o.address, nats.Secure(engine.Pinned(ca, o.address)), nats.UserJWT(func() (string, error) { return token, nil }, user.Sign), nats.Timeout(time.Minute))
	must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// key reads a key of those who run the engine.
func (o *organization) key(t *testing.T, name string) nkeys.KeyPair {
	t.Helper()
	seed, err := os.ReadFile(filepath.Join(o.dir, "keys", name+".seed"))
	must(t, err)
	key, err := nkeys.FromSeed(seed)
	must(t, err)
	return key
}

// removeAudit removes the stream, so that this engine answers for it. The keys of the
// account may do that.
func removeAudit(l *liar) error {
	reply, err := l.nc.Request("$JS.API.STREAM.DELETE."+streams.AuditStream, nil, time.Minute)
	if err != nil {
		return err
	}
	var answer struct{ Success bool }
	if err := json.Unmarshal(reply.Data, &answer); err != nil || !answer.Success {
		return fmt.Errorf("delete the stream: %s: %w", reply.Data, err)
	}
	return nil
}

func (l *liar) answer(t *testing.T) {
	t.Helper()
	_, err := l.nc.Subscribe("tg.audit.*.*", func(msg *nats.Msg) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if answer := l.ack(len(l.stored)); answer != "" {
			l.stored = append(l.stored, msg.Data)
			_ = msg.Respond([]byte(answer)) // who asks hears nothing otherwise, which is an answer, too
		}
	})
	must(t, err)
	_, err = l.nc.Subscribe(streams.Get(streams.AuditStream, "tg.audit.*.*"), func(msg *nats.Msg) {
		l.mu.Lock()
		defer l.mu.Unlock()
		answer := nats.NewMsg(msg.Reply)
		if answer.Data = l.cursor(); answer.Data == nil {
			answer.Header.Set("Status", "404")
		} else {
			answer.Header.Set("Nats-Sequence", strconv.Itoa(len(l.stored)+1))
		}
		_ = l.nc.PublishMsg(answer)
	})
	must(t, err)
	must(t, l.nc.FlushTimeout(time.Minute))
}

// last is what an honest engine says: the last batch.
func (l *liar) last() []byte {
	if len(l.stored) == 0 {
		return nil
	}
	return l.stored[len(l.stored)-1]
}

func acknowledges(n int) string { return fmt.Sprintf(`{"stream":"AUDIT","seq":%d}`, n+1) }

// newLog returns a daemon's log of that many records.
func newLog(t *testing.T, count int) *daemon {
	t.Helper()
	d := &daemon{dir: t.TempDir(), records: count}
	must(t, d.write(t.Context()))
	return d
}

// batchOf returns the first records of a log as a batch.
func batchOf(t *testing.T, d *daemon, count int) []byte {
	t.Helper()
	f, err := os.Open(d.segment())
	must(t, err)
	defer f.Close()
	entries := record.NewReader(f, 0)
	var b stream.Batch
	for seq := range count {
		e, err := entries.Next()
		must(t, err)
		b.Add(uint64(seq+1), e.Line, nil)
	}
	data, err := b.Pack()
	must(t, err)
	return data
}

// TestForgedCursor has an engine say that it holds what the log of this machine has not:
// that is a fork, and nothing is sent.
func TestForgedCursor(t *testing.T) {
	l, id := newLiar(t)
	link := l.link(t, id)
	mine, other := newLog(t, 100), newLog(t, 60)
	for name, data := range map[string][]byte{
		"records of another log": batchOf(t, other, 60), "no batch": []byte("x"), "an empty one": {}, "a damaged record": damaged(t, mine),
	} {
		l.mu.Lock()
		l.stored, l.ack, l.cursor = nil, acknowledges, func() []byte { return data }
		l.mu.Unlock()
		u := &courier.Uploader{Conn: link.Conn, Device: link.Device, Log: logID, Read: mine.read}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := u.Run(ctx); !errors.Is(err, courier.ErrFork) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		if len(l.stored) > 0 {
			t.Errorf("%s: %d batches were sent", name, len(l.stored))
		}
	}
}

func damaged(t *testing.T, d *daemon) []byte {
	t.Helper()
	var b stream.Batch
	must(t, stream.Unpack(batchOf(t, d, 1), func(e record.Entry) error {
		b.Add(1, bytes.Replace(e.Line, []byte("log"), []byte("lag"), 1), nil)
		return nil
	}))
	data, err := b.Pack()
	must(t, err)
	return data
}

// TestLies has engines that lose, hide, replay and reorder what they have acknowledged. Once
// they tell the truth, they have every record, once and in order.
func TestLies(t *testing.T) {
	for name, lie := range map[string]struct {
		ack    func(l *liar, n int) string
		cursor func(l *liar, asked int) []byte
	}{
		"it acknowledges and stores nothing": {
			ack: func(l *liar, n int) string {
				if n == 1 {
					l.stored = nil
				}
				return acknowledges(n)
			},
		},
		"it never answers": {ack: func(l *liar, n int) string { return "" }},
		"it answers with errors": {ack: func(l *liar, n int) string {
			return `{"error":{"code":503,"err_code":10008,"description":"` + strings.Repeat("later ", 10) + `"}}`
		}},
		"it answers nonsense": {ack: func(l *liar, n int) string { return "+OK" }},
		"it says that another was stored meanwhile": {ack: func(l *liar, n int) string {
			return `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 7"}}`
		}},
		"it replays an older cursor": {
			ack: func(_ *liar, n int) string { return acknowledges(n) },
			cursor: func(l *liar, asked int) []byte {
				l.stored = l.stored[:min(len(l.stored), 1)]
				return l.last()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, id := newLiar(t)
			mine := newLog(t, 1024)
			asked := 0
			l.ack = func(n int) string { return lie.ack(l, n) }
			l.cursor = func() []byte {
				asked++
				if lie.cursor != nil {
					return lie.cursor(l, asked)
				}
				return l.last()
			}
			link := l.link(t, id)
			for session := range 3 { // as after three connections; the last one is with an honest engine
				if session == 2 {
					l.mu.Lock()
					l.stored = kept(t, l.stored)
					l.ack, l.cursor = acknowledges, l.last
					l.mu.Unlock()
				}
				l.upload(t, link, mine, session == 2)
			}
			check := stream.NewCheck(logID)
			for _, data := range l.stored {
				must(t, stream.Unpack(data, func(e record.Entry) error {
					if fault := check.Add(e); fault != nil {
						t.Error(fault)
					}
					return nil
				}))
			}
			if check.First() != 1 || check.Last().Seq != 1024 {
				t.Errorf("the engine has records %d to %d", check.First(), check.Last().Seq)
			}
		})
	}
}

// kept is what an honest engine still has of what a liar was sent: what follows from its
// beginning.
func kept(t *testing.T, stored [][]byte) [][]byte {
	t.Helper()
	next := uint64(1)
	for i, data := range stored {
		first := uint64(0)
		must(t, stream.Unpack(data, func(e record.Entry) error {
			if first == 0 {
				first, _, _ = record.Peek(e.Line)
			}
			return nil
		}))
		if first != next {
			return stored[:i]
		}
		last, err := stream.Last(data)
		must(t, err)
		next = last.Seq + 1
	}
	return stored
}

// upload sends for a while, or until all was sent.
func (l *liar) upload(t *testing.T, link *courier.Link, d *daemon, all bool) {
	t.Helper()
	u := &courier.Uploader{Conn: link.Conn, Device: link.Device, Log: logID, Read: d.read}
	limit := 2 * time.Second
	if all {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- u.Run(ctx) }()
	for all && u.Sent() < uint64(d.records) && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if all {
		cancel()
	}
	must(t, <-ended)
}

// TestLyingDecisions has an engine replay a decision, for its question, for another one, and for one
// that no longer waits, and publish what is none. The daemon gets only what is on a question that
// waits, and that once; whether it is signed, the daemon looks at itself.
func TestLyingDecisions(t *testing.T) {
	o, asks, answers, recipient := newPair(t)
	q := newQuestion(asks, "A-1-00000000", recipient)
	asks.questions <- q
	decision := next(t, asks.decisions)
	checkDecision(t, answers, q, decision)
	answers.stop()
	engine := o.asEngine(t)
	replayed, err := proto.Marshal(decision)
	must(t, err)
	publish := func(of, question string, data []byte) {
		must(t, engine.PublishMsg(&nats.Msg{
			Subject: "tg.live." + strings.TrimPrefix(streams.Decide(asks.device, question, streams.Approver(recipient)), "tg."), Data: data,
			Header: nats.Header{"Nats-Stream": {streams.DecideStream}, "Nats-Subject": {streams.Decide(of, question, streams.Approver(recipient))}, "Nats-Sequence": {"9"}},
		}))
	}
	publish(asks.device, q.GetId(), replayed) // while the question waits
	must(t, engine.Flush())
	asks.questions <- &pb.FleetQuestion{Id: q.GetId(), Ended: true, End: "approved"}
	waits := newQuestion(asks, "A-2-00000000", recipient)
	asks.questions <- waits
	for {
		if _, err := streams.Last(t.Context(), o.admin, streams.AskStream, streams.Ask("dev", asks.device, waits.GetId())); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	forged, err := proto.Marshal(&pb.FleetDecision{Id: waits.GetId(), Statement: []byte("{}")})
	must(t, err)
	aimed, err := proto.Marshal(&pb.FleetDecision{Id: waits.GetId(), Statement: []byte("of another")})
	must(t, err)
	for _, lie := range []struct {
		question, of string
		data         []byte
	}{
		{q.GetId(), asks.device, replayed}, {waits.GetId(), asks.device, replayed}, {waits.GetId(), asks.device, []byte("none")},
		{waits.GetId(), answers.device, aimed}, {waits.GetId(), asks.device, append(forged, make([]byte, 100<<10)...)},
	} {
		publish(lie.of, lie.question, lie.data)
	}
	publish(asks.device, waits.GetId(), forged)
	if d := next(t, asks.decisions); d.GetId() != waits.GetId() || string(d.GetStatement()) != "{}" {
		t.Errorf("the daemon got a decision of question %s: %q", d.GetId(), d.GetStatement())
	}
}

// TestTwoCouriers has two couriers of one device send the same log at once, as when one that
// was thought dead lives on.
func TestTwoCouriers(t *testing.T) {
	o := newOrganization(t)
	id := o.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"})
	mine := newLog(t, 20*stream.MaxRecords)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var running sync.WaitGroup
	for range 2 {
		link := o.link(t, id)
		u := &courier.Uploader{Conn: link.Conn, Device: link.Device, Log: logID, Read: mine.read}
		running.Go(func() {
			if err := u.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	x := &chaos{organization: o, all: []*daemon{mine}}
	must(t, id.Write(mine.identity()))
	x.waitForAll(t)
	cancel()
	running.Wait()
	x.verify(t)
}

// TestLyingQuestions has an engine show an approver a question as that of another device, and
// under another name. The approver is not asked.
func TestLyingQuestions(t *testing.T) {
	o, asks, answers, recipient := newPair(t)
	asked := make(chan *pb.ForeignQuestion, 10)
	answers.foreign = func(ctx context.Context, f *pb.ForeignQuestion) (*pb.ForeignAnswer, error) {
		asked <- f
		return approves(ctx, f)
	}
	q := newQuestion(asks, "A-1-00000000", recipient)
	asks.questions <- q
	checkDecision(t, answers, q, next(t, asks.decisions))
	next(t, asked)
	stored, err := streams.Last(t.Context(), o.admin, streams.AskStream, streams.Ask("dev", asks.device, q.GetId()))
	must(t, err)
	engine := o.asEngine(t)
	for _, subject := range []string{
		streams.Ask("dev", asks.device, "A-2-00000000"), streams.Ask("dev", answers.device, q.GetId()), streams.Ask("dev", asks.device, q.GetId()), // a replay
	} {
		must(t, engine.PublishMsg(&nats.Msg{
			Subject: "tg.live." + strings.TrimPrefix(subject, "tg."), Data: stored.Data,
			Header: nats.Header{"Nats-Stream": {streams.AskStream}, "Nats-Subject": {subject}, "Nats-Sequence": {"9"}},
		}))
	}
	last := newQuestion(asks, "A-3-00000000", recipient)
	asks.questions <- last
	if f := next(t, asked); !bytes.Equal(f.GetStatement(), last.GetStatement()) {
		t.Errorf("the approver is asked %s", f.GetStatement())
	}
}
