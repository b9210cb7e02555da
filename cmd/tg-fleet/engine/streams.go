package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
)

const day = 24 * time.Hour

// configs returns the configuration of all streams.
func configs(replicas int) []jetstream.StreamConfig {
	all := []jetstream.StreamConfig{
		{
			Name: streams.AskStream, Subjects: []string{streams.Ask("*", "*", "*")},
			MaxMsgsPerSubject: 1, MaxAge: 7 * day, AllowMsgTTL: true,
			RePublish: &jetstream.RePublish{Source: "tg.ask.*.*.*", Destination: "tg.live.ask.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"},
		},
		{
			Name: streams.DecideStream, Subjects: []string{streams.Decide("*", "*", "*")},
			MaxMsgsPerSubject: 1, MaxAge: 30 * day, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
			RePublish: &jetstream.RePublish{Source: "tg.decide.*.*.*", Destination: "tg.live.decide.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"},
		},
		{
			Name: streams.PolicyStream, Subjects: []string{streams.Policy("*")},
			MaxMsgsPerSubject: 20,
			RePublish:         &jetstream.RePublish{Source: "tg.policy.*", Destination: "tg.live.policy.{{wildcard(1)}}"},
		},
		{Name: streams.BundleStream, Subjects: []string{streams.Bundle("*"), streams.TUF("*", "*")}, MaxMsgsPerSubject: 1},
		{Name: streams.SeenStream, Subjects: []string{streams.Seen("*")}, MaxMsgsPerSubject: 1, MaxAge: 90 * day},
		{Name: streams.EnrolStream, Subjects: []string{streams.Token("*"), streams.Device("*")}, MaxMsgsPerSubject: 1},
		{ // last, when the machines of the engine know each other: see createAudit
			Name: streams.AuditStream, Subjects: []string{streams.Audit("*", "*")},
			DenyDelete: true, DenyPurge: true, Discard: jetstream.DiscardNew,
		},
	}
	for i := range all {
		all[i].Storage, all[i].Replicas, all[i].AllowDirect = jetstream.FileStorage, replicas, true
		all[i].MaxMsgSize = maxMessage
		// A courier says again what these two hold once it has connected again. So they need
		// not wait for the disk. Streams with copies do not.
		if name := all[i].Name; replicas == 1 && (name == streams.AskStream || name == streams.SeenStream) {
			all[i].PersistMode = jetstream.AsyncPersistMode
		}
	}
	return all
}

// startTimeout is how long machines that have just started may take to find each other. Until
// then they refuse to make streams, or give no answer.
const startTimeout = time.Minute

// Apply makes the streams on the engine, and changes those whose configuration is another
// one. The stream of the record is made and never changed.
func Apply(ctx context.Context, nc *nats.Conn, replicas int) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for _, config := range configs(replicas) {
		err := streams.Retry(ctx, startTimeout, streams.OneTry, func(ctx context.Context) error {
			if config.Name == streams.AuditStream {
				return applyAudit(ctx, js, config)
			}
			return applyStream(ctx, js, config)
		})
		if err != nil {
			return fmt.Errorf("make the stream %s with %d copies: %w", config.Name, replicas, err)
		}
	}
	return nil
}

// applyStream makes a stream, or changes all of its configuration but when it writes, which
// can't be changed.
func applyStream(ctx context.Context, js jetstream.JetStream, config jetstream.StreamConfig) error {
	stream, err := js.Stream(ctx, config.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = js.CreateStream(ctx, config)
		return err
	}
	if err != nil {
		return err
	}
	config.PersistMode = stream.CachedInfo().Config.PersistMode
	if config.Replicas > 1 && config.PersistMode == jetstream.AsyncPersistMode {
		return errors.New("it was made for one machine; remove it with the account's own key, and run this again: couriers say again what it holds")
	}
	_, err = js.UpdateStream(ctx, config)
	return err
}

const codeNoRoom = 10047

// most and least are between what the record gets of an engine's disk, in bytes.
const most, least = 1 << 40, 1 << 28

// createAudit makes the stream of the record, with the largest power of two that the engine
// has room for. It refuses what comes when that is full, and the machines keep it: one of
// them that sends without end must not take the room of policies, answers and revocations.
func createAudit(ctx context.Context, js jetstream.JetStream, config jetstream.StreamConfig) error {
	for config.MaxBytes = most; ; config.MaxBytes /= 2 {
		_, err := js.CreateStream(ctx, config)
		var refused *jetstream.APIError
		tooLarge := errors.As(err, &refused) && (refused.ErrorCode == codeNoRoom || refused.ErrorCode == streams.CodeNoPeers)
		if !tooLarge || config.MaxBytes == least {
			return err
		}
	}
}

func applyAudit(ctx context.Context, js jetstream.JetStream, config jetstream.StreamConfig) error {
	stream, err := js.Stream(ctx, config.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return createAudit(ctx, js, config)
	}
	if err != nil {
		return err
	}
	switch got := stream.CachedInfo().Config; {
	case !got.DenyDelete, !got.DenyPurge, got.MaxAge != 0, got.MaxMsgs > 0, got.MaxBytes > 0 && got.Discard != jetstream.DiscardNew, got.MaxMsgsPerSubject > 0, got.AllowMsgTTL, got.AllowRollup:
		return errors.New("it is there with limits, and would lose records; rename it on the engine, and run this again")
	case got.Replicas < config.Replicas:
		return fmt.Errorf("it is there with %d copies instead of %d; change that with the account's own key", got.Replicas, config.Replicas)
	}
	return nil
}
