package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/child"
)

// errInternal reports a failure of ThoughtGate rather than of the agent.
var errInternal = errors.New("ThoughtGate failed")

// InheritedVars are the variables that every agent gets, from the caller of the run or from the
// daemon. Apart from them it gets only what its configuration names.
var InheritedVars = []string{"PATH", "HOME", "LANG", "TERM", "XDG_RUNTIME_DIR"}

// environment returns the environment of the agent's process.
func (o *run) environment() ([]string, error) {
	names := slices.Concat(InheritedVars, o.agent.Pass)
	for name, value := range o.request.Env {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("the agent may not get the variable %q; add it to pass in the configuration: %w", name, gate.ErrInvalid)
		}
		if strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("the variable %q contains a NUL: %w", name, gate.ErrInvalid)
		}
	}
	all := map[string]string{}
	for _, name := range names {
		value, given := o.request.Env[name]
		if !given {
			value = o.runs.options.Getenv(name)
		}
		if value != "" {
			all[name] = value
		}
	}
	maps.Copy(all, o.agent.Env)
	// Processes below the run must not answer questions, and a tg-shim that it starts belongs
	// to its session.
	all["THOUGHTGATE_ACTIVE"], all["THOUGHTGATE_SESSION"] = "1", o.session
	return child.ComposeEnv(nil, all, nil), nil
}

// server is an MCP server that the agent is told to start: tg-shim with the server's own
// command.
type server struct {
	Name    string     `json:"name"`
	Command string     `json:"command"`
	Args    []string   `json:"args"`
	Env     []variable `json:"env"`
}

type variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// wrapped returns the servers of the run's agent behind tg-shim, so that calls to them are
// judged in the run's session.
func (o *run) wrapped(c *config.Config) ([]server, error) {
	all := []server{} // an empty list is encoded as [], not null
	if len(o.agent.Servers) == 0 {
		return all, nil
	}
	shim, err := o.runs.options.Shim()
	if err != nil {
		return nil, fmt.Errorf("its servers can't be started: %w", err)
	}
	for _, id := range slices.Sorted(maps.Keys(o.agent.Servers)) {
		s := o.agent.Servers[id]
		env := map[string]string{}
		maps.Copy(env, s.Env)
		env["THOUGHTGATE_SOCKET"], env["THOUGHTGATE_SESSION"] = o.runs.options.Socket, o.session
		one := server{Name: id, Command: shim, Args: append([]string{"--server-id", id, "--"}, c.Program(s.Command)...)}
		for _, name := range slices.Sorted(maps.Keys(env)) {
			one.Env = append(one.Env, variable{name, env[name]})
		}
		all = append(all, one)
	}
	return all, nil
}
