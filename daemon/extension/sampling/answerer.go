// Package sampling has the models of extensions answer what MCP servers ask of an
// agent's model.
//
// A server's sampling/createMessage becomes a question to a provider, and its
// answer what MCP wants of an agent. Two kinds of tools meet in it. Those that the
// server sends along are the server's to run: an answer that uses them goes back
// to it, and ends there. Those that extensions offer, as far as the configuration
// names them, are called here, each judged as any call is, and the model is asked
// again with what they said.
//
// An Answerer is the gate's Sampler: whether it is asked at all, and whether what
// the server wants may go on, has been decided before.
package sampling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/extension/provider"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Extensions is what the installed extensions can do. Its methods are safe for
// concurrent use.
type Extensions interface {
	// Models returns the ids of the models of a provider, its own choice first;
	// an error says why there are none.
	Models(extension, provider string) ([]string, error)
	// Complete asks a model. It returns when ctx ends.
	Complete(ctx context.Context, extension string, p provider.Params) (provider.Result, error)
	// Offers returns the extensions that have tools.
	Offers() []Offer
}

// Offer is an extension that has tools.
type Offer struct {
	Name string
	offer.Extension
}

// Answerer is the gate's Sampler. Its fields are set once, before the first call.
type Answerer struct {
	Config     func() *config.Sampling // what is in force
	Extensions Extensions
	Gate       *gate.Gate // that judges what tools are called
	Logger     *slog.Logger
}

var _ gate.Sampler = (*Answerer)(nil)

// longest is how long one answer may take, with all that tools and people do
// meanwhile.
const longest = 10 * time.Minute

// Who implements gate.Sampler.
func (a *Answerer) Who(_ *gate.Call, rule string, unable bool) string {
	cfg := a.Config()
	switch {
	case cfg.Provider == "", rule == gate.AnswerAgent:
		return ""
	case rule == gate.AnswerProvider, cfg.When == config.SamplingAlways, cfg.When == config.SamplingUnable && unable:
		return cfg.Provider
	}
	return ""
}

// Answer implements gate.Sampler.
func (a *Answerer) Answer(ctx context.Context, c *gate.Call) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("it took longer than %v", longest))
	defer cancel()
	cfg := a.Config()
	extension, name, model := cfg.Named()
	if extension == "" {
		return nil, errors.New("no provider is configured any more")
	}
	r, err := read(c.Envelope.Params.Of(c.Line))
	if err != nil {
		return nil, err
	}
	models, err := a.Extensions.Models(extension, name)
	if err != nil {
		return nil, opaque(err)
	}
	if model == "" {
		model = r.choose(models)
	}
	r.Provider, r.ModelID, r.Model = name, model, name+"/"+model
	r.MaxTokens = min(r.MaxTokens, cfg.MaxTokens)
	box, err := a.open(ctx, c, cfg.Tools, r)
	if err != nil {
		return nil, opaque(err)
	}
	defer box.close()
	loop := provider.Loop{Provider: asker{a.Extensions, extension}, Tools: box, Theirs: r.theirs, Iterations: cfg.MaxIterations}
	said, err := loop.Complete(ctx, r.Params)
	if err != nil {
		return nil, opaque(err)
	}
	answer, err := r.result(said)
	return answer, opaque(err)
}

// opaque keeps an error from being taken for what the server did wrong.
func opaque(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

// asker asks the providers of one extension.
type asker struct {
	extensions Extensions
	name       string
}

func (p asker) Complete(ctx context.Context, q provider.Params) (provider.Result, error) {
	return p.extensions.Complete(ctx, p.name, q)
}
