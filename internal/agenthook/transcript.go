package agenthook

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
)

// Transcript is where and how an agent writes down what it does. It is the agent's claim: it can
// show that hooks were skipped, and never that they were not.
type Transcript struct {
	Home     string // folder of the agent, below that of the user
	Variable string // of the environment, which names another one
	Folder   string // below Home, with all transcripts: files of one JSON object a line
	// NoIDs says that events have no ids: a use in a transcript can be the one of an event if both
	// are about the same.
	NoIDs bool

	files        string // pattern of [path.Match] for transcripts below Folder; empty: all that end in .jsonl
	conversation string // transcript of the conversation @ below Folder, if events don't name it
	subagents    string // folder with the transcripts of a conversation's subagents; empty: not known
	uses         func(*Contract, rawjson.Object) []Use
}

// Is reports whether a file is a transcript. name is its path below Folder.
func (t *Transcript) Is(name string) bool {
	if t.files == "" {
		return strings.HasSuffix(name, ".jsonl")
	}
	matches, _ := path.Match(t.files, name) // the pattern is valid
	return matches
}

// Of returns the path of the transcript that an event is in, where folder has all. It is empty if
// that is not known.
func (t *Transcript) Of(e *Event, folder string) string {
	if e.Transcript == "" && t.conversation != "" && e.Session != "" {
		return folder + "/" + strings.ReplaceAll(t.conversation, "@", e.Session)
	}
	return e.Transcript
}

// Below returns the folder with the transcripts of the subagents of the conversation whose
// transcript is at path, or "".
func (t *Transcript) Below(path string) string {
	conversation, ok := strings.CutSuffix(path, ".jsonl")
	if !ok || t.subagents == "" {
		return ""
	}
	return conversation + "/" + t.subagents
}

// Use is what a transcript says about one use of a tool.
type Use struct {
	ID      string // the same as in the events before and after it
	Tool    string // one of the tools of [Server]
	Server  string // the server of an [MCP] tool
	What    string // command, path or the like, else the agent's name of the tool
	Ended   bool   // only ID is set besides: this is the result of the use
	Refused bool   // of a result: the agent itself has refused the use before it asked its hooks
}

// Use returns what an event says about the use of a tool.
func (c *Contract) Use(e *Event) Use { return c.use(e.ID, e.Tool, e.Input) }

var (
	claudeTranscript = &Transcript{Home: ".claude", Variable: "CLAUDE_CONFIG_DIR", Folder: "projects", subagents: "subagents", uses: claudeUses}
	codexTranscript  = &Transcript{Home: ".codex", Variable: "CODEX_HOME", Folder: "sessions", uses: codexUses}
	// Gemini CLI moves the folder that has .gemini. Files in folders below chats are of subagents, and
	// events of these name the conversation.
	geminiTranscript  = &Transcript{Variable: "GEMINI_CLI_HOME", Folder: ".gemini/tmp", files: "*/chats/session-*.jsonl", NoIDs: true, uses: geminiUses}
	qwenTranscript    = &Transcript{Home: ".qwen", Variable: "QWEN_HOME", Folder: "projects", files: "*/chats/*.jsonl", uses: qwenUses}
	copilotTranscript = &Transcript{Home: ".copilot", Variable: "COPILOT_HOME", Folder: "session-state", files: "*/events.jsonl", conversation: "@/events.jsonl", NoIDs: true, uses: copilotUses}
)

// Uses returns what a line of the agent's transcript says about uses of tools, unless it says
// that it was written before since.
func (c *Contract) Uses(line []byte, since time.Time) ([]Use, error) {
	if rawjson.HasMore(line, maxValues) {
		return nil, fmt.Errorf("read a line of the transcript: it has more than %d names and values", maxValues)
	}
	o := rawjson.Read(line)
	if at, err := time.Parse(time.RFC3339, o.OptionalText("timestamp")); err == nil && at.Before(since) {
		return nil, o.Err()
	}
	uses := c.Transcript.uses(c, o)
	if err := o.Err(); err != nil {
		return nil, fmt.Errorf("read a line of the transcript: %w", err)
	}
	return uses, nil
}

// maxValues is how many names and values a line has at most, with brackets. Each takes much more memory
// than it has bytes once it is read.
const maxValues = 200_000

// toolUseError begins the result of a tool that Claude Code did not use, since it does not know
// it or its input is wrong. It finds that out before it runs hooks.
const toolUseError = "<tool_use_error>"

