package streams

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// DialTimeout is how long a connection may take. It is long: a server to which a whole
	// fleet comes back is slow, and a handshake that is given up has to be made again.
	DialTimeout = 30 * time.Second
	// Patience is how long one request may take with all its tries. A path on which a message
	// takes longer is of no use.
	Patience = 20 * time.Second
	// OneTry is how long one try of a request may take that can be made again: a machine of the
	// engine that has just ended may have taken it.
	OneTry = 5 * time.Second

	betweenTries = time.Second      // about
	quiet        = 10 * time.Second // how long the engine may take for the next of many messages
)

// ErrLater is the error of a request that nobody can answer now.
var ErrLater = errors.New("nobody can answer now")

// Retry makes a request until the engine has answered it, for patience at most, and returns the
// error of the last try. An engine that starts, and one of several machines that has lost the
// leader of a stream, does not answer. One try has the time of try at most, and one that ran out
// of it is made again: for a request that may not come twice, try is as long as patience.
func Retry(ctx context.Context, patience, try time.Duration, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		one, cancel := context.WithTimeout(ctx, try)
		err := request(one)
		cancel()
		if !unanswered(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(betweenTries/2 + rand.N(betweenTries)):
		}
	}
}

// unanswered reports whether err says that nobody has answered a request, and nothing else.
func unanswered(err error) bool {
	for _, of := range []error{nats.ErrNoResponders, jetstream.ErrJetStreamNotEnabled, context.DeadlineExceeded, ErrLater} {
		if errors.Is(err, of) {
			return true
		}
	}
	var refused *jetstream.APIError
	return errors.As(err, &refused) && (refused.Code == 503 || refused.ErrorCode == CodeNoPeers)
}

// CodeNoPeers is the engine's error code for too few machines, or too few with room, for a stream's copies.
const CodeNoPeers = 10005

// Read calls take with each message that a stream holds now and that config selects, in order.
func Read(ctx context.Context, nc *nats.Conn, stream string, config jetstream.OrderedConsumerConfig, take func(jetstream.Msg) error) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	var consumer jetstream.Consumer
	var left uint64
	err = Retry(ctx, Patience, OneTry, func(ctx context.Context) error {
		var err error
		if consumer, err = js.OrderedConsumer(ctx, stream, config); err != nil {
			return err
		}
		info, err := consumer.Info(ctx)
		if err != nil {
			return err
		}
		left = info.NumPending
		return nil
	})
	if err != nil || left == 0 {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for ; left > 0; left-- {
		next, cancel := context.WithTimeout(ctx, quiet)
		msg, err := messages.Next(jetstream.NextContext(next))
		cancel()
		if err != nil {
			return err
		}
		if err := take(msg); err != nil {
			return err
		}
	}
	return nil
}
