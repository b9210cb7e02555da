package extension

import (
	"context"
	"encoding/json"
	"fmt"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// Model is one model of a [Provider].
type Model = pb.ModelSpec

// ProviderRequest is a request to a model. Each message is a string of JSON.
type ProviderRequest = pb.ProviderRequest

// ProviderAnswer is the answer of a model: blocks of content, each a string of JSON. A block of type
// tool_use calls a tool; the gate judges the call and asks again with its result.
type ProviderAnswer = pb.ProviderAnswer

// Provider offers models, for example to answer a server's sampling request.
type Provider struct {
	ID           string // lower case letters, digits, - and _
	DisplayName  string // not empty; neither is Description
	Description  string
	Models       []*Model        // at least one
	ConfigSchema json.RawMessage // a JSON object; nil for none

	// Complete returns a whole answer. The timeout is 60 s.
	Complete func(ctx context.Context, asked *ProviderRequest) (*ProviderAnswer, error)

	// Stream answers in pieces. It calls emit with each piece as JSON, for example
	// {"type":"text","delta":"Hello"}. The returned answer may omit what was emitted. The
	// timeout is 60 s.
	Stream func(ctx context.Context, asked *ProviderRequest, emit func(event json.RawMessage) error) (*ProviderAnswer, error)
}

func (s *server) provider(id string) (*Provider, error) {
	for i := range s.handler.Providers {
		if p := &s.handler.Providers[i]; p.ID == id {
			return p, nil
		}
	}
	return nil, fmt.Errorf("provider %q: %w", id, errNotOffered)
}

func (s *server) complete(ctx context.Context, asked *ProviderRequest) (*ProviderAnswer, error) {
	p, err := s.provider(asked.ProviderId)
	if err != nil {
		return nil, err
	}
	if p.Complete == nil {
		return nil, fmt.Errorf("provider %q: answer as a whole: %w", p.ID, errNotOffered)
	}
	return orEmpty(p.Complete(ctx, asked))
}

func (s *server) stream(ctx context.Context, asked *ProviderRequest) (*ProviderAnswer, error) {
	p, err := s.provider(asked.ProviderId)
	if err != nil {
		return nil, err
	}
	if p.Stream == nil {
		return nil, fmt.Errorf("provider %q: answer in parts: %w", p.ID, errNotOffered)
	}
	return orEmpty(p.Stream(ctx, asked, func(event json.RawMessage) error {
		return s.send(&pb.Frame{Body: &pb.Frame_ProviderEvent{ProviderEvent: &pb.ProviderEvent{RequestId: asked.RequestId, Event: event}}})
	}))
}

// orEmpty returns an empty answer for nil.
func orEmpty(said *ProviderAnswer, err error) (*ProviderAnswer, error) {
	if said == nil {
		said = &ProviderAnswer{}
	}
	return said, err
}
