// Package sampling lets the models of extensions answer what MCP servers ask of an agent's
// model.
//
// A server's sampling/createMessage becomes a request to a provider, and the provider's answer
// becomes the result. Two kinds of tools meet in it. The server runs the tools that it sends
// along: an answer that uses them is returned to it. The tools of extensions, as far as the
// configuration names them, are called here; each call is judged like any other, and the model
// is asked again with the results.
//
// An Answerer is the gate's Sampler. The gate has decided before whether it is asked at all and
// whether the server's request is forwarded.
package sampling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/provider"
)

// Extensions gives access to the installed extensions. Its methods are safe for concurrent use.
type Extensions interface {
	// Models returns the ids of a provider's models, the preferred one first. An error says why
	// there are none.
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

// Answerer implements gate.Sampler. Its fields must not change after the first call.
type Answerer struct {
	Config     func() *config.Sampling // returns the configuration in force
	Extensions Extensions
	Gate       *gate.Gate // judges the calls of tools
	Logger     *slog.Logger
}

var _ gate.Sampler = (*Answerer)(nil)

// longest is the timeout of one answer, including the tools that it calls and the approvals
// that they need.
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
		return nil, errors.New("no provider is configured")
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
	loop := provider.Loop{Provider: asker{a.Extensions, extension}, Tools: box, RequesterTools: r.theirs, Iterations: cfg.MaxIterations}
	said, err := loop.Complete(ctx, r.Params)
	if err != nil {
		return nil, opaque(err)
	}
	answer, err := r.result(said)
	return answer, opaque(err)
}

// opaque hides the kind of an error, so that it is not taken for an error of the server.
func opaque(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

// asker sends requests to the providers of one extension.
type asker struct {
	extensions Extensions
	name       string
}

func (p asker) Complete(ctx context.Context, q provider.Params) (provider.Result, error) {
	return p.extensions.Complete(ctx, p.name, q)
}
