package agentconf

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// kind is an agent that can be wrapped, and what has to be known of it besides its files.
type kind struct {
	Agent
	commands string // programs by which it is detected; none for an agent that --agent-type must name
	// application is set for an agent with windows, and has the names of its application: its commands
	// are launchers that exit at once, and the servers are started by one of these programs, which
	// they have launched or which runs already.
	application string
	bundles     []bundle // its applications on macOS

	raises  []limit          // settings of an entry that are raised so that the agent waits longer
	waits   time.Duration    // how long it waits for the result of a call, if no setting in raises determines it
	merges  merging          // how it merges entries of the same name, if it does
	hooks   func(Env) string // file with the user's hooks; nil if none can be written
	remote  remoteKind       // how it writes entries with an address
	retrust string           // warning that it takes a rewritten entry for a new one, which the person has to trust
}

// bundle is an application on macOS: its name, and the identifier that `open -b` takes.
type bundle struct{ name, id string }

// merging describes an agent that merges all entries of the same name, member by member. With such
// an agent, a project can add to a server of the user.
type merging struct {
	servers        []string // path of the servers in a file; nil for an agent that does not merge
	env            string   // member with a server's variables
	strongestFirst bool     // order of the sources
}

const (
	callSeconds  = int(callAllowed / time.Second)
	callMillis   = int(callAllowed / time.Millisecond)
	startSeconds = int(startAllowed / time.Second)

	codeEditors = "code code-insiders code-oss codium codium-insiders"
)

var kinds = []kind{
	{
		Agent: claudeCode{}, commands: "claude claude-code", raises: []limit{{"timeout", callMillis, true}},
		hooks:  func(env Env) string { return filepath.Join(claudeCode{}.folder(env), "settings.json") },
		remote: remoteKind{types: true},
	},
	{
		Agent: claudeDesktop{}, commands: "claude-desktop", application: "claude-desktop", waits: time.Minute,
		bundles: []bundle{{"Claude", "com.anthropic.claudefordesktop"}},
	},
	{
		Agent: cursor{}, commands: "cursor cursor-agent", application: "cursor",
		bundles: []bundle{{"Cursor", "com.todesktop.230313mzl4w4u92"}, {"Cursor Nightly", "co.anysphere.cursor.nightly"}},
		hooks:   func(env Env) string { return filepath.Join(env.Home, ".cursor", "hooks.json") },
		retrust: "Cursor approves a server by its entry: each one is new or disabled until you approve it, when its entry is rewritten and again when it is restored (cursor-agent: `mcp enable NAME`)",
	},
	{
		Agent: vscode{}, commands: codeEditors, application: codeEditors, waits: callAllowed, // no limit is known
		bundles: []bundle{
			{"Visual Studio Code", "com.microsoft.VSCode"},
			{"Visual Studio Code - Insiders", "com.microsoft.VSCodeInsiders"},
			{"VSCodium", "com.vscodium"},
		},
		retrust: "VS Code trusts a server by its entry: it asks whether to trust each one when its entry is rewritten, and again when it is restored",
	},
	{
		Agent: windsurf{}, commands: "windsurf windsurf-next", application: "windsurf windsurf-next",
		bundles: []bundle{{"Windsurf", "com.exafunction.windsurf"}, {"Windsurf - Next", "com.exafunction.windsurf-next"}},
		hooks:   func(env Env) string { return filepath.Join(filepath.Dir(windsurf{}.Files(env)[0]), "hooks.json") },
	},
	{
		Agent: zed{}, commands: "zed zeditor zed-editor zed-preview zed-nightly zed-dev", application: "zed-editor zed zeditor",
		bundles: []bundle{{"Zed", "dev.zed.Zed"}, {"Zed Preview", "dev.zed.Zed-Preview"}, {"Zed Nightly", "dev.zed.Zed-Nightly"}},
		raises:  []limit{{"timeout", callSeconds, false}},
	},
	{Agent: gemini{}, commands: "gemini", raises: []limit{{"timeout", callMillis, true}}, waits: 10 * time.Minute, hooks: gemini{}.userFile, remote: geminiRemotes},
	{Agent: qwen{}, commands: "qwen", raises: []limit{{"timeout", callMillis, true}}, waits: 10 * time.Minute, hooks: qwen{}.userFile, remote: geminiRemotes},
	{
		Agent: opencode{}, commands: "opencode", raises: []limit{{"timeout", callMillis, false}},
		merges: merging{opencodeServers, "environment", true}, remote: remoteKind{local: "local"},
		hooks: func(env Env) string { return filepath.Join(opencode{}.folder(env), "plugins", "thoughtgate.js") },
	},
	{
		Agent: copilot{}, commands: "copilot", raises: []limit{{"timeout", callMillis, false}},
		hooks: func(env Env) string { return filepath.Join(copilot{}.folder(env), "hooks", "thoughtgate.json") },
	},
	{Agent: cline{}, commands: "cline", raises: []limit{{"timeout", callSeconds, false}}, waits: time.Minute, remote: remoteKind{types: true}}, // an entry in the inner form keeps its limit
	{
		Agent: codex{}, commands: "codex",
		hooks:  func(env Env) string { return filepath.Join(codex{}.folder(env), "hooks.json") },
		raises: []limit{{"startup_timeout_sec", startSeconds, false}, {"tool_timeout_sec", callSeconds, false}},
		merges: merging{[]string{codexKey}, "env", false},
	},
	{
		Agent: goose{}, commands: "goose", raises: []limit{{"timeout", callSeconds, false}}, remote: remoteKind{types: true},
		hooks: func(env Env) string {
			return filepath.Join(env.Home, ".agents", "plugins", "thoughtgate", hooksKey, "hooks.json")
		},
	},
	{Agent: crush{}, commands: "crush", merges: merging{crushServers, "env", true}, hooks: crush{}.userFile, remote: remoteKind{types: true}},
	{
		Agent: droid{}, commands: "droid", raises: []limit{{"timeoutMs", callMillis, false}},
		hooks: func(env Env) string { return filepath.Join(droid{}.folder(env), "settings.json") },
	},
	{Agent: kiro{}, commands: "kiro-cli"},
	{Agent: amp{}, commands: "amp"},
	{Agent: antigravity{}, commands: "agy"},
	{Agent: devin{}, commands: "devin", hooks: devin{}.userFile},
	{Agent: custom{}},
}

