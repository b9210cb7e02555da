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

// Record is a record of an extension's memory.
type Record = pb.MemoryRecord

// Query selects records. The zero value of a field selects all.
type Query struct {
	Contains  string // in the content
	TagPrefix string // of one of the tags
	Since     time.Time
	Until     time.Time
	Limit     uint32 // maximum number of records
}

// Host is an extension's access to the gate. Requests that need a permission which the manifest
// does not have fail with an *[Error]. It is safe for concurrent use.
type Host struct {
	server *server

	mu     sync.Mutex // guards the fields below
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

// Name returns the name of the extension, from its manifest.
func (h *Host) Name() string { return h.said().GetName() }

// Root returns the folder of the extension.
func (h *Host) Root() string { return h.said().GetRoot() }

func (h *Host) said() *pb.Hello {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hello
}

// Config returns the value of a configuration key as of the start of the extension or the last
// notified change; empty if there is none.
func (h *Host) Config(key string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.config[key]
}

// Remember stores content with tags, for later runs of the extension too; meta is JSON, nil for
// none. It returns the time of the record. It needs memory.write.
func (h *Host) Remember(ctx context.Context, content string, tags []string, meta json.RawMessage) (time.Time, error) {
	answer, err := h.server.ask(ctx, 60, &pb.Frame{Body: &pb.Frame_MemoryAppend{MemoryAppend: &pb.MemoryAppendRequest{
		Namespace: h.Name(), Content: content, Tags: tags, Meta: meta,
	}}})
	if err != nil {
		return time.Time{}, fmt.Errorf("remember: %w", err)
	}
	return time.UnixMilli(answer.GetMemoryAppendAnswer().GetTimestampMs()), nil
}

// Recall returns the records that q selects. It needs memory.read.
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

// given returns nil for a zero value and a pointer to any other.
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

// ConfigNow asks the gate for the value of a configuration key; false means that there is none.
func (h *Host) ConfigNow(ctx context.Context, key string) (string, bool, error) {
	answer, err := h.server.ask(ctx, 62, &pb.Frame{Body: &pb.Frame_ConfigGet{ConfigGet: &pb.ConfigGetRequest{Key: key}}})
	if err != nil {
		return "", false, fmt.Errorf("config %s: %w", key, err)
	}
	value := answer.GetConfigGetAnswer()
	return value.GetValue(), value != nil && value.Value != nil, nil
}

// SetConfig sets the value of a configuration key. It needs config.write.
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

// Subscribe subscribes to changes of the configuration, for which Handler.ConfigChanged is
// called. It needs config.subscribe.
func (h *Host) Subscribe(ctx context.Context) error {
	if _, err := h.server.ask(ctx, 64, &pb.Frame{Body: &pb.Frame_ConfigSubscribe{ConfigSubscribe: &pb.ConfigSubscribeRequest{}}}); err != nil {
		return fmt.Errorf("subscribe to the configuration: %w", err)
	}
	return nil
}
