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
	Folder   string // below Home, with all transcripts: files of one JSON object a line, if Table is nil
	// Table says that the only transcript is an SQLite database, which all conversations share.
	Table *Table
	// NoIDs says that events have no ids: a use in a transcript can be the one of an event if both
	// are about the same.
	NoIDs bool

	files        string // pattern of [path.Match] for transcripts below Folder; empty: all that end in .jsonl
	conversation string // transcript of the conversation @ below Folder, if events don't name it
	subagents    string // folder with the transcripts of a conversation's subagents; empty: not known
	reports      func(*Contract, rawjson.Object) []Report
}

// Table is a table of a database, of which a row has one JSON object.
type Table struct {
	Name, Columns                string // Columns is the beginning of its definition
	Session, Message, Time, Data int    // columns: two ids, when the row was made (in milliseconds since 1970), and the object
}

// MayHave reports whether a folder below Folder may have transcripts, in it or further below. name is
// its path below Folder.
func (t *Transcript) MayHave(name string) bool {
	return t.files == "" || strings.Count(name, "/") < strings.Count(t.files, "/")
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

// Conversation returns the transcript of the conversation that the transcript at name, a path below
// Folder, belongs to: another one if it is that of a subagent.
func (t *Transcript) Conversation(name string) string {
	if conversation, _, ok := strings.Cut(name, "/"+t.subagents+"/"); ok && t.subagents != "" {
		return conversation + ".jsonl"
	}
	return name
}

// Use is what a transcript says about one use of a tool.
type Use struct {
	ID      string // the same as in the events before and after it
	Tool    string // one of the tools of [Server]
	Server  string // the server of an [MCP] tool
	What    string // command, path or the like, else the agent's name of the tool
	Ended   bool   // only ID is set besides: this is the result of the use
	Refused bool   // of a result: the agent itself has refused the use before it asked its hooks

	// Session and Message are what the use is in, if the transcript is a [Table]. In a message that no
	// model has begun, a person has used the tool.
	Session, Message string
	Begun            bool // only Session and Message are set besides: a model has begun the message
}

// Use returns what an event says about the use of a tool.
func (c *Contract) Use(e *Event) Use { return c.use(e.ID, e.Tool, e.Input) }

var (
	claudeTranscript = &Transcript{Home: ".claude", Variable: "CLAUDE_CONFIG_DIR", Folder: "projects", subagents: "subagents", reports: claudeReports}
	codexTranscript  = &Transcript{Home: ".codex", Variable: "CODEX_HOME", Folder: "sessions", reports: codexReports}
	// Gemini CLI moves the folder that has .gemini. Files in folders below chats are of subagents, and
	// events of these name the conversation.
	geminiTranscript  = &Transcript{Variable: "GEMINI_CLI_HOME", Folder: ".gemini/tmp", files: "*/chats/session-*.jsonl", NoIDs: true, reports: geminiReports}
	qwenTranscript    = &Transcript{Home: ".qwen", Variable: "QWEN_HOME", Folder: "projects", files: "*/chats/*.jsonl", reports: qwenReports}
	copilotTranscript = &Transcript{Home: ".copilot", Variable: "COPILOT_HOME", Folder: "session-state", files: "*/events.jsonl", conversation: "@/events.jsonl", NoIDs: true, reports: copilotReports}
	// Its data is where the XDG specification has it.
	opencodeTranscript = &Transcript{Home: ".local/share", Variable: "XDG_DATA_HOME", Folder: "opencode", files: "opencode.db", conversation: "opencode.db", reports: opencodeReports, Table: &Table{
		Name:    "part",
		Columns: "CREATE TABLE part ( id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL",
		Message: 1, Session: 2, Time: 3, Data: 5,
	}}
)

// Report is what a line of a transcript says: what the agent would tell its hooks [Before] it uses a
// tool, or [After] that. A report of another kind has only Cwd, the folder from there on.
type Report struct {
	Event
	At      time.Time // when the line was written, or a use in a [Table] began; zero if it does not say so
	Refused bool      // After: the agent itself has refused the use before it asked its hooks
	Begun   bool      // of another kind: a model has begun the message
}

// Reports returns what a line of the agent's transcript says. Its values share memory with line.
func (c *Contract) Reports(line []byte) ([]Report, error) {
	if rawjson.HasMore(line, maxValues) {
		return nil, fmt.Errorf("read a line of the transcript: it has more than %d names and values", maxValues)
	}
	o := rawjson.Read(line)
	at, err := time.Parse(time.RFC3339, o.OptionalText("timestamp"))
	if err != nil {
		at = time.Time{}
	}
	if start := o.Object("state").Object("time").Number("start", 0); c.Transcript.Table != nil && start > 0 { // that of a copied conversation is the original's
		at = time.UnixMilli(int64(start))
	}
	reports := c.Transcript.reports(c, o)
	if err := o.Err(); err != nil {
		return nil, fmt.Errorf("read a line of the transcript: %w", err)
	}
	for i := range reports {
		reports[i].At = at
	}
	return reports, nil
}

// Uses returns what a line of the agent's transcript says about uses of tools, unless it says
// that it was written before since.
func (c *Contract) Uses(line []byte, since time.Time) ([]Use, error) {
	reports, err := c.Reports(line)
	var uses []Use
	for _, r := range reports {
		switch {
		case !r.At.IsZero() && r.At.Before(since):
		case r.Kind == Before:
			uses = append(uses, c.use(r.ID, r.Tool, r.Input))
		case r.Kind == After:
			uses = append(uses, Use{ID: r.ID, Ended: true, Refused: r.Refused})
		case r.Begun:
			uses = append(uses, Use{Begun: true})
		}
	}
	return uses, err
}

func begins(id, tool string, input []byte) Report {
	return Report{Event: Event{Kind: Before, ID: id, Tool: tool, Input: input}}
}

func ends(id string, result []byte, refused bool) Report {
	return Report{Event: Event{Kind: After, ID: id, Result: result}, Refused: refused}
}

// maxValues is how many names and values a line has at most, with brackets. Each takes much more memory
// than it has bytes once it is read.
const maxValues = 200_000

// toolUseError begins the result of a tool that Claude Code did not use, since it does not know
// it or its input is wrong. It finds that out before it runs hooks.
const toolUseError = "<tool_use_error>"

// claudeReminder begins what Claude Code itself adds to a result for its model, as that a file is
// empty. A hook is told the result without it.
const claudeReminder = "<system-reminder>"

func claudeReports(_ *Contract, line rawjson.Object) []Report {
	kind, message := line.OptionalText("type"), line.Object("message")
	content := message.Get("content")
	if kind != "assistant" && kind != "user" || len(content) == 0 || content[0] != '[' {
		return nil
	}
	var reports []Report
	for _, block := range message.Objects("content") {
		switch what := block.OptionalText("type"); {
		case kind == "assistant" && what == "tool_use":
			r := begins(block.OptionalText("id"), block.OptionalText("name"), block.Get("input"))
			r.Cwd = line.OptionalText("cwd")
			reports = append(reports, r)
		case kind == "user" && what == "tool_result":
			result := block.Get("content")
			text, err := rawjson.Text(result)
			refused := block.True("is_error") && err == nil && strings.HasPrefix(text, toolUseError)
			if told := line.Get("toolUseResult"); len(told) > 0 && strings.Contains(string(result), claudeReminder) {
				result = told
			}
			reports = append(reports, ends(block.OptionalText("tool_use_id"), result, refused))
		}
	}
	return reports
}

// unsupportedCall begins the result of a tool that Codex does not know, of which it tells no hook.
const unsupportedCall = "unsupported call: "

// codexReports leaves out the tools for which Codex has no hooks at all.
func codexReports(c *Contract, line rawjson.Object) []Report {
	kind := line.OptionalText("type")
	if kind != "session_meta" && kind != "turn_context" && kind != "response_item" {
		return nil
	}
	item := line.Object("payload")
	if kind != "response_item" {
		return []Report{{Event: Event{Cwd: item.OptionalText("cwd")}}}
	}
	name, input := item.OptionalText("name"), []byte(nil)
	switch item.OptionalText("type") {
	case "function_call":
		input = item.Get("arguments")
	case "custom_tool_call":
		input = members("input", []byte(item.Get("input")))
	case "function_call_output", "custom_tool_call_output":
		text, err := rawjson.Text(item.Get("output"))
		return []Report{ends(item.OptionalText("call_id"), item.Get("output"), err == nil && strings.HasPrefix(text, unsupportedCall))}
	case "local_shell_call":
		name, input = "shell", item.Get("action")
	default:
		return nil
	}
	if space := item.OptionalText("namespace"); strings.HasPrefix(space, c.MCP) { // mcp__server, with or without the next underscores
		name = strings.TrimSuffix(space, "__") + "__" + name
	}
	if _, known := c.Tools[name]; !known && !strings.HasPrefix(name, c.MCP) {
		return nil
	}
	return []Report{begins(item.OptionalText("call_id"), name, input)}
}

// geminiReports reads a message, which is written again with each tool that has been used. An unknown
// tool is refused before hooks are run, and so is what the user does not want.
func geminiReports(c *Contract, line rawjson.Object) []Report {
	if line.OptionalText("type") != "gemini" || !line.Has("toolCalls") {
		return nil
	}
	var reports []Report
	for _, call := range line.Objects("toolCalls") {
		id, name, input := call.OptionalText("id"), call.OptionalText("name"), call.Get("args")
		if c.use(id, name, input).Tool == Other {
			continue
		}
		switch call.OptionalText("status") {
		case "cancelled":
			reports = append(reports, ends(id, nil, true))
		case "success", "error":
			reports = append(reports, begins(id, name, input), ends(id, call.Get("result"), false))
		}
	}
	return reports
}

func qwenReports(_ *Contract, line rawjson.Object) []Report {
	kind := line.OptionalText("type")
	if kind != "assistant" && kind != "tool_result" {
		return nil
	}
	var reports []Report
	for _, part := range line.Object("message").Objects("parts") {
		switch call, result := part.Object("functionCall"), part.Object("functionResponse"); {
		case kind == "assistant" && part.Has("functionCall"):
			r := begins(call.OptionalText("id"), call.OptionalText("name"), call.Get("args"))
			r.Cwd = line.OptionalText("cwd")
			reports = append(reports, r)
		case kind == "tool_result" && part.Has("functionResponse"):
			refused := line.Object("toolCallResult").OptionalText("executionStatus") == "not_started"
			reports = append(reports, ends(result.OptionalText("id"), result.Get("response"), refused))
		}
	}
	return reports
}

// copilotReports leaves out tools that are not known, whose names differ between events and
// transcripts.
func copilotReports(c *Contract, line rawjson.Object) []Report {
	switch line.OptionalText("type") {
	case "session.start":
		return []Report{{Event: Event{Cwd: line.Object("data").Object("context").OptionalText("cwd")}}}
	case "tool.execution_start":
		data := line.Object("data")
		id, name, input := data.OptionalText("toolCallId"), data.OptionalText("toolName"), data.Get("arguments")
		if c.use(id, name, input).Tool != Other {
			return []Report{begins(id, name, input)}
		}
	case "tool.execution_complete":
		data := line.Object("data")
		return []Report{ends(data.OptionalText("toolCallId"), data.Get("result"), false)}
	}
	return nil
}

// opencodeReports reads a part of a message. A model's words come in steps, while what a person has run by
// "!" or by a command that starts a subagent is in a message without one. Tools that are not known may be those of
// servers. What was never begun has no hooks: what is still being written, also if it was aborted then.
func opencodeReports(c *Contract, part rawjson.Object) []Report {
	switch part.OptionalText("type") {
	case "step-start":
		return []Report{{Begun: true}}
	case "tool":
	default:
		return nil
	}
	state := part.Object("state")
	id, name, input := part.OptionalText("callID"), part.OptionalText("tool"), state.Get("input")
	status, isEmpty := state.OptionalText("status"), string(rawjson.Canonical(input)) == "{}"
	switch {
	case c.use(id, name, input).Tool == Other || status == "pending" || status == "error" && isEmpty:
		return nil
	case status == "running":
		return []Report{begins(id, name, input)}
	}
	return []Report{begins(id, name, input), ends(id, state.Get("output"), false)}
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

// Reported returns a report as the event that a hook is told.
func (r *Report) Reported() (*Event, error) {
	e := r.Event
	return &e, e.readInput()
}
