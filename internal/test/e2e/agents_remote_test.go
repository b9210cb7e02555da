package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// cloudAgent is a real agent whose own file names servers behind an address.
type cloudAgent struct {
	program string // name in hookedAgents
	// config is its file, in which @far and @old are addresses: Streamable HTTP, and HTTP+SSE.
	name, config string
	tool         string              // how its model names a tool of a server: @server and @tool
	args         map[string][]string // replaces one of its arguments by others
	env          []string            // besides that of the hooked agent
	wraps        [][]string          // flags of the wraps that are tried besides protect
	servers      []string            // far, old, and what else config names
	sends        map[string]string   // headers that arrive with each request to far
	writes       bool                // it writes the file itself; its entries stay what they were
}

// cloudKey and cloudToken are values of variables in the agent's environment.
const (
	cloudKey   = "key-of-the-agent"
	cloudToken = "token-of-the-agent"
)

var cloudAgents = []cloudAgent{
	{
		program: "claude", name: "home/.claude.json", tool: "mcp__@server__@tool", writes: true, servers: []string{"far", "old"},
		config: `{
  "numStartups": 0,
  "mcpServers": {
    "far": {
      "type": "http",
      "url": "@far",
      "headers": {
        "Authorization": "Bearer ${TOKEN}",
        "X-Key": "${KEY}",
        "X-Default": "${NOBODY_SETS_IT:-fallback}"
      }
    },
    "old": {
      "type": "sse",
      "url": "@old",
      "headers": {
        "X-Key": "${KEY}"
      }
    }
  }
}`,
		args:  map[string][]string{"Bash,Write": {"mcp__far,mcp__old"}},
		wraps: [][]string{nil, {"--rewrite"}},
		sends: map[string]string{"Authorization": "Bearer " + cloudToken, "X-Default": "fallback"},
	},
	{
		program: "codex", name: "home/.codex/config.toml", tool: "mcp__@server/@tool", servers: []string{"far"},
		config: "# by hand\n\n[mcp_servers.far]\nurl = '@far' # ours\nbearer_token_env_var = \"TOKEN\"\n" +
			"http_headers = { \"X-Default\" = \"fallback\" }\nenv_http_headers = { \"X-Key\" = \"KEY\", \"X-Unset\" = \"NOBODY_SETS_IT\" }\nstartup_timeout_sec = 60\n",
		wraps: [][]string{nil, {"--rewrite"}},
		sends: map[string]string{"Authorization": "Bearer " + cloudToken, "X-Default": "fallback", "X-Unset": ""},
	},
	{
		program: "gemini", name: "home/.gemini/settings.json", tool: "mcp_@server_@tool", servers: []string{"far", "old", "typed"},
		config: "{\n  \"security\": {\"auth\": {\"selectedType\": \"gemini-api-key\"}},\n" +
			"\t\"mcpServers\" : { // by hand\n \"far\":  {\"httpUrl\": \"@far\", \"headers\": {\"X-Key\": \"$KEY\", \"Authorization\" :\"Bearer ${TOKEN}\"}, \"timeout\": 60000},\n" +
			"\"old\": {\"url\": \"@old\", \"headers\": {\"X-Key\": \"${KEY}\"}}, \"typed\": {\"url\": \"@far\", \"type\": \"http\", \"headers\": {\"X-Key\": \"${KEY}\", \"Authorization\": \"Bearer $TOKEN\"} }\n} }",
		wraps: [][]string{nil},
		sends: map[string]string{"Authorization": "Bearer " + cloudToken},
	},
	{
		program: "copilot", name: "home/.copilot/mcp-config.json", tool: "@server-@tool", servers: []string{"far", "old"},
		config: "{\n   \"mcpServers\" : {\n\t\t\"far\":  {\"type\": \"http\", \"url\": \"@far\", \"headers\": {\"X-Key\": \"${KEY}\"}, \"tools\": [\"*\"]},\n" +
			"\"old\" :{\"type\": \"sse\", \"url\": \"@old\", \"headers\": {\"X-Key\": \"$KEY\"}, \"tools\": [\"*\"]}\n   }\n}",
		wraps: [][]string{nil, {"--rewrite"}},
	},
	{
		program: "opencode", name: "config/opencode/opencode.json", tool: "@server_@tool", servers: []string{"far"},
		config: "{ \"$schema\": \"https://opencode.ai/config.json\",\n\"mcp\": {\n // by hand\n\"far\": {\"type\": \"remote\", \"url\": \"@far\",\n" +
			"  \"headers\": {\"X-Key\" : \"{env:KEY}\", \"Authorization\": \"Bearer {env:TOKEN}\"}, \"oauth\": false, \"timeout\": 60000}, } }\n",
		wraps: [][]string{nil, {"--rewrite"}},
		sends: map[string]string{"Authorization": "Bearer " + cloudToken},
	},
	{
		// It writes the file in this form, with the version of its settings.
		program: "qwen", name: "home/.qwen/settings.json", tool: "mcp__@server__@tool", servers: []string{"far", "old"},
		config: `{
  "telemetry": {
    "enabled": false
  },
  "mcpServers": {
    "far": {
      "httpUrl": "@far",
      "headers": {
        "X-Key": "$KEY"
      },
      "timeout": 60000
    },
    "old": {
      "url": "@old",
      "headers": {
        "X-Key": "${KEY}"
      }
    }
  },
  "$version": 4
}`,
		env:   []string{"HTTP_PROXY=", "HTTPS_PROXY=", "ALL_PROXY=", "http_proxy=", "https_proxy="}, // it would ask the proxy for its model
		wraps: [][]string{nil},
	},
	{
		program: "crush", name: "config/crush/crush.json", tool: "mcp_@server_@tool", servers: []string{"far", "old"},
		config: strings.TrimSuffix(crushConfig, "}") + ",\n\"mcp\": { \"far\" :{\"type\": \"http\", \"url\": \"@far\", \"headers\": {\"X-Key\": \"$KEY\"}},\n" +
			"  \"old\": {\"type\": \"sse\", \"url\": \"@old\", \"headers\": {\"X-Key\": \"$KEY\"}} }}",
		wraps: [][]string{nil},
	},
}

