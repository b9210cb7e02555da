// Package agenthook knows how agents call hooks: programs that an agent runs before it uses a
// tool of its own, and that can keep it from doing so. For each agent it has a [Contract]: which
// events the agent reports and in which form, which answers it understands, and what it does if
// a hook fails. With that, an event becomes a [Call] that is the same for all agents, and a
// verdict becomes the agent's answer.
//
// The package only translates. It judges nothing, and holds nothing of what an agent says for
// true.
package agenthook

import "time"

// Contract is how one agent calls hooks.
type Contract struct {
	Agent    string // its type
	Since    string // first version that takes such entries; empty: not known
	Proven   bool   // a real agent was seen to obey a hook that denies, and to go on after one that passes
	Events   map[string]Kind
	Hooks    []string        // events that entries are written for
	Tools    map[string]Tool // by the agent's name
	MCP      string          // what the names of tools of MCP servers begin with; empty: they have a context instead
	ReadBy   []string        // agents that run this one's entries as well
	Unit     time.Duration   // of the timeout in an entry; 0: an entry has none
	Limit    time.Duration   // how long the agent is made to wait for an answer
	Notice   bool            // its model can be told something without denying the call
	Blocks   bool            // a hook that fails or is late can be made to deny
	Unseen   []string        // what the agent does without asking hooks
	AskModes []string        // permission modes in which it asks its own user if it is told to; empty: it can't be told, or does not say its mode

	Transcript *Transcript // where the agent writes down what it does; nil if that is not known

	Once string // what a person has to do once in the agent, or it runs no entry; empty: nothing

	words words
	form  form
	fixed bool   // it can't be told to use other arguments
	said  string // member of an event that has its name; empty: hook_event_name
}

// Tool says how a tool of an agent is judged.
type Tool struct {
	Name    string            // one of the tools of [Server]
	Members map[string]string // canonical name by the agent's, where they differ
}

// Agents returns the agents that have a contract.
func Agents() []string {
	var all []string
	for i := range contracts {
		all = append(all, contracts[i].Agent)
	}
	return all
}

// Of returns the contract of an agent, or nil if there is none.
func Of(agent string) *Contract {
	for i := range contracts {
		if contracts[i].Agent == agent {
			return &contracts[i]
		}
	}
	return nil
}
