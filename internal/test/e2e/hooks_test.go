package e2e

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hookRules deny what an agent writes with a tool of its own, and ask about what can't be undone.
const hookRules = `schema: 1
governance:
  defaults: {action: forward}
  rules:
    - {match: write, source: agent, action: deny, description: "nothing is written here"}
    - {when: destroys, source: agent, action: approve, undo: true}
pins: {mode: off}
`

// hookedAgent is a real agent that runs hooks, and how it is made to use tools of its own without
// asking anybody.
type hookedAgent struct {
	program string // name in realAgents
	kind    string // type of the agent; empty if it is the same
	args    []string
	env     []string // @model is the address of the model
	// shell and write return uses of its tools that run a command and make a file.
	shell, write func(text string) toolUse
	files        map[string]string // what it needs to start
	hooks        string            // its file with hooks; it is made for them if it isn't among files
	wraps        [][]string        // flags of the wraps that are tried besides protect
	limit        time.Duration     // how long it is made to wait for an answer; 0 for an hour
	// silence has the agent run no hooks, as a project or a person may; nil if its transcripts are
	// not compared.
	silence func(a *hookedAgent, h *fixture)
}

var hookedAgents = []hookedAgent{
	{
		program: "claude", kind: "claude-code", args: []string{"-p", "--allowedTools", "Bash,Write", "--", "hello"},
		env: []string{"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "ANTHROPIC_BASE_URL=@model", "ANTHROPIC_API_KEY=dummy"},
		shell: func(command string) toolUse {
			return toolUse{name: "Bash", input: map[string]any{"command": command, "description": "says hello"}}
		},
		write: func(path string) toolUse {
			return toolUse{name: "Write", input: map[string]any{"file_path": path, "content": "hello"}}
		},
		files: map[string]string{"home/.claude/settings.json": "{\n  \"cleanupPeriodDays\": 30,\n  \"hooks\": {}\n}\n"},
		hooks: "home/.claude/settings.json", wraps: [][]string{nil, {"--rewrite"}},
		silence: func(_ *hookedAgent, h *fixture) {
			h.write("work/.claude/settings.json", `{"disableAllHooks": true}`, 0o600)
		},
	},
	{
		program: "gemini", args: []string{"--approval-mode", "yolo", "-m", "gemini-2.5-flash", "-p", "hello"},
		env: []string{"GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_API_KEY=dummy", "GOOGLE_GEMINI_BASE_URL=@model"},
		shell: func(command string) toolUse {
			return toolUse{name: "run_shell_command", input: map[string]any{"command": command}}
		},
		write: func(path string) toolUse {
			return toolUse{name: "write_file", input: map[string]any{"file_path": path, "content": "hello"}}
		},
		files: map[string]string{"home/.gemini/settings.json": "{\n  \"security\": {\"auth\": {\"selectedType\": \"gemini-api-key\"}} }"},
		hooks: "home/.gemini/settings.json",
		silence: func(_ *hookedAgent, h *fixture) {
			h.write("work/.gemini/settings.json", `{"hooksConfig": {"enabled": false}}`, 0o600)
		},
	},
	{
		program: "qwen", args: []string{"--approval-mode", "yolo", "--auth-type", "openai", "--openai-api-key", "k", "--openai-base-url", "@model/v1", "-m", "m", "-p", "hello"},
		shell: func(command string) toolUse {
			return toolUse{name: "run_shell_command", input: map[string]any{"command": command, "description": "says hello", "is_background": false}}
		},
		write: func(path string) toolUse {
			return toolUse{name: "write_file", input: map[string]any{"file_path": path, "content": "hello"}}
		},
		files: map[string]string{"home/.qwen/settings.json": "{\n  \"telemetry\": {\"enabled\": false} }"},
		hooks: "home/.qwen/settings.json", limit: 50 * time.Second,
		silence: func(_ *hookedAgent, h *fixture) {
			h.write("work/.qwen/settings.json", `{"disableAllHooks": true}`, 0o600)
		},
	},
	{
		// A person trusts hooks in a dialogue, for which the flag stands here.
		program: "codex", args: []string{"exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust",
			"-c", `model_providers.x={name="x",base_url="@model/v1",wire_api="responses",request_max_retries=0,stream_max_retries=0}`, "-c", "model_provider=x", "-m", "gpt-5.5", "hello"},
		shell: func(command string) toolUse {
			return toolUse{name: "exec_command", input: map[string]any{"cmd": command}}
		},
		write: func(path string) toolUse {
			return toolUse{name: "apply_patch", input: "*** Begin Patch\n*** Add File: " + path + "\n+hello\n*** End Patch\n"}
		},
		hooks: "home/.codex/hooks.json",
		silence: func(a *hookedAgent, _ *fixture) {
			trusts := func(arg string) bool { return arg == "--dangerously-bypass-hook-trust" }
			a.args = slices.DeleteFunc(slices.Clone(a.args), trusts)
		},
	},
	{
		program: "copilot", kind: "copilot-cli", args: []string{"--allow-all-tools", "--allow-all-paths", "-p", "hello"},
		env: []string{"COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false", "COPILOT_MODEL=m", "COPILOT_PROVIDER_BASE_URL=@model/v1"},
		shell: func(command string) toolUse {
			return toolUse{name: "bash", input: map[string]any{"command": command, "description": "says hello"}}
		},
		write: func(path string) toolUse {
			return toolUse{name: "create", input: map[string]any{"path": path, "file_text": "hello"}}
		},
		hooks: "home/.copilot/hooks/thoughtgate.json",
		silence: func(_ *hookedAgent, h *fixture) {
			// It heeds no file that turns hooks off. Its entry is gone while the daemon can't restore it.
			if err := h.daemon.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				h.t.Fatal(err)
			}
			if err := os.Remove(h.path("home/.copilot/hooks/thoughtgate.json")); err != nil {
				h.t.Fatal(err)
			}
		},
	},
	{
		program: "opencode", args: []string{"run", "--model", "x/m", "hello"},
		// Beside a plugin it installs a package, and waits until that has failed.
		env: []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "NPM_CONFIG_FETCH_RETRIES=0", `OPENCODE_CONFIG_CONTENT={"provider": {"x": {
			"npm": "@ai-sdk/openai-compatible", "name": "x", "options": {"baseURL": "@model/v1", "apiKey": "k"}, "models": {"m": {"name": "m"}}}}}`},
		shell: func(command string) toolUse {
			return toolUse{name: "bash", input: map[string]any{"command": command, "description": "says hello"}}
		},
		write: func(path string) toolUse {
			return toolUse{name: "write", input: map[string]any{"filePath": path, "content": "hello"}}
		},
		hooks:   "config/opencode/plugins/thoughtgate.js",
		silence: func(a *hookedAgent, _ *fixture) { a.args = append([]string{"--pure"}, a.args...) },
	},
	{
		program: "crush", args: []string{"run", "--quiet", "hello"}, env: slices.Concat(crushEnv, []string{"MODEL=@model/v1"}),
		shell: func(command string) toolUse {
			return toolUse{name: "bash", input: map[string]any{"command": command, "description": "says hello"}}
		},
		write: func(path string) toolUse {
			return toolUse{name: "write", input: map[string]any{"file_path": path, "content": "hello"}}
		},
		files: map[string]string{"config/crush/crush.json": crushConfig},
		hooks: "config/crush/crush.json", wraps: [][]string{nil},
	},
}

