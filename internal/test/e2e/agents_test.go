package e2e

import (
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// realAgent is an agent as its makers publish it, in a version that is pinned,
// and what has it start its servers without an account.
type realAgent struct {
	name    string
	program string   // below agents/node_modules; ARCH is x64 or arm64
	args    []string // @model is one that answers at once
	env     []string // likewise
	says    string   // what it is told on stdin, a line at a time
	until   string   // its input ends when it has said this
	// arrange writes what the agent reads, and returns the files.
	arrange func(h *fixture) []string
	writes  bool // it writes the file itself, which is thus not what it was
	told    bool // it can be told for one start, which leaves its files alone
}

var realAgents = []realAgent{
	{
		name: "claude", program: "@anthropic-ai/claude-code-linux-ARCH/claude", args: []string{"mcp", "list"},
		env:     []string{"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1"},
		arrange: func(h *fixture) []string { return []string{h.claudeList()} }, writes: true,
	},
	{
		name: "codex", program: "@openai/codex-linux-ARCH/vendor/*/bin/codex", args: []string{"app-server"},
		says: `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"test","version":"1"}}}` + "\n" +
			`{"jsonrpc":"2.0","method":"initialized"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"mcpServerStatus/list","params":{}}` + "\n",
		until: `"id":2`, arrange: (*fixture).codexConfig,
	},
	{
		name: "codex", program: "@openai/codex-linux-ARCH/vendor/*/bin/codex", args: []string{"exec", "--skip-git-repo-check",
			"-c", `model_providers.x={name="x",base_url="@model",wire_api="responses",request_max_retries=0,stream_max_retries=0}`, "-c", "model_provider=x", "hello"},
		arrange: (*fixture).codexConfig, told: true,
	},
	{
		name: "gemini", program: "@google/gemini-cli/bundle/gemini.js", args: []string{"mcp", "list"},
		env: []string{"GEMINI_CLI_TRUST_WORKSPACE=true"},
		arrange: func(h *fixture) []string {
			return []string{h.listed("home/.gemini/settings.json", "one"), h.listed("work/.gemini/settings.json", "two")}
		},
	},
	{
		name: "qwen", program: "@qwen-code/qwen-code/cli-entry.js", args: []string{"mcp", "list"},
		arrange: func(h *fixture) []string {
			return []string{h.listed("home/.qwen/settings.json", "one"), h.listed("work/.qwen/settings.json", "two")}
		}, writes: true,
	},
	{
		name: "opencode", program: "opencode-linux-ARCH/bin/opencode", args: []string{"mcp", "list"},
		env:     []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"},
		arrange: (*fixture).opencodeConfig, told: true,
	},
	{
		name: "copilot", program: "@github/copilot-linux-ARCH/copilot", args: []string{"--allow-all-tools", "-p", "hello"},
		env:     []string{"COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false", "COPILOT_MODEL=m", "COPILOT_PROVIDER_BASE_URL=@model"},
		arrange: func(h *fixture) []string { return []string{h.listed("home/.copilot/mcp-config.json", "one", "two")} }, told: true,
	},
	{
		name: "crush", program: "@charmland/crush/bin/crush", args: []string{"run", "--quiet", "hello"}, env: slices.Concat(crushEnv, []string{"MODEL=@model"}),
		arrange: func(h *fixture) []string {
			one := h.watchedServer("one")
			server := h.text(map[string]any{"type": "stdio", "command": one.Command, "args": one.Args, "env": one.Env})
			return []string{h.write("config/crush/crush.json", strings.TrimSuffix(crushConfig, "}")+",\n\"mcp\": { \"one\" :"+server+"}}", 0o600)}
		},
	},
}

// Crush takes its model from its settings only, in which it puts variables in. It fetches no list of models.
const crushConfig = `{ "providers": {"x": {"type": "openai-compat", "base_url": "$MODEL", "api_key": "k", "models": [{"id": "m", "name": "m", "context_window": 100000, "default_max_tokens": 1000}]}},
	"models": {"large": {"provider": "x", "model": "m"}, "small": {"provider": "x", "model": "m"}} }`

var crushEnv = []string{"CRUSH_DISABLE_PROVIDER_AUTO_UPDATE=1", "CRUSH_DISABLE_DEFAULT_PROVIDERS=1", "CRUSH_DISABLE_METRICS=1"}

// offline keeps agents from asking the world for news: nobody listens there.
var offline = []string{
	"HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9", "ALL_PROXY=http://127.0.0.1:9",
	"http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9", "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
}

// agentPatience is how long an agent may take, of which it needs a second or two
// where nothing else runs.
const agentPatience = 5 * time.Minute

// everyWay has agents of others governed in every way that there is.
var everyWay = flag.Bool("ways", false, "have each agent of others governed in every way; otherwise each in one, in turn")

// otherTurn is why a way is skipped without everyWay.
const otherTurn = "it is the turn of other agents with this; make test-all has all"

// TestRealAgents has agents of others start their servers under wrap: each
// through the shim, and with their files afterwards as they were.
func TestRealAgents(t *testing.T) {
	for turn, a := range realAgents {
		ways := [][]string{nil}
		if a.told {
			ways = append(ways, []string{"--rewrite"})
		}
		for way, flags := range ways {
			t.Run(strings.Join(append([]string{a.name, a.args[0]}, flags...), " "), func(t *testing.T) {
				if !*everyWay && way != turn%len(ways) {
					t.Skip(otherTurn)
				}
				needProc(t)
				program := a.installed(t)
				t.Parallel()
				a.run(newFixture(t), program, flags)
			})
		}
	}
}

// installed returns the agent's program, and skips the test where there is none.
func (a realAgent) installed(t *testing.T) string {
	t.Helper()
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	pattern, err := filepath.Abs(filepath.Join("agents", "node_modules", strings.ReplaceAll(a.program, "ARCH", arch)))
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Skipf("%s is not installed for %s: `make agents` installs those agents that there are for it", a.name, runtime.GOARCH)
	}
	if _, err := exec.LookPath("node"); err != nil && strings.HasSuffix(a.program, ".js") {
		t.Skipf("node is not installed, and %s needs it", a.name)
	}
	return found[0]
}

