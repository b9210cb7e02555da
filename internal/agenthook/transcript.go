package agenthook

import (
	"fmt"
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

	subagents string // folder with the transcripts of a conversation's subagents; empty: not known
	uses      func(*Contract, rawjson.Object) []Use
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

var (
	claudeTranscript = &Transcript{Home: ".claude", Variable: "CLAUDE_CONFIG_DIR", Folder: "projects", subagents: "subagents", uses: claudeUses}
	codexTranscript  = &Transcript{Home: ".codex", Variable: "CODEX_HOME", Folder: "sessions", uses: codexUses}
)

// Uses returns what a line of the agent's transcript says about uses of tools, unless it says
// that it was written before since.
func (c *Contract) Uses(line []byte, since time.Time) ([]Use, error) {
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

// toolUseError begins the result of a tool that Claude Code did not use, since it does not know
// it or its input is wrong. It finds that out before it runs hooks.
const toolUseError = "<tool_use_error>"

func claudeUses(c *Contract, line rawjson.Object) []Use {
	kind := line.OptionalText("type")
	content := line.Object("message").Get("content")
	if kind != "assistant" && kind != "user" || len(content) == 0 || content[0] != '[' {
		return nil
	}
	var uses []Use
	for _, block := range line.Object("message").Objects("content") {
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