// TestHooks has agents, as their makers publish them, use tools of their own: one that the rules
// forward, one that they deny, some that wait for a person or a daemon, and the first two again
// without a daemon. The contracts are proven by it.
func TestHooks(t *testing.T) {
	for turn, a := range hookedAgents {
		a.kind = cmp.Or(a.kind, a.program)
		if !*everyWay && turn%2 == 0 {
			a.wraps = nil // it is the turn of the others
		}
		t.Run(a.program, func(t *testing.T) {
			needProc(t)
			program := a.installed(t)
			t.Parallel()
			h := newFixture(t)
			h.rules(hookRules)
			h.launcher(a.program, program)
			a.run(h)
		})
	}
}

// launcher writes a script that starts an agent under its name.
func (h *fixture) launcher(name, program string) {
	start := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", program)
	if strings.HasSuffix(program, ".js") {
		start = strings.Replace(start, "exec ", "exec node ", 1)
	}
	h.write("bin/"+name, start, 0o700)
}

func (a hookedAgent) run(h *fixture) {
	for name, text := range a.files {
		h.write(name, text, 0o600)
	}
	unchanged := func(when string) {
		if raw, err := os.ReadFile(h.path(a.hooks)); string(raw) != a.files[a.hooks] || err != nil && a.files[a.hooks] != "" {
			h.t.Errorf("%s, %s is\n%s\n%v", when, a.hooks, raw, err)
		}
	}
	h.startDaemon()
	for i, flags := range a.wraps {
		name := fmt.Sprint("wrapped", i)
		told := a.use(h, slices.Concat([]string{"tgctl", "wrap"}, flags, []string{"--"}), a.shell("echo hello > "+h.path("work", name+"-ran")), a.write(h.path("work", name+"-wrote")))
		h.wantUses(told, name, true)
		unchanged("after a wrap")
	}
	written := a.protect(h)
	waiting, check := a.waiting(h)
	last := a.shell("echo hello > " + h.path("work", "alone-ran"))
	last.before = h.stopDaemon
	uses := slices.Concat([]toolUse{a.shell("echo hello > " + h.path("work", "protected-ran")), a.write(h.path("work", "protected-wrote"))}, waiting,
		[]toolUse{last, a.write(h.path("work", "alone-wrote"))})
	told := a.use(h, nil, uses...)
	h.wantUses(told, "protected", true)
	h.wantUses(told, "alone", false)
	ran := check(told)
	h.startDaemon()
	h.write(a.hooks, written, 0o600)
	h.tgctl("protect", "--yes", "--unproven", a.kind)
	a.heals(h)
	h.tgctl("unprotect", a.kind)
	unchanged("after unprotect")
	log, ways := h.log(), 1+len(a.wraps)
	if forwarded, denied := count(log, "call", "shell", "forward"), count(log, "call", "write", "deny"); forwarded != ways+ran || denied != ways {
		h.t.Errorf("%d commands and %d denied writes on record, want %d and %d: %+v", forwarded, denied, ways+ran, ways, log)
	}
}

