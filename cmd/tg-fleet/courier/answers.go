package courier

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/secret"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// maxAnswers is how many questions of other devices wait for this user at once. A further
// one is not shown until the courier asks the engine for what waits, again.
const maxAnswers = 100

// An ApproverKey is what a user needs who answers questions of other devices.
type ApproverKey struct {
	Age      string `json:"age"`                 // the age identity, which opens questions
	SignWith string `json:"sign_with,omitempty"` // the file of the SSH key, private, or public if an agent has the private half
}

// ReadApproverKey reads the file that Write has written.
func ReadApproverKey(path string) (*ApproverKey, error) {
	text, err := secret.ReadFile(path)
	if err != nil {
		return nil, err
	}
	k := &ApproverKey{}
	if err := json.Unmarshal([]byte(text), k); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	_, err = k.identity()
	return k, err
}

// NewApproverKey makes a key.
func NewApproverKey() (*ApproverKey, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, err
	}
	return &ApproverKey{Age: id.String()}, nil
}

// Write writes the key into a file that only this user can read.
func (k *ApproverKey) Write(path string) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return secret.WriteFile(path, append(text, '\n'))
}

// Recipient returns what the policy names for this user.
func (k *ApproverKey) Recipient() (string, error) {
	id, err := k.identity()
	if err != nil {
		return "", err
	}
	return id.Recipient().String(), nil
}

func (k *ApproverKey) identity() (*age.X25519Identity, error) {
	id, err := age.ParseX25519Identity(k.Age)
	if err != nil {
		return nil, errors.New("the age identity of the approver is malformed") // the cause has a part of it
	}
	return id, nil
}

// publicKey returns the public half of the key that signs, as authorized_keys has it.
func (k *ApproverKey) publicKey() (string, error) {
	path := k.SignWith
	if path == "" {
		return "", errors.New("no key signs answers; name one with \"tg-fleet key --sign-with FILE\"")
	}
	if !strings.HasSuffix(path, ".pub") {
		path += ".pub"
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the public half of the key that signs answers: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// answers are the questions of other devices that this user is asked. They outlive the
// connection on which they came.
type answers struct {
	running sync.WaitGroup

	mu   sync.Mutex
	open map[string]asking // by subject
}

type asking struct {
	statement [sha256.Size]byte
	withdraw  context.CancelFunc
}

func (a *answers) wait() { a.running.Wait() }

// begin reports whether the question on a subject is a new one, and then returns a context
// that lasts until it is withdrawn.
func (a *answers) begin(ctx context.Context, subject string, q *pb.FleetQuestion) (context.Context, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sum := sha256.Sum256(q.GetStatement())
	was, there := a.open[subject]
	if there && was.statement == sum || !there && len(a.open) >= maxAnswers {
		return nil, false
	}
	if there {
		was.withdraw()
	}
	if a.open == nil {
		a.open = map[string]asking{}
	}
	ctx, cancel := context.WithDeadline(ctx, q.GetExpires().AsTime())
	a.open[subject] = asking{sum, cancel}
	return ctx, true
}

// end forgets the question that is open on a subject, and withdraws it.
func (a *answers) end(subject string, only *pb.FleetQuestion) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was, there := a.open[subject]
	if !there || only != nil && was.statement != sha256.Sum256(only.GetStatement()) {
		return
	}
	was.withdraw()
	delete(a.open, subject)
}

// answer puts the questions of other devices before the user, and sends the answers.
func (c *Courier) answer(whole, ctx context.Context) error {
	claims, err := c.id.claims()
	if err != nil {
		return err
	}
	asked := make(chan *nats.Msg, 256)
	for _, group := range tags(claims, engine.AsksTag) {
		sub, err := c.link.ChanSubscribe(streams.LiveAsks(group), asked)
		if err != nil {
			return err
		}
		defer sub.Unsubscribe()
		past, err := streams.All(ctx, c.link.Conn, streams.AskStream, streams.Asks(group))
		if err != nil {
			return err
		}
		c.failed("answer colleagues", nil)
		for _, stored := range past {
			c.question(whole, stored)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case msg := <-asked:
			if stored, ok := streams.Live(msg, streams.AskStream); ok {
				c.question(whole, stored)
			}
		}
	}
}

// question puts one question before the user, or withdraws it.
func (c *Courier) question(whole context.Context, stored streams.Stored) {
	words := strings.Split(stored.Subject, ".") // tg.ask.GROUP.DEVICE.QUESTION
	if len(words) != 5 {
		return
	}
	if len(stored.Data) == 0 {
		c.answers.end(stored.Subject, nil)
		return
	}
	key, err := c.Key.identity()
	if err != nil {
		c.failed("answer colleagues", err)
		return
	}
	q, err := open(stored.Data, key)
	var others *age.NoIdentityMatchError
	if errors.As(err, &others) {
		return // it is for other approvers of the group
	}
	if err != nil {
		c.failed("answer colleagues", fmt.Errorf("open the question on %.200q: %w", stored.Subject, err))
		return
	}
	statement, err := fleet.ParseQuestion(q.GetStatement())
	if err != nil || statement.Device != words[3] || statement.Question != words[4] {
		c.failed("answer colleagues", fmt.Errorf("the question on %.200q is another one than its subject says", stored.Subject))
		return
	}
	ctx, fresh := c.answers.begin(whole, stored.Subject, q)
	if !fresh {
		return
	}
	c.answers.running.Go(func() {
		defer c.answers.end(stored.Subject, q)
		err := c.answerOne(ctx, words[3], words[4], q)
		if err != nil {
			err = fmt.Errorf("question %s: %w", words[4], err)
		}
		if ctx.Err() == nil {
			c.failed("answer colleagues", err)
		}
	})
}

// answerOne asks the user, and publishes the answer.
func (c *Courier) answerOne(ctx context.Context, device, question string, q *pb.FleetQuestion) error {
	recipient, err := c.Key.Recipient()
	if err != nil {
		return err
	}
	subject := streams.Decide(device, question, streams.Approver(recipient))
	if _, err := streams.Last(ctx, c.link.Conn, streams.DecideStream, subject); !errors.Is(err, streams.ErrNone) {
		return err // the user has decided already, perhaps on another machine
	}
	public, err := c.Key.publicKey()
	if err != nil {
		return err
	}
	answer, err := c.Daemon.Ask(ctx, &pb.ForeignQuestion{Device: device, Statement: q.GetStatement(), Shown: q.GetShown(), Expires: q.GetExpires(), Key: public})
	if err != nil {
		return err
	}
	signature, err := c.Key.sign(ctx, answer.GetStatement())
	if err != nil {
		return err
	}
	data, err := proto.Marshal(&pb.FleetDecision{Id: question, Statement: answer.GetStatement(), Signature: signature})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		_, err = streams.Put(ctx, c.link.Conn, &nats.Msg{Subject: subject, Data: data}, nil)
		if err == nil || errors.Is(err, streams.ErrTaken) || errors.Is(err, streams.ErrRefused) {
			break
		}
		pause(ctx, time.Second) // its outcome is unknown; a second one is not stored
	}
	if errors.Is(err, streams.ErrTaken) {
		return nil // this user has decided, here or on another machine
	}
	return err
}
