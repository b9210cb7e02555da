package extension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// Record is something that an extension remembered.
type Record = pb.MemoryRecord

// Query chooses records. The zero value of each field chooses all.
type Query struct {
	Contains  string // in the content
	TagPrefix string // of one of the tags
	Since     time.Time
	Until     time.Time
	Limit     uint32 // how many records at most
}

// Host is the gate, as an extension can ask it. What it asks needs a permission
// of the manifest; without, the error is an *[Error]. It is safe for concurrent
// use.
type Host struct {
	server *server

	mu     sync.Mutex // guards what follows
	hello  *pb.Hello
	config map[string]string
}

func (h *Host) greeted(hello *pb.Hello) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hello, h.config = hello, maps.Clone(hello.Config)
	if h.config == nil {
		h.config = map[string]string{}
	}
}

func (h *Host) changed(key string, value *string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.config == nil:
	case value == nil:
		delete(h.config, key)
	default:
		h.config[key] = *value
	}
}

// Name is the name of the extension, as the manifest has it.
func (h *Host) Name() string { return h.said().GetName() }

// Root is the folder that the extension lies in.
func (h *Host) Root() string { return h.said().GetRoot() }

func (h *Host) said() *pb.Hello {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hello
}

// Config is the value of a key of the configuration when the extension started,
// or after that of the last change it was told of; empty when there is none.
func (h *Host) Config(key string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.config[key]
}

// Remember keeps content with tags for later starts of the extension; meta is
// JSON, nil for none. It returns when the record is of. It needs memory.write.
func (h *Host) Remember(ctx context.Context, content string, tags []string, meta json.RawMessage) (time.Time, error) {
	answer, err := h.server.ask(ctx, 60, &pb.Frame{Body: &pb.Frame_MemoryAppend{MemoryAppend: &pb.MemoryAppendRequest{
		Namespace: h.Name(), Content: content, Tags: tags, Meta: meta,
	}}})
	if err != nil {
		return time.Time{}, fmt.Errorf("remember: %w", err)
	}
	return time.UnixMilli(answer.GetMemoryAppendAnswer().GetTimestampMs()), nil
}

// Recall returns the records that q chooses. It needs memory.read.
func (h *Host) Recall(ctx context.Context, q Query) ([]*Record, error) {
	asked := &pb.MemoryQueryRequest{
		Namespace: h.Name(), ContentContains: given(q.Contains), TagPrefix: given(q.TagPrefix),
		SinceMs: givenTime(q.Since), UntilMs: givenTime(q.Until), Limit: given(q.Limit),
	}
	answer, err := h.server.ask(ctx, 61, &pb.Frame{Body: &pb.Frame_MemoryQuery{MemoryQuery: asked}})
	if err != nil {
		return nil, fmt.Errorf("recall: %w", err)
	}
	return answer.GetMemoryQueryAnswer().GetRecords(), nil
}

// given is nil for a zero value.
func given[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

func givenTime(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

// ConfigNow asks for the value of a key of the configuration; false means that
// there is none.
func (h *Host) ConfigNow(ctx context.Context, key string) (string, bool, error) {
	answer, err := h.server.ask(ctx, 62, &pb.Frame{Body: &pb.Frame_ConfigGet{ConfigGet: &pb.ConfigGetRequest{Key: key}}})
	if err != nil {
		return "", false, fmt.Errorf("config %s: %w", key, err)
	}
	value := answer.GetConfigGetAnswer()
	return value.GetValue(), value != nil && value.Value != nil, nil
}

// SetConfig sets the value of a key of the configuration. It needs config.write.
func (h *Host) SetConfig(ctx context.Context, key, value string) error {
	answer, err := h.server.ask(ctx, 63, &pb.Frame{Body: &pb.Frame_ConfigSet{ConfigSet: &pb.ConfigSetRequest{Key: key, Value: value}}})
	if err == nil && !answer.GetConfigSetAnswer().GetOk() {
		err = errors.New("the gate did not take it")
	}
	if err != nil {
		return fmt.Errorf("set config %s: %w", key, err)
	}
	return nil
}

// Subscribe asks to be told of changes of the configuration, which
// Handler.ConfigChanged then is. It needs config.subscribe.
func (h *Host) Subscribe(ctx context.Context) error {
	if _, err := h.server.ask(ctx, 64, &pb.Frame{Body: &pb.Frame_ConfigSubscribe{ConfigSubscribe: &pb.ConfigSubscribeRequest{}}}); err != nil {
		return fmt.Errorf("subscribe to the configuration: %w", err)
	}
	return nil
}
