package config

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
)

// Agent is a program that tgctl run starts without a terminal of its own.
type Agent struct {
	Place       Place                   `yaml:"-"`
	Command     []string                `yaml:"command" need:"true" doc:"the program and its arguments; a program with a slash is relative to this file"`
	Protocol    Protocol                `yaml:"protocol" need:"true" doc:"acp (Agent Client Protocol) | typed (request, stream and response as lines of JSON)"`
	Timeout     time.Duration           `yaml:"timeout" min:"1s" max:"7d" doc:"how long a run may take; tgctl run --timeout overrides it for one run"`
	Env         map[string]string       `yaml:"env" doc:"variables to set for it"`
	Pass        []string                `yaml:"pass" one:"true" doc:"names of variables that it inherits from tgctl run"`
	Servers     map[string]*AgentServer `yaml:"servers" doc:"its MCP servers by id, each behind tg-shim"`
	Description string                  `yaml:"description" doc:"one line for a person"`
}

func (a *Agent) defaults() { a.Timeout = 10 * time.Minute }

// AgentServer is an MCP server that a headless agent is given.
type AgentServer struct {
	Place   Place             `yaml:"-"`
	Command []string          `yaml:"command" need:"true" doc:"the program and its arguments; a program with a slash is relative to this file"`
	Env     map[string]string `yaml:"env" doc:"variables to set for it"`
}

// Program returns command with the path of its program resolved: a relative path is relative to
// the configuration file. A plain name is left for the caller to look up in PATH.
func (c *Config) Program(command []string) []string {
	command = slices.Clone(command)
	if len(command) > 0 && strings.ContainsRune(command[0], '/') && !filepath.IsAbs(command[0]) {
		command[0] = filepath.Join(filepath.Dir(c.Path), command[0])
	}
	return command
}

// Hook holds the settings of an agent that runs hooks before it uses tools of its own.
type Hook struct {
	Place Place   `yaml:"-"`
	Ask   HookAsk `yaml:"ask" doc:"who asks a person about its own tools: hold (ThoughtGate) | native (the agent asks its own user, where it can and nothing stricter is configured)"`
}

func (h *Hook) defaults() { h.Ask = HookAskHold }

// NativeAgents returns the types of the agents that may ask their own users, in order.
func (c *Config) NativeAgents() []string {
	return slices.DeleteFunc(keysOf(c.Hooks), func(name string) bool { return c.Hooks[name].Ask != HookAskNative })
}

// hooks checks the agents that run hooks, and that those which are to ask can.
func (c *checker) hooks() {
	for _, name := range keysOf(c.Hooks) {
		h, contract := c.Hooks[name], agenthook.Of(name)
		switch {
		case contract == nil:
			c.found = append(c.found, h.Place.Diagnostic(Error, "", suggestion(name, agenthook.Agents()), "no hooks are known of an agent %q", name))
		case h.Ask == HookAskNative && len(contract.AskModes) == 0:
			c.reportError(&h.Ask, "", "remove it: ThoughtGate then asks", "%s can't be told to ask its own user, or its hooks don't say whether there is one", name)
		}
	}
}

var agentName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// agents checks the headless agents. The name of an agent is a server id in rules and records:
// its requests to its host are judged under that name.
func (c *checker) agents() {
	for _, name := range keysOf(c.Agents) {
		a := c.Agents[name]
		wrong := func(hint, format string, args ...any) {
			c.found = append(c.found, a.Place.Diagnostic(Error, "", hint, format, args...))
		}
		if !agentName.MatchString(name) {
			wrong("use lower-case letters, digits, - and _, 64 at most", "invalid agent name %q", name)
		}
		if name == agenthook.Server {
			wrong("give it another name", "the name %q stands for the tools of agents themselves", name)
		}
		if _, taken := a.Servers[name]; taken {
			wrong("rename the server", "the agent %q has a server of the same name, and rules can't distinguish them", name)
		}
		c.command(a.Place, a.Command)
		c.variables(a.Place, slices.Concat(keysOf(a.Env), a.Pass))
		for _, id := range keysOf(a.Servers) {
			s := a.Servers[id]
			if !workflowName.MatchString(id) {
				c.found = append(c.found, s.Place.Diagnostic(Error, "V-016", "use letters, digits, -, _ and .", "invalid server name %q", id))
			}
			c.command(s.Place, s.Command)
			c.variables(s.Place, keysOf(s.Env))
		}
	}
}

func (c *checker) command(at Place, command []string) {
	if len(command) > 0 && command[0] == "" || slices.ContainsFunc(command, func(word string) bool { return strings.ContainsRune(word, 0) }) {
		c.found = append(c.found, at.Diagnostic(Error, "", "", "the command has no program, or contains a NUL"))
	}
	if len(command) == 0 {
		c.found = append(c.found, at.Diagnostic(Error, "", `write it as ["program", "argument"]`, "the command is empty"))
	}
}

func (c *checker) variables(at Place, names []string) {
	for _, name := range names {
		hint := ""
		switch {
		case strings.HasPrefix(name, "THOUGHTGATE_"):
			hint = "ThoughtGate sets it itself"
		case variableName.MatchString(name):
			continue
		}
		c.found = append(c.found, at.Diagnostic(Error, "", hint, "the variable %q is not allowed here", name))
	}
}