func (a realAgent) run(h *fixture, program string, flags []string) {
	h.t.Helper()
	h.rules("schema: 1\ngovernance:\n  defaults: {action: forward}\n")
	h.launcher(a.name, program)
	files := a.arrange(h)
	before := map[string]string{}
	for _, file := range files {
		before[file] = h.read(strings.TrimPrefix(file, h.root))
	}
	h.startDaemon()
	out := a.wrapped(h, flags)
	log := h.log()
	started := func(l logged) bool { return l.Kind == "attach" && l.Server == "one" }
	spoken := func(l logged) bool { return l.Server == "one" && l.Method != "" }
	if !slices.ContainsFunc(log, started) || !slices.ContainsFunc(log, spoken) {
		if strings.Contains(out, "can't tell which agent") {
			h.t.Skipf("%s cannot be wrapped yet", a.name)
		}
		h.t.Fatalf("no server was started through the shim\n%s\n%+v", out, log)
	}
	for program := range strings.Lines(h.read("parents")) {
		if shim := filepath.Join(h.bin, "tg-shim"); strings.TrimSpace(program) != shim {
			h.t.Errorf("a server was started by %s", program)
		}
	}
	for _, file := range files {
		after := h.read(strings.TrimPrefix(file, h.root))
		if !a.writes && after != before[file] {
			h.t.Errorf("%s\n is %s\nwas %s", file, after, before[file])
		}
		if strings.Contains(after, "tg-shim") || strings.Contains(after, "THOUGHTGATE") {
			h.t.Errorf("our words are left in %s:\n%s", file, after)
		}
	}
	if left, _ := filepath.Glob(h.path("run/thoughtgate/sessions/*")); len(left) > 0 {
		h.t.Errorf("left behind: %q", left)
	}
}

// wrapped runs the agent under tgctl to its end, and returns what both said.
func (a realAgent) wrapped(h *fixture, flags []string) string {
	h.t.Helper()
	provider := httptest.NewServer(http.HandlerFunc(answerAtOnce))
	defer provider.Close()
	at := func(words []string) []string {
		words = slices.Clone(words)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "@model", provider.URL+"/v1")
		}
		return words
	}
	cmd := exec.Command(filepath.Join(h.bin, "tgctl"), slices.Concat([]string{"wrap"}, flags, []string{"--", a.name}, at(a.args))...)
	cmd.Env = slices.Concat(h.env, offline, at(a.env))
	cmd.Dir = h.path("work")
	cmd.WaitDelay = 5 * time.Second
	said := &watched{until: []byte(a.until), seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = said, said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	p := h.start(cmd)
	late := time.AfterFunc(agentPatience, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer late.Stop()
	if _, err := io.WriteString(stdin, a.says); err == nil && a.until != "" {
		select {
		case <-said.seen:
		case <-p.ended:
		case <-time.After(agentPatience):
		}
	}
	stdin.Close()
	<-p.ended
	if !late.Stop() {
		h.t.Errorf("%s does not end", a.name)
	}
	return said.String()
}
