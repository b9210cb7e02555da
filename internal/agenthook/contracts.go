package agenthook

import (
	"maps"
	"time"
)

// named returns a tool whose members are given as pairs of the agent's and the canonical name.
func named(name string, pairs ...string) Tool {
	t := Tool{Name: name, Members: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		t.Members[pairs[i]] = pairs[i+1]
	}
	return t
}

// both returns the tools of two tables.
func both(one, other map[string]Tool) map[string]Tool {
	all := maps.Clone(one)
	maps.Copy(all, other)
	return all
}

var claudeTools = map[string]Tool{
	"Bash": named(Shell), "PowerShell": named(Shell), "Monitor": named(Shell),
	"Read": named(Read, "file_path", "path"), "NotebookRead": named(Read, "notebook_path", "path"), "LS": named(Read),
	"Write": named(Write, "file_path", "path"), "Edit": named(Write, "file_path", "path"), "MultiEdit": named(Write, "file_path", "path"),
	"NotebookEdit": named(Write, "notebook_path", "path"),
	"WebFetch":     named(Fetch), "WebSearch": named(Search), "Grep": named(Search, "pattern", "query"), "Glob": named(Search, "pattern", "query"),
	"Task": named(Spawn), "Agent": named(Spawn),
}

var claudeEvents = map[string]Kind{
	"PreToolUse": Before, "PostToolUse": After, "PostToolUseFailure": After, "SessionStart": Start, "SessionEnd": End,
}