// kindOf returns the row of the agent with the given type. Without such an agent it is empty.
func kindOf(name string) kind {
	for _, k := range kinds {
		if k.Name() == name {
			return k
		}
	}
	return kind{}
}

// Names returns the agent types that can be wrapped.
func Names() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name())
	}
	return names
}

// AgentFor returns the agent of the given type. If name is empty, it detects the type from the
// command.
func AgentFor(name string, command []string) (Agent, error) {
	if name == "" {
		var ok bool
		if name, ok = Detect(command); !ok {
			program := "nothing"
			if len(command) > 0 {
				program = fmt.Sprintf("%q", command[0])
			}
			return nil, fmt.Errorf("can't tell which agent %s is; use --agent-type with one of %s (custom needs --config-path)",
				program, strings.Join(Names(), ", "))
		}
	}
	if k := kindOf(name); k.Agent != nil {
		return k.Agent, nil
	}
	return nil, fmt.Errorf("unsupported agent type %q; use one of %s. "+
		"For any JSON, TOML or YAML file that lists its servers under %s, use --agent-type custom --config-path FILE",
		name, strings.Join(Names(), ", "), strings.Join(customKeys, " or "))
}

// Known returns the paths at which any known agent looks for files, whether they exist or not.
func Known(env Env) []string {
	var paths []string
	for _, k := range kinds {
		paths = append(paths, Files(k.Agent, env)...)
	}
	return paths
}

// Windowed reports whether agents of a type are applications with windows.
func Windowed(agent string) bool { return kindOf(agent).application != "" }

// CallTimeout returns how long an agent of the type waits for the result of a call once its
// settings, if it has any for this, are raised. It returns 0 if that is unknown.
func CallTimeout(agent string) time.Duration {
	switch k := kindOf(agent); {
	case k.waits > 0:
		return k.waits
	case len(k.raises) > 0:
		return callAllowed
	}
	return 0
}

// runs reports whether base is the name of one of the agent's programs with windows.
func (k kind) runs(base string) bool { return slices.Contains(strings.Fields(k.application), base) }
