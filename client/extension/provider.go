package extension

import (
	"context"
	"encoding/json"
	"fmt"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// Model is one model of a [Provider].
type Model = pb.ModelSpec

// Asked is what a model is asked. Messages are JSON, one text each.
type Asked = pb.ProviderRequest

// Said is what a model answers: blocks of content as JSON, one text each. One whose
// type is tool_use asks for a tool; the gate judges the call, and asks again with
// what came of it.
type Said = pb.ProviderAnswer

// Provider answers for models, as where a server asks for a sample.
type Provider struct {
	ID           string // lower case letters, digits, - and _
	DisplayName  string // not empty, like Description
	Description  string
	Models       []*Model        // at least one
	ConfigSchema json.RawMessage // a JSON object; nil for none

	// Complete answers as a whole. The gate waits 60 s.
	Complete func(ctx context.Context, asked *Asked) (*Said, error)

	// Stream answers in parts, each of which it gives to emit as JSON, as
	// {"type":"text","delta":"Hello"}. What it returns may leave out what was
	// emitted. The gate waits 60 s.
	Stream func(ctx context.Context, asked *Asked, emit func(event json.RawMessage) error) (*Said, error)
}

func (s *server) provider(id string) (*Provider, error) {
	for i := range s.handler.Providers {
		if p := &s.handler.Providers[i]; p.ID == id {
			return p, nil
		}
	}
	return nil, fmt.Errorf("provider %q: %w", id, errNotOffered)
}

func (s *server) complete(ctx context.Context, asked *Asked) (*Said, error) {
	p, err := s.provider(asked.ProviderId)
	if err != nil {
		return nil, err
	}
	if p.Complete == nil {
		return nil, fmt.Errorf("provider %q: answer as a whole: %w", p.ID, errNotOffered)
	}
	return orEmpty(p.Complete(ctx, asked))
}

func (s *server) stream(ctx context.Context, asked *Asked) (*Said, error) {
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

// orEmpty makes an empty answer of none.
func orEmpty(said *Said, err error) (*Said, error) {
	if said == nil {
		said = &Said{}
	}
	return said, err
}