// contracts has a row for each agent whose hooks are supported.
var contracts = []Contract{
	{
		Agent: "claude-code", Proven: true, Since: "2.1.139", Events: claudeEvents, MCP: "mcp__", ReadBy: []string{"cursor"},
		Hooks: []string{"PreToolUse", "PostToolUse", "PostToolUseFailure", "SessionStart", "SessionEnd"},
		Unit:  time.Second, Limit: time.Hour, Notice: true, Blocks: true, words: wordsClaude, form: formDirect,
		Tools: claudeTools, Transcript: claudeTranscript, AskModes: []string{"default", "acceptEdits", "plan"},
		Unseen: []string{"files that a prompt names with @"},
	},
	{
		Agent: "codex", Proven: true, Since: "0.124.0", Events: claudeEvents, MCP: "mcp__",
		Hooks: []string{"PreToolUse", "PostToolUse", "SessionStart"},
		Unit:  time.Second, Limit: time.Hour, words: wordsClaude, form: formGroup, Transcript: codexTranscript,
		Once: "codex runs a hook only once you have trusted it: start codex and trust those of ThoughtGate in /hooks",
		Tools: map[string]Tool{
			"Bash": named(Shell), "shell": named(Shell), "exec_command": named(Shell, "cmd", "command", "workdir", "cwd"),
			"apply_patch": named(Write, "command", "patch", "input", "patch"), "Edit": named(Write, "command", "patch"), "Write": named(Write, "command", "patch"),
			"view_image": named(Read), "web_search": named(Search), "spawn_agent": named(Spawn, "message", "prompt"),
		},
		Unseen: []string{"tools that code in its own interpreter calls"},
	},
	{
		Agent: "cursor", Since: "1.7.0", MCP: "MCP:",
		Events: map[string]Kind{
			"preToolUse": Before, "beforeShellExecution": Before, "beforeMCPExecution": Before, "beforeReadFile": Before,
			"postToolUse": After, "afterShellExecution": After, "afterMCPExecution": After, "sessionStart": Start, "sessionEnd": End,
		},
		Hooks: []string{"preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile", "postToolUse", "sessionStart", "sessionEnd"},
		Unit:  time.Second, Limit: time.Hour, Blocks: true, words: wordsCursor, form: formFlat,
		Tools: map[string]Tool{
			"Shell": named(Shell, "working_directory", "cwd"), "beforeShellExecution": named(Shell, "cwd", "cwd"), "beforeReadFile": named(Read, "file_path", "path"),
			"Read": named(Read, "file_path", "path", "target_file", "path"), "Write": named(Write, "file_path", "path"), "Edit": named(Write, "file_path", "path"),
			"StrReplace": named(Write, "file_path", "path"), "TabWrite": named(Write, "file_path", "path"), "TabRead": named(Read, "file_path", "path"),
			"Delete": named(Delete, "file_path", "path", "target_file", "path"), "Grep": named(Search, "pattern", "query"), "Glob": named(Search, "glob_pattern", "query"),
			"WebFetch": named(Fetch), "WebSearch": named(Search, "search_term", "query"), "Task": named(Spawn),
		},
	},
	{
		Agent: "copilot-cli", Proven: true, Since: "1.0.0", Events: claudeEvents,
		Hooks: []string{"PreToolUse", "PostToolUse", "SessionStart", "SessionEnd"},
		Unit:  time.Second, Limit: time.Hour, words: wordsCopilot, form: formBash, Transcript: copilotTranscript,
		Tools: both(claudeTools, map[string]Tool{ // it reports some of its tools by the names that Claude Code has for them
			"bash": named(Shell), "powershell": named(Shell), "view": named(Read), "create": named(Write), "edit": named(Write), "str_replace_editor": named(Write),
			"apply_patch": named(Write, "input", "patch"), "grep": named(Search, "pattern", "query"), "rg": named(Search, "pattern", "query"), "glob": named(Search, "pattern", "query"),
			"web_fetch": named(Fetch), "web_search": named(Search), "task": named(Spawn),
		}),
	},
	{
		Agent: "gemini", Proven: true, Since: "0.26.0",
		Events: map[string]Kind{"BeforeTool": Before, "AfterTool": After, "SessionStart": Start, "SessionEnd": End},
		Hooks:  []string{"BeforeTool", "AfterTool", "SessionStart", "SessionEnd"},
		Unit:   time.Millisecond, Limit: time.Hour, words: wordsGemini, form: formGroup,
		Tools: geminiTools("dir_path"), Transcript: geminiTranscript,
		Unseen: []string{"anything in a folder that Gemini CLI does not trust: it runs no hooks there"},
	},
	{
		// It goes on after a minute without an answer, whatever the entry says.
		Agent: "qwen", Proven: true, Since: "0.24.4", Events: claudeEvents, MCP: "mcp__",
		Hooks: []string{"PreToolUse", "PostToolUse", "PostToolUseFailure", "SessionStart", "SessionEnd"},
		Unit:  time.Second, Limit: 50 * time.Second, words: wordsClaude, form: formGroup, fixed: true,
		Tools: geminiTools("directory"), Transcript: qwenTranscript,
	},
	{
		Agent: "opencode", Proven: true, Since: "1.0.0", Events: claudeEvents,
		Hooks: []string{"PreToolUse", "PostToolUse"},
		Unit:  time.Second, Limit: time.Hour, Blocks: true, words: wordsPlain, form: formPlugin, Transcript: opencodeTranscript,
		Tools: map[string]Tool{
			"bash": named(Shell, "workdir", "cwd"), "read": named(Read, "filePath", "path"), "list": named(Read),
			"write": named(Write, "filePath", "path"), "edit": named(Write, "filePath", "path"), "multiedit": named(Write, "filePath", "path"),
			"apply_patch": named(Write, "patchText", "patch"), "patch": named(Write, "patchText", "patch"),
			"grep": named(Search, "pattern", "query"), "glob": named(Search, "pattern", "query"),
			"webfetch": named(Fetch), "websearch": named(Search), "codesearch": named(Search), "task": named(Spawn),
		},
	},
	{
		Agent: "crush", Proven: true, Since: "0.64.0", said: "event", Events: map[string]Kind{"PreToolUse": Before}, Hooks: []string{"PreToolUse"},
		Unit: time.Second, Limit: time.Hour, words: wordsPlain, form: formLine, fixed: true,
		Tools: map[string]Tool{
			"bash": named(Shell, "working_dir", "cwd"), "view": named(Read, "file_path", "path"), "ls": named(Read),
			"write": named(Write, "file_path", "path"), "edit": named(Write, "file_path", "path"), "multiedit": named(Write, "file_path", "path"),
			"grep": named(Search, "pattern", "query"), "glob": named(Search, "pattern", "query"), "web_search": named(Search), "sourcegraph": named(Search),
			"fetch": named(Fetch), "web_fetch": named(Fetch), "agentic_fetch": named(Fetch), "download": named(Write, "file_path", "path"), "agent": named(Spawn),
		},
		Unseen: []string{"what its subagents do"},
	},

	// What follows is from the documentation of the agents, of goose from its source.
	{
		// How long it waits for a hook is not said.
		Agent: "windsurf", said: windsurfName,
		Events: map[string]Kind{
			"pre_run_command": Before, "pre_write_code": Before, "pre_read_code": Before, "pre_mcp_tool_use": Before,
			"post_run_command": After, "post_write_code": After, "post_read_code": After, "post_mcp_tool_use": After,
		},
		Hooks: []string{"pre_run_command", "pre_write_code", "pre_read_code", "pre_mcp_tool_use", "post_run_command", "post_mcp_tool_use"},
		Limit: 5 * time.Second, words: wordsPlain, form: formLine, fixed: true,
		Tools: map[string]Tool{
			"run_command": named(Shell, "command_line", "command", "cwd", "cwd"), "write_code": named(Write, "file_path", "path"), "read_code": named(Read, "file_path", "path"),
		},
		Unseen: []string{"searches, fetches and the browser"},
	},
	{
		Agent: "goose", Since: "1.48.0", said: "event", Events: claudeEvents,
		Hooks: []string{"PreToolUse", "PostToolUse", "PostToolUseFailure", "SessionStart", "SessionEnd"},
		Unit:  time.Second, Limit: time.Hour, Blocks: true, words: wordsPlain, form: formEvery, fixed: true,
		Tools: both(gooseTools(""), gooseTools("developer__")),
	},
	{
		// A hook may run for a minute, unless its entry says more; whether it does then is not known.
		Agent: "droid", Events: claudeEvents, MCP: "mcp__",
		Hooks: []string{"PreToolUse", "PostToolUse", "SessionStart", "SessionEnd"},
		Unit:  time.Second, Limit: 50 * time.Second, words: wordsPlain, form: formGroup, fixed: true,
		Tools: both(claudeTools, map[string]Tool{
			"Execute": named(Shell), "Create": named(Write, "file_path", "path"), "ApplyPatch": named(Write, "input", "patch"),
			"LS": named(Read, "directory_path", "path"), "Glob": named(Search, "folder", "path"), "FetchUrl": named(Fetch),
		}),
		Unseen: []string{"anything while there is a ~/.factory/hooks.json: Droid may then read no hooks in its settings"},
	},
	{
		// Its events lack the folder, and it says nothing of how long it waits.
		Agent: "devin", Events: claudeEvents, MCP: "mcp__",
		Hooks: []string{"PreToolUse", "PostToolUse", "SessionStart", "SessionEnd"},
		Unit:  time.Second, Limit: 50 * time.Second, words: wordsPlain, form: formEvery, fixed: true,
		Tools: map[string]Tool{
			"exec": named(Shell), "read": named(Read, "file_path", "path"), "notebook_read": named(Read, "notebook_path", "path"),
			"write": named(Write, "file_path", "path"), "edit": named(Write, "file_path", "path"), "notebook_edit": named(Write, "notebook_path", "path"),
			"grep": named(Search, "pattern", "query"), "glob": named(Search, "pattern", "query"),
			"web_fetch": named(Fetch), "webfetch": named(Fetch), "web_search": named(Search), "run_subagent": named(Spawn, "task", "prompt"),
		},
		Unseen: []string{"what it does in its cloud", "anything in a workspace of Devin Desktop that is restricted: it runs no hooks there"},
	},
}

// gooseTools are the tools of Goose's extension for developers, whose names may have a prefix.
func gooseTools(prefix string) map[string]Tool {
	return map[string]Tool{
		prefix + "shell": named(Shell), prefix + "write": named(Write), prefix + "edit": named(Write), prefix + "tree": named(Read), prefix + "web_fetch": named(Fetch),
	}
}

// geminiTools are the tools of Gemini CLI and its kin. folder is the member with the folder of a command:
// what else a model calls it, the agent ignores.
func geminiTools(folder string) map[string]Tool {
	return map[string]Tool{
		"run_shell_command": named(Shell, folder, "cwd"),
		"read_file":         named(Read, "file_path", "path", "absolute_path", "path"), "list_directory": named(Read, "dir_path", "path"),
		"write_file": named(Write, "file_path", "path"), "replace": named(Write, "file_path", "path"), "edit": named(Write, "file_path", "path"),
		"glob": named(Search, "pattern", "query"), "grep_search": named(Search, "pattern", "query"), "search_file_content": named(Search, "pattern", "query"),
		"web_fetch": named(Fetch), "google_web_search": named(Search), "web_search": named(Search),
	}
}