// heals removes the entries from the agent's file, and fails unless the daemon restores them.
func (a hookedAgent) heals(h *fixture) {
	h.t.Helper()
	entries := strings.Count(h.read(a.hooks), "tg-shim")
	var err error
	if was, ok := a.files[a.hooks]; ok {
		h.write(a.hooks, was, 0o600)
	} else {
		err = os.Remove(h.path(a.hooks))
	}
	var after []byte
	if err != nil || !eventually(func() bool {
		h.tgctl("status") // which has the files checked
		after, err = os.ReadFile(h.path(a.hooks))
		return strings.Count(string(after), "tg-shim") == entries
	}, patience) {
		h.t.Errorf("%s is not restored: %v\n%s", a.hooks, err, after)
	}
}

// wantUses fails unless a command has run, or not, and a file has not been written, and the model
// has been told why.
func (h *fixture) wantUses(told, name string, judged bool) {
	h.t.Helper()
	_, noRun := os.Stat(h.path("work", name+"-ran"))
	_, noWrite := os.Stat(h.path("work", name+"-wrote"))
	why := map[bool]string{true: "nothing is written here", false: "tgctl daemon start"}[judged]
	if (noRun == nil) != judged || noWrite == nil || !strings.Contains(told, why) {
		h.t.Errorf("%s: ran a command: %v, wrote a file: %v; its model was told %s", name, noRun == nil, noWrite == nil, told)
	}
}

// use runs the agent with a model that uses tools, behind other words if there are some, and
// returns what the model was told.
func (a hookedAgent) use(h *fixture, before []string, uses ...toolUse) string {
	h.t.Helper()
	model := newToolUser(h.t, uses...)
	var words [2][]string
	for i, list := range [][]string{slices.Concat(before, []string{a.program}, a.args), a.env} {
		for _, word := range list {
			words[i] = append(words[i], strings.ReplaceAll(word, "@model", model.URL))
		}
	}
	cmd := exec.Command(filepath.Join(h.bin, words[0][0]), words[0][1:]...)
	cmd.Env = slices.Concat(h.env, offline, words[1])
	cmd.Dir, cmd.WaitDelay = h.path("work"), 5*time.Second
	out := &watched{}
	cmd.Stdout, cmd.Stderr = out, out
	p := h.start(cmd)
	late := time.AfterFunc(agentPatience+*hold, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	<-p.ended
	told, over := model.result()
	if !over {
		h.t.Errorf("%s did not come to an end:\n%s\nits model was told %s", a.program, out, told)
	}
	h.t.Logf("%s", out)
	return told
}
