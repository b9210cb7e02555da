package agenthook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// Kind says what an event is about.
type Kind uint8

const (
	Ignored Kind = iota // of no interest; the agent is let alone
	Before              // a tool is about to run, and the answer decides whether it does
	After               // a tool has run
	Start               // a session of the agent has begun
	End                 // a session of the agent has ended
)

// Event is what an agent reported to its hook. All of it is the agent's claim.
type Event struct {
	Kind     Kind
	Name     string // the agent's name of the event
	Writer   string // agent that has run the hook: that of the contract, or one that reads its entries as well
	ID       string // of the call, the same before and after it; empty if the agent gives none
	Session  string // the agent's id of its conversation; may be empty
	Cwd      string // may be empty
	Mode     string // permission mode of the agent; may be empty
	Subagent bool   // a subagent makes the call
	Tool     string // the agent's name of the tool
	Input    []byte // raw JSON object
	Result   []byte // raw JSON; nil if there is none
	Failed   bool   // After: the tool has failed

	Transcript string // path of the agent's own account of the conversation; may be empty

	foreign            *Contract // of Writer, if that is another agent
	mcpServer, mcpTool string    // what the agent says about a tool of an MCP server
}

// Read reads what the agent has written to its hook.
func (c *Contract) Read(raw []byte) (*Event, error) {
	o := rawjson.Read(raw)
	e := &Event{
		Writer: c.Agent, Name: o.OptionalText(c.nameMember()),
		Session: cmp.Or(o.OptionalText("session_id"), o.OptionalText("conversation_id"), o.OptionalText("sessionId"), o.OptionalText("trajectory_id")),
		Cwd:     cmp.Or(o.OptionalText("cwd"), o.OptionalText("working_dir")), Mode: o.OptionalText("permission_mode"),
		// Qwen Code has both, and only the first in its transcripts.
		ID: cmp.Or(o.OptionalText("tool_call_id"), o.OptionalText("tool_use_id")), Tool: o.OptionalText("tool_name"),
		Transcript: o.OptionalText("transcript_path"), Subagent: o.Has("agent_id"),
	}
	if err := o.Err(); err != nil {
		return nil, fmt.Errorf("read the event: %w", err)
	}
	kind, known := c.Events[e.Name]
	if !known {
		return nil, fmt.Errorf("%s is not known to report %q", c.Agent, e.Name)
	}
	e.Kind = kind
	if err := c.checkWriter(o, e); err != nil {
		return nil, err
	}
	switch {
	case e.Name == "beforeShellExecution", e.Name == "beforeReadFile":
		e.Tool, e.Input = e.Name, o.Without(cursorCommon...)
	case c.said == windsurfName:
		e.readWindsurf(o)
	default:
		e.Input = o.Get("tool_input")
	}
	if e.Kind == Before || e.Kind == After {
		if e.Tool == "" {
			return nil, fmt.Errorf("the event %s names no tool", e.Name)
		}
		if err := e.readInput(); err != nil {
			return nil, err
		}
	}
	for _, name := range []string{"tool_response", "tool_output", "tool_result", "result_json", "error"} {
		if e.Result != nil {
			break
		}
		e.Result = o.Get(name)
		e.Failed = e.Result != nil && name == "error"
	}
	if mcp := o.Get("mcp_context"); mcp != nil {
		in := o.Object("mcp_context")
		e.mcpServer, e.mcpTool = in.OptionalText("server_name"), in.OptionalText("tool_name")
	}
	return e, o.Err()
}

// cursorCommon are the members that all events of Cursor have.
var cursorCommon = []string{
	"hook_event_name", "conversation_id", "generation_id", "model", "model_id", "model_params", "cursor_version", "workspace_roots",
	"user_email", "transcript_path", "session_id", "composer_mode", "is_background_agent", "agent_id", "subagent_type",
}

// nameMember returns the member of an event that has its name.
func (c *Contract) nameMember() string { return cmp.Or(c.said, "hook_event_name") }

// windsurfName is the member with the name of an event in Windsurf, which reports its tools in a form
// of its own: there is an event for each of them.
const windsurfName = "agent_action_name"

// readWindsurf reads what Windsurf says about a tool. The tool is the event without its first word,
// pre or post.
func (e *Event) readWindsurf(o rawjson.Object) {
	_, e.Tool, _ = strings.Cut(e.Name, "_")
	e.Input = o.Get("tool_info")
	if in := o.Object("tool_info"); e.Tool == "mcp_tool_use" {
		e.mcpServer, e.mcpTool = in.OptionalText("mcp_server_name"), in.OptionalText("mcp_tool_name")
		e.Input, e.Result = in.Get("mcp_tool_arguments"), in.Get("mcp_result")
	}
}

// readInput checks the input of a tool. Some agents give it as a JSON text.
func (e *Event) readInput() error {
	if e.Input == nil {
		e.Input = []byte("{}")
		return nil
	}
	if text, err := rawjson.Text(e.Input); err == nil {
		e.Input = []byte(text)
	}
	if err := rawjson.Read(e.Input).Err(); err != nil {
		return fmt.Errorf("read the input of %s: %w", e.Tool, err)
	}
	return nil
}

// marks are members that only one agent writes.
var marks = []struct{ member, agent string }{{"turn_id", "codex"}, {"cursor_version", "cursor"}}

// checkWriter refuses an event that another agent wrote than the entry is for: its answer would
// be in words that this agent takes for consent. An agent that is known to run the entries of
// this one is answered by exit codes.
func (c *Contract) checkWriter(o rawjson.Object, e *Event) error {
	for _, mark := range marks {
		if !o.Has(mark.member) || mark.agent == c.Agent {
			continue
		}
		if slices.Contains(c.ReadBy, mark.agent) {
			e.Writer, e.foreign = mark.agent, Of(mark.agent)
			return nil
		}
		return fmt.Errorf("the hook is for %s, but %s has run it", c.Agent, mark.agent)
	}
	return nil
}

// mcp returns the server and the tool if the event is about a tool of an MCP server.
func (c *Contract) mcp(e *Event) (server, tool string, ok bool) {
	switch {
	case e.mcpServer != "", e.mcpTool != "":
		return e.mcpServer, e.mcpTool, true
	case c.MCP == "" || !strings.HasPrefix(e.Tool, c.MCP):
		return "", "", false
	}
	rest := strings.TrimPrefix(e.Tool, c.MCP)
	// Where two readings are possible, it is not known which server is meant.
	if server, tool, ok = strings.Cut(rest, "__"); ok && server != "" && tool != "" && !strings.Contains(tool, "__") {
		return server, tool, true
	}
	return "", rest, true
}
