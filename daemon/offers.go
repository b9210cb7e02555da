package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/relay"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/offer"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protocol"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/sampling"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
)

// openOffers builds what extensions offer besides hooks: tools for agents, and models that answer
// servers. The extensions and the gate must be open.
func (d *Daemon) openOffers() {
	d.offers = offer.NewRegistry(func(name string) (offer.Extension, bool) {
		_, err := d.extensions.Get(name)
		return tools{d.extensions, name}, err == nil
	})
	d.judge.Sampler = &sampling.Answerer{
		Config:     func() *config.Sampling { return &d.policies.current.Load().config.Sampling },
		Extensions: models{d.extensions}, Gate: d.judge, Logger: d.log,
	}
}

// samplingWarning reports that the configured sampling provider can't answer the sampling requests
// of servers.
func (d *Daemon) samplingWarning() []string {
	cfg := &d.policies.current.Load().config.Sampling
	extension, name, model := cfg.Named()
	if extension == "" {
		return nil
	}
	all, err := d.extensions.Models(extension, name)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("sampling.provider is %s, which is not available now (%v): servers that ask a model get an error", cfg.Provider, err)}
	case model != "" && !slices.Contains(all, model):
		return []string{fmt.Sprintf("sampling.provider is %s, but the provider has only the models %s", cfg.Provider, strings.Join(all, ", "))}
	}
	return nil
}

// joined is the fleet of extensions, each with the number of agents that use its tools.
type joined struct {
	supervise.Fleet
	offers *offer.Registry
}

// List implements supervise.Fleet.
func (j joined) List() []supervise.Info {
	all := j.Fleet.List()
	for i := range all {
		all[i].Clients = j.offers.Members(all[i].Name)
	}
	return all
}

var errUnread = errors.New("the agent reads too slowly")

// joinTools connects a shim to the tools of an extension.
func (d *Daemon) joinTools(name string, client relay.Client) (relay.Member, error) {
	m, err := d.offers.Join(name, func(line []byte) {
		if !client.Deliver(line) {
			client.Gone(errUnread)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", relay.ErrNotStarted, err)
	}
	return m, nil
}

// tools are the tools of one extension.
type tools struct {
	extensions *extension.Registry
	name       string
}

// Version implements offer.Extension.
func (t tools) Version() string {
	v, err := t.extensions.Get(t.name)
	if err != nil || v.Manifest == nil {
		return ""
	}
	return v.Manifest.Version
}

// Tools implements offer.Extension.
func (t tools) Tools() []protocol.Tool {
	v, err := t.extensions.Get(t.name)
	if err != nil {
		return nil
	}
	return v.Declared.Tools
}

// Call implements offer.Extension.
func (t tools) Call(ctx context.Context, tool string, input []byte) ([]byte, error) {
	return t.extensions.CallTool(ctx, t.name, tool, input)
}

// models are the models of all extensions.
type models struct{ *extension.Registry }

// Offers implements sampling.Extensions.
func (m models) Offers() []sampling.Offer {
	var all []sampling.Offer
	for _, v := range m.List() {
		if len(v.Declared.Tools) > 0 {
			all = append(all, sampling.Offer{Name: v.Name, Extension: tools{m.Registry, v.Name}})
		}
	}
	return all
}
