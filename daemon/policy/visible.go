package policy

import (
	"context"
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/uri"
)

// Visible reports whether an agent may see a tool, prompt or resource that the server of c lists.
// kind is tools, prompts or resources, as mcp.ListOf returns it. Visible only filters lists:
// calls are judged by Rule.
func (s *Set) Visible(c *gate.Call, kind, name string) bool {
	if s.fleet != nil && s.fleet.floor != nil && !s.fleet.floor.Visible(c, kind, name) {
		return false
	}
	source := s.cfg.Source(c.Server)
	if source == nil {
		return true
	}
	if !source.Enabled || otherProgram(source, c) {
		return false
	}
	names := []string{name}
	if kind == "resources" {
		names = uri.Spellings(name)
	}
	return exposed(context.Background(), &source.Expose, typeOfList[kind], names)
}

// typeOfList maps the kind of a list to the type of its entries.
var typeOfList = map[string]cedar.EntityType{"tools": typeTool, "prompts": typePrompt, "resources": typeResource}

// exposed reports whether e exposes something under each of its names. It stops when ctx is done.
func exposed(ctx context.Context, e *config.Expose, on cedar.EntityType, names []string) bool {
	var globs []config.Glob
	switch on {
	case typeTool:
		globs = e.Tools
	case typePrompt:
		globs = e.Prompts
	case typeResource:
		globs = e.Resources
	}
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		listed := config.MatchAny(globs, name)
		if e.Mode == config.Allowlist && !listed || e.Mode == config.Blocklist && listed {
			return false
		}
	}
	return true
}

// hiddenRuling implements the gate visible. It returns a ruling and true if the server, or the
// subject of the call, is hidden.
func (s *Set) hiddenRuling(ctx context.Context, sub *subject, c *gate.Call) (gate.Ruling, bool) {
	source := s.cfg.Source(sub.server)
	if source == nil || s.showHidden {
		return gate.Ruling{}, false
	}
	r := gate.Ruling{
		Move: gate.Deny, Hidden: true, Gate: "visible", Code: mcp.CodeInvalidParams, Redact: s.redact,
		Rule: fmt.Sprintf("source %q (%s)", source.ID, source.Place),
	}
	switch {
	case !source.Enabled:
		r.Reason = fmt.Sprintf("server %s is disabled", printable(sub.server))
	case otherProgram(source, c):
		r.Reason = fmt.Sprintf("server %s was started by a command that its source does not match", printable(sub.server))
	case sub.class == classAct && !exposed(ctx, &source.Expose, sub.kind, sub.names):
		r.Reason = fmt.Sprintf("server %s does not expose it", printable(sub.server))
	default:
		return gate.Ruling{}, false
	}
	return r, true
}

// otherProgram reports whether the server was started by a command other than the one in source.
func otherProgram(source *config.Source, c *gate.Call) bool {
	return !source.Command.IsZero() && !source.Command.Match(strings.Join(c.Command, " "))
}
