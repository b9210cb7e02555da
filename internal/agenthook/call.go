package agenthook

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// Server is the id of the server that the tools of agents are judged under. No other server may
// have it.
const Server = "agent"

// The tools of [Server]. Their arguments are those of the agent's tool, with the members that
// ThoughtGate understands under the names below.
const (
	Shell  = "shell"  // command, cwd
	Read   = "read"   // path
	Write  = "write"  // path, or patch
	Delete = "delete" // path
	Fetch  = "fetch"  // url
	Search = "search" // query, path
	Spawn  = "spawn"  // prompt
	MCP    = "mcp"    // server, tool, arguments
	Other  = "other"  // name, arguments
)

// Texts are the arguments of the tools of [Server] that are texts, in order. A call may lack each of
// them, and have others.
var Texts = map[string][]string{
	Shell: {"command", "cwd"}, Read: {"cwd", "path"}, Write: {"cwd", "patch", "path"}, Delete: {"cwd", "path"}, Fetch: {"cwd", "url"},
	Search: {"cwd", "path", "query"}, Spawn: {"cwd", "prompt"}, MCP: {"server", "tool"}, Other: {"name"},
}

// Call is what an agent is about to do, as ThoughtGate judges it.
type Call struct {
	Tool      string
	Arguments []byte // raw JSON object
	Server    string // MCP: the server, as the agent calls it; may be empty
	MCPTool   string // MCP: likewise, the server's tool

	renamed map[string]string // native member by canonical one
	added   []string          // members that the agent did not write
	input   bool              // arguments holds the native input as a member
}

// Call returns the call that an event is about.
func (c *Contract) Call(e *Event) (*Call, error) {
	if _, known := c.Tools[e.Tool]; !known && e.foreign != nil && !strings.HasPrefix(e.Tool, c.MCP) {
		c = e.foreign // which may call its tools as it does in its own entries
	}
	if server, tool, ok := c.mcp(e); ok {
		arguments := members("server", text(server), "tool", text(tool), "arguments", e.Input)
		return &Call{Tool: MCP, Server: server, MCPTool: tool, Arguments: arguments, input: true}, nil
	}
	t, known := c.Tools[e.Tool]
	if !known {
		return &Call{Tool: Other, Arguments: members("name", text(e.Tool), "arguments", e.Input), input: true}, nil
	}
	return t.call(e)
}

// call renames the members of the input that ThoughtGate understands. All others stay as they
// are, so that nothing the agent says is left out of what is judged.
func (t Tool) call(e *Event) (*Call, error) {
	in := rawjson.Read(e.Input)
	call := &Call{Tool: t.Name, renamed: map[string]string{}}
	var out writtenObject
	for _, m := range in.Members {
		name := m.Name
		if name == "cwd" && t.Members[name] == "" { // the model made it up, and the tool ignores it
			name = "input.cwd"
			call.renamed[name] = m.Name
		} else if canonical := t.Members[name]; canonical != "" && canonical != name {
			if in.Has(canonical) && (canonical != "cwd" || t.Members["cwd"] != "") || call.renamed[canonical] != "" {
				in.Fail("%s has two members for %s", e.Tool, canonical)
			}
			name = canonical
			call.renamed[canonical] = m.Name
		}
		out.add(name, m.Value)
	}
	if e.Cwd != "" && (!in.Has("cwd") || t.Members["cwd"] == "") && call.renamed["cwd"] == "" {
		out.add("cwd", text(filepath.Clean(e.Cwd)))
		call.added = append(call.added, "cwd")
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("read the input of %s: %w", e.Tool, err)
	}
	call.Arguments = out.end()
	return call, nil
}

// Input returns arguments, which replace those of the call, as the agent's tool takes them.
func (c *Call) Input(arguments []byte) ([]byte, error) {
	o := rawjson.Read(arguments)
	if c.input {
		input := o.Get("arguments")
		if err := o.Err(); err != nil || input == nil {
			return nil, errors.New("the changed call has no arguments")
		}
		return input, nil
	}
	var out writtenObject
	for _, m := range o.Members {
		if !slices.Contains(c.added, m.Name) {
			out.add(cmp.Or(c.renamed[m.Name], m.Name), m.Value)
		}
	}
	return out.end(), o.Err()
}
