package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
)

// quiet is how long the engine may take for the next message.
const quiet = 10 * time.Second

// Use is what the record has of the engine's disk.
type Use struct {
	Messages   map[string]uint64 // by device; each has 1 MiB at most
	Bytes, Max uint64
}

// Recorded returns what the record has of the engine's disk, and how many messages of each
// device.
func Recorded(ctx context.Context, nc *nats.Conn) (Use, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return Use{}, err
	}
	stream, err := js.Stream(ctx, streams.AuditStream)
	if err != nil {
		return Use{}, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(streams.Audit("*", "*")))
	if err != nil {
		return Use{}, err
	}
	u := Use{Messages: map[string]uint64{}, Bytes: info.State.Bytes, Max: uint64(max(info.Config.MaxBytes, 0))}
	for subject, n := range info.State.Subjects {
		if words := strings.Split(subject, "."); len(words) == 4 { // tg.audit.DEVICE.LOG
			u.Messages[words[2]] += n
		}
	}
	return u, nil
}

// Devices returns what each device may do, revoked ones included.
func Devices(ctx context.Context, nc *nats.Conn) ([]Grant, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	consumer, err := js.OrderedConsumer(ctx, streams.EnrolStream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{streams.Device("*")}})
	if err != nil {
		return nil, err
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return nil, err
	}
	left := info.NumPending
	if left == 0 {
		return nil, nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	var all []Grant
	for ; left > 0; left-- {
		ctx, cancel := context.WithTimeout(ctx, quiet)
		msg, err := messages.Next(jetstream.NextContext(ctx))
		cancel()
		if err != nil {
			return nil, err
		}
		var g Grant
		if err := json.Unmarshal(msg.Data(), &g); err != nil {
			return nil, fmt.Errorf("read %s: %w", msg.Subject(), err)
		}
		all = append(all, g)
	}
	return all, nil
}
