package courier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const (
	// maxQuestion is the maximum size of a question, in bytes, as it is before it is sealed.
	maxQuestion = 900 << 10
	// maxDecision is the maximum size of a decision, in bytes.
	maxDecision = 64 << 10
	// maxRecipients is how many approvers a question is sealed to.
	maxRecipients = 64
	// withdrawn is how long the engine keeps that a question no longer waits, in seconds.
	withdrawn = "60"
)

// sentQuestions are the questions that were sent, by id, and the subjects on which decisions came that the
// daemon has taken. An approver speaks once on a question, and is heard twice if the live message
// comes before the stored one is looked for.
type sentQuestions map[string]map[string]bool

// ask sends every question that colleagues may answer, and hands their decisions to the
// daemon.
func (c *Courier) ask(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	decisions := make(chan *nats.Msg, 64)
	sub, err := c.link.ChanSubscribe(streams.LiveDecisions(c.link.Device), decisions)
	if err != nil {
		cancel()
		return err
	}
	questions, failed := make(chan *pb.FleetQuestion), make(chan error, 1)
	defer func() {
		_ = sub.Unsubscribe() // fails on a connection that is closed
		cancel()
		<-failed // what reads the questions has ended
	}()
	go func() {
		defer close(failed)
		failed <- c.readQuestions(ctx, questions)
	}()
	asked := sentQuestions{}
	for {
		select {
		case err := <-failed:
			return err
		case msg := <-decisions:
			if stored, ok := streams.Live(msg, streams.DecideStream); ok {
				c.decide(ctx, asked, stored)
			}
		case q := <-questions:
			if q.GetEnded() {
				err = c.withdraw(ctx, asked, q.GetId())
			} else {
				err = c.askOne(ctx, asked, q)
			}
			if err != nil {
				return err
			}
			c.failed("ask colleagues", nil)
		}
	}
}

func (c *Courier) readQuestions(ctx context.Context, questions chan<- *pb.FleetQuestion) error {
	watch, err := c.Daemon.WatchQuestions(ctx, &pb.WatchFleetQuestionsRequest{})
	for err == nil {
		var q *pb.FleetQuestion
		if q, err = watch.Recv(); err == nil {
			select {
			case questions <- q:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
	}
	return fmt.Errorf("ask the daemon for questions: %w", err)
}

// askOne sends a question, and looks for what was decided while this device was away.
func (c *Courier) askOne(ctx context.Context, asked sentQuestions, q *pb.FleetQuestion) error {
	left := time.Until(q.GetExpires().AsTime())
	if left <= 0 {
		return nil
	}
	sealed, err := seal(q)
	if err != nil {
		c.failed("ask colleagues", fmt.Errorf("question %s: %w", q.GetId(), err))
		return nil
	}
	msg := &nats.Msg{
		Subject: streams.Ask(c.id.Group, c.link.Device, q.GetId()), Data: sealed,
		Header: nats.Header{streams.TTL: {strconv.Itoa(int(left/time.Second) + 1)}},
	}
	if _, err := streams.Put(ctx, c.link.Conn, msg, nil); err != nil {
		return err
	}
	if asked[q.GetId()] == nil {
		asked[q.GetId()] = map[string]bool{}
	}
	for _, recipient := range q.GetRecipients() {
		stored, err := streams.Last(ctx, c.link.Conn, streams.DecideStream, streams.Decide(c.link.Device, q.GetId(), streams.Approver(recipient)))
		if err == nil {
			c.decide(ctx, asked, stored)
		} else if !errors.Is(err, streams.ErrNone) {
			return err
		}
	}
	return nil
}

// withdraw tells approvers that a question no longer waits.
func (c *Courier) withdraw(ctx context.Context, asked sentQuestions, id string) error {
	if asked[id] == nil {
		return nil
	}
	delete(asked, id)
	msg := &nats.Msg{Subject: streams.Ask(c.id.Group, c.link.Device, id), Header: nats.Header{streams.TTL: {withdrawn}}}
	_, err := streams.Put(ctx, c.link.Conn, msg, nil)
	return err
}

// decide hands a decision to the daemon, which believes its signature only.
func (c *Courier) decide(ctx context.Context, asked sentQuestions, stored streams.Stored) {
	d := &pb.FleetDecision{}
	if len(stored.Data) > maxDecision || proto.Unmarshal(stored.Data, d) != nil {
		c.failed("ask colleagues", fmt.Errorf("what was published on %.200q is no decision", stored.Subject))
		return
	}
	taken := asked[d.GetId()]
	if taken == nil || taken[stored.Subject] {
		return
	}
	decided, err := c.Daemon.Decide(ctx, d)
	if err != nil {
		c.failed("ask colleagues", fmt.Errorf("the daemon refuses a decision of question %s: %w", d.GetId(), err))
		return
	}
	taken[stored.Subject] = true
	c.Log.Info("decided", "question", d.GetId(), "end", decided.GetEnd())
}

// seal encrypts a question to those who may answer it: its statement and what they are
// shown, together.
func seal(q *pb.FleetQuestion) ([]byte, error) {
	if len(q.GetRecipients()) == 0 || len(q.GetRecipients()) > maxRecipients {
		return nil, fmt.Errorf("it is for %d approvers", len(q.GetRecipients()))
	}
	text, err := proto.Marshal(&pb.FleetQuestion{Id: q.GetId(), Statement: q.GetStatement(), Shown: q.GetShown(), Expires: q.GetExpires()})
	if err != nil {
		return nil, err
	}
	if len(text) > maxQuestion {
		return nil, fmt.Errorf("it has %d bytes, and may have %d", len(text), maxQuestion)
	}
	var recipients []age.Recipient
	for _, name := range q.GetRecipients() {
		r, err := age.ParseX25519Recipient(name)
		if err != nil {
			return nil, fmt.Errorf("an approver's recipient: %w", err)
		}
		recipients = append(recipients, r)
	}
	var sealed bytes.Buffer
	w, err := age.Encrypt(&sealed, recipients...)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return sealed.Bytes(), nil
}

// open is the inverse of seal, for one of the recipients.
func open(sealed []byte, key *age.X25519Identity) (*pb.FleetQuestion, error) {
	r, err := age.Decrypt(bytes.NewReader(sealed), key)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxQuestion+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxQuestion {
		return nil, errors.New("the question is too long")
	}
	q := &pb.FleetQuestion{}
	return q, proto.Unmarshal(text, q)
}