// afar is a server behind two addresses, and what it was sent.
type afar struct {
	*httptest.Server

	mu       sync.Mutex // guards what follows
	executed []string
	headers  map[string]http.Header // of the latest request that calls a tool, by path
	others   []string               // requests without the key
}

func newAfar(t *testing.T) *afar {
	f := &afar{headers: map[string]http.Header{}}
	server := func(*http.Request) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "afar", Version: "1"}, nil)
		for _, name := range []string{"read_note", "delete_note"} {
			mcp.AddTool(s, &mcp.Tool{Name: name, Description: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.executed = append(f.executed, name)
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " from afar"}}}, nil, nil
			})
		}
		return s
	}
	mux := http.NewServeMux()
	mux.Handle("/far/mcp", mcp.NewStreamableHTTPHandler(server, nil))
	mux.Handle("/old/sse", mcp.NewSSEHandler(server, nil))
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		f.note(r, body)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	t.Cleanup(f.CloseClientConnections)
	return f
}

// note keeps what a test wants to know of a request.
func (f *afar) note(r *http.Request, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Header.Get("X-Key") != cloudKey {
		f.others = append(f.others, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
	}
	if bytes.Contains(body, []byte(`"tools/call"`)) {
		f.headers[r.URL.Path] = r.Header
	}
}

// TestRealAgentsRemote has agents, as their makers publish them, call tools of servers that their own files
// name by an address: through the gate, with the headers that the files say, and with the files afterwards as
// they were.
func TestRealAgentsRemote(t *testing.T) {
	for turn, c := range cloudAgents {
		a := hookedAgents[slices.IndexFunc(hookedAgents, func(a hookedAgent) bool { return a.program == c.program })]
		t.Run(c.program, func(t *testing.T) {
			needProc(t)
			program := a.installed(t)
			t.Parallel()
			h := newFixture(t)
			h.rules("schema: 1\ngovernance:\n  defaults: {action: forward}\n  rules:\n    - {match: \"delete_*\", action: deny, description: \"no note is deleted\"}\n")
			h.launcher(a.program, program)
			h.startDaemon()
			c.run(h, a, turn)
		})
	}
}

// run has an agent use its servers in each way in which it is governed: under each wrap, and protected; or in
// one of them, whose turn it is.
func (c cloudAgent) run(h *fixture, a hookedAgent, turn int) {
	far := newAfar(h.t)
	for name, text := range a.files {
		h.write(name, text, 0o600)
	}
	before := strings.NewReplacer("@far", far.URL+"/far/mcp?key=s3cr3t", "@old", far.URL+"/old/sse").Replace(c.config)
	h.write(c.name, before, 0o640)
	a.env = slices.Concat(a.env, c.env, []string{"KEY=" + cloudKey, "TOKEN=" + cloudToken})
	var args []string
	for _, arg := range a.args {
		if with, ok := c.args[arg]; ok {
			args = append(args, with...)
		} else {
			args = append(args, arg)
		}
	}
	a.args = args
	unchanged := func(when string) {
		h.t.Helper()
		after := h.read(c.name)
		want := before
		if c.writes { // it keeps entries as they stand
			_, want, _ = strings.Cut(before, `"mcpServers": `)
			want = strings.TrimSuffix(want, "\n}")
		}
		if !c.writes && after != want || !strings.Contains(after, want) {
			h.t.Errorf("%s, %s is\n%s\nwant\n%s", when, c.name, after, want)
		}
	}
	has := func(way int) bool { return *everyWay || way == turn%(len(c.wraps)+1) }
	uses := 0
	for way, flags := range c.wraps {
		if !has(way) {
			continue
		}
		c.use(h, a, far, slices.Concat([]string{"tgctl", "wrap"}, flags, []string{"--"}))
		unchanged(fmt.Sprintf("after a wrap %q", flags))
		uses++
	}
	h.tgctl("protect", "--yes", "--only", "mcp", cmp.Or(a.kind, a.program))
	if text := h.read(c.name); strings.Contains(text, far.URL) || strings.Count(text, "--remote") != len(c.servers) {
		h.t.Errorf("protected, %s is\n%s", c.name, text)
	}
	if has(len(c.wraps)) {
		c.use(h, a, far, nil)
		uses++
	}
	h.tgctl("unprotect", cmp.Or(a.kind, a.program))
	unchanged("after unprotect")
	c.check(h, far, uses)
}

// use has the agent's model call both tools of all servers.
func (c cloudAgent) use(h *fixture, a hookedAgent, far *afar, before []string) {
	h.t.Helper()
	var uses []toolUse
	for _, server := range c.servers {
		for _, tool := range []string{"read_note", "delete_note"} {
			uses = append(uses, toolUse{name: strings.NewReplacer("@server", server, "@tool", tool).Replace(c.tool), input: map[string]any{}})
		}
	}
	told := a.use(h, before, uses...)
	if strings.Count(told, "read_note from afar") < len(c.servers) || strings.Count(told, "no note is deleted") < len(c.servers) {
		h.t.Errorf("%q: the model was told %s", before, told)
	}
	far.mu.Lock()
	defer far.mu.Unlock()
	for name, want := range c.sends {
		if got := far.headers["/far/mcp"].Get(name); got != want {
			h.t.Errorf("%q: the header %s is %q, want %q", before, name, got, want)
		}
	}
	if len(far.others) > 0 {
		h.t.Errorf("%q: without the key arrived %q", before, far.others)
	}
}

// check looks at what the server has done, and at the record.
func (c cloudAgent) check(h *fixture, far *afar, uses int) {
	far.mu.Lock()
	if slices.Contains(far.executed, "delete_note") || len(far.executed) != uses*len(c.servers) {
		h.t.Errorf("executed %q, want %d times read_note", far.executed, uses*len(c.servers))
	}
	far.mu.Unlock()
	log := h.log()
	for _, server := range c.servers {
		address := far.URL + map[bool]string{true: "/old/sse", false: "/far/mcp"}[server == "old"]
		attached := func(l logged) bool {
			return l.Kind == "attach" && l.Server == server && l.Reason == fmt.Sprintf("[%q]", address)
		}
		if !slices.ContainsFunc(log, attached) {
			h.t.Errorf("no record says that %s is %s", server, address)
		}
		for tool, verdict := range map[string]string{"read_note": "forward", "delete_note": "deny"} {
			n := 0
			for _, l := range log {
				if l.Kind == "call" && l.Server == server && l.Tool == tool && l.Verdict == verdict && slices.Contains(l.Facts, "remote") {
					n++
				}
			}
			if n != uses {
				h.t.Errorf("%d calls %s of %s with the verdict %s and the fact remote, want %d", n, tool, server, verdict, uses)
			}
		}
	}
	if text := h.tgctl("audit", "list", "--json", "--limit", "0"); strings.Contains(text, "s3cr3t") || strings.Contains(text, cloudKey) || strings.Contains(text, cloudToken) {
		h.t.Error("the record has a value of the query or of a header")
	}
}
