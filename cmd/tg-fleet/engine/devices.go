package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
)

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
	var info *jetstream.StreamInfo
	err = streams.Retry(ctx, streams.Patience, streams.OneTry, func(ctx context.Context) error {
		stream, err := js.Stream(ctx, streams.AuditStream)
		if err != nil {
			return err
		}
		info, err = stream.Info(ctx, jetstream.WithSubjectFilter(streams.Audit("*", "*")))
		return err
	})
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
	var all []Grant
	config := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{streams.Device("*")}}
	err := streams.Read(ctx, nc, streams.EnrolStream, config, func(msg jetstream.Msg) error {
		var g Grant
		if err := json.Unmarshal(msg.Data(), &g); err != nil {
			return fmt.Errorf("read %s: %w", msg.Subject(), err)
		}
		all = append(all, g)
		return nil
	})
	return all, err
}