func claudeUses(c *Contract, line rawjson.Object) []Use {
	kind, message := line.OptionalText("type"), line.Object("message")
	content := message.Get("content")
	if kind != "assistant" && kind != "user" || len(content) == 0 || content[0] != '[' {
		return nil
	}
	var uses []Use
	for _, block := range message.Objects("content") {
		switch what := block.OptionalText("type"); {
		case kind == "assistant" && what == "tool_use":
			uses = append(uses, c.use(block.OptionalText("id"), block.OptionalText("name"), block.Get("input")))
		case kind == "user" && what == "tool_result":
			text, err := rawjson.Text(block.Get("content"))
			refused := block.True("is_error") && err == nil && strings.HasPrefix(text, toolUseError)
			uses = append(uses, Use{ID: block.OptionalText("tool_use_id"), Ended: true, Refused: refused})
		}
	}
	return uses
}

// codexUses leaves out the tools for which Codex has no hooks at all.
func codexUses(c *Contract, line rawjson.Object) []Use {
	if line.OptionalText("type") != "response_item" {
		return nil
	}
	item := line.Object("payload")
	name, input := item.OptionalText("name"), []byte(nil)
	switch item.OptionalText("type") {
	case "function_call":
		input = item.Get("arguments")
	case "custom_tool_call":
		input = members("input", []byte(item.Get("input")))
	case "function_call_output", "custom_tool_call_output":
		return []Use{{ID: item.OptionalText("call_id"), Ended: true}}
	case "local_shell_call":
		name, input = "shell", item.Get("action")
	default:
		return nil
	}
	if _, known := c.Tools[name]; !known && !strings.HasPrefix(name, c.MCP) {
		return nil
	}
	return []Use{c.use(item.OptionalText("call_id"), name, input)}
}

// geminiUses reads a message, which is written again with each tool that has been used. An unknown
// tool is refused before hooks are run, and so is what the user does not want.
func geminiUses(c *Contract, line rawjson.Object) []Use {
	if line.OptionalText("type") != "gemini" || !line.Has("toolCalls") {
		return nil
	}
	var uses []Use
	for _, call := range line.Objects("toolCalls") {
		u, status := c.use(call.OptionalText("id"), call.OptionalText("name"), call.Get("args")), call.OptionalText("status")
		if u.Tool == Other {
			continue
		}
		switch status {
		case "cancelled":
			uses = append(uses, Use{ID: u.ID, Ended: true, Refused: true})
		case "success", "error":
			uses = append(uses, u, Use{ID: u.ID, Ended: true})
		}
	}
	return uses
}

func qwenUses(c *Contract, line rawjson.Object) []Use {
	kind := line.OptionalText("type")
	if kind != "assistant" && kind != "tool_result" {
		return nil
	}
	var uses []Use
	for _, part := range line.Object("message").Objects("parts") {
		switch call, result := part.Object("functionCall"), part.Object("functionResponse"); {
		case kind == "assistant" && part.Has("functionCall"):
			uses = append(uses, c.use(call.OptionalText("id"), call.OptionalText("name"), call.Get("args")))
		case kind == "tool_result" && part.Has("functionResponse"):
			refused := line.Object("toolCallResult").OptionalText("executionStatus") == "not_started"
			uses = append(uses, Use{ID: result.OptionalText("id"), Ended: true, Refused: refused})
		}
	}
	return uses
}

// copilotUses leaves out tools that are not known, whose names differ between events and
// transcripts.
func copilotUses(c *Contract, line rawjson.Object) []Use {
	switch line.OptionalText("type") {
	case "tool.execution_start":
		data := line.Object("data")
		if u := c.use(data.OptionalText("toolCallId"), data.OptionalText("toolName"), data.Get("arguments")); u.Tool != Other {
			return []Use{u}
		}
	case "tool.execution_complete":
		return []Use{{ID: line.Object("data").OptionalText("toolCallId"), Ended: true}}
	}
	return nil
}

// subjects are the arguments that say what a call is about.
var subjects = map[string][]string{
	Shell: {"command"}, Read: {"path"}, Write: {"path", "patch"}, Delete: {"path"}, Fetch: {"url"}, Search: {"query"}, Spawn: {"prompt"},
}

// use describes a use of the agent's tool name.
func (c *Contract) use(id, name string, input []byte) Use {
	u := Use{ID: id, Tool: Other, What: name}
	e := &Event{Tool: name, Input: input}
	if e.readInput() != nil {
		return u
	}
	call, err := c.Call(e)
	if err != nil {
		return u
	}
	u.Tool, u.Server = call.Tool, call.Server
	arguments := rawjson.Read(call.Arguments)
	if arguments.Err() != nil {
		return u
	}
	for _, member := range subjects[call.Tool] {
		raw := arguments.Get(member)
		text, err := rawjson.Text(raw)
		if err != nil && len(raw) > 0 && raw[0] == '[' { // a command as a list
			text = strings.Join(arguments.Texts(member), " ")
		}
		if text != "" && arguments.Err() == nil {
			u.What = text
			break
		}
	}
	return u
}
