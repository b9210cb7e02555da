package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// act is a step of a client, in which a connection may be cut.
type act struct {
	step   string
	marker string // of the cut; empty for none
	place  place
}

// spoken is what clients do with a server.
var spoken = []act{
	{step: "connect"}, {step: "lists"}, {step: "echo"}, {step: "fail"}, {step: "unknown"}, {step: "read"}, {step: "read nothing"},
	{step: "prompt"}, {step: "complete"}, {step: "many"}, {step: "slow"}, {step: "sampling"}, {step: "elicitation"}, {step: "roots"},
	{step: "subscribe"}, {step: "change"},
}

// torn are streams that break and are resumed.
var torn = []act{
	{"slow", `"progress":2`, before}, {"slow", `"progress":2`, within}, {"slow", `"progress":2`, after},
	{"change", "resources/updated", within},
}

// lost are streams that break and can't be resumed. The client of the TypeScript SDK learns of that only
// over pipes; over HTTP it waits until its own limit, a minute.
var lost = []act{{"slow", `"progress":2`, within}, {step: "cancelled"}}

var last = []act{{step: "unsubscribe"}, {step: "cancel"}, {step: "close"}}

// everything is what a client does with server-everything.
func everything() []act {
	acts := []act{{step: "connect"}, {step: "lists"}, {step: "subscribe"}}
	until := map[string][]string{
		"trigger-long-running-operation": slices.Repeat([]string{"notifications/progress"}, 4),
		"toggle-subscriber-updates":      {"notifications/resources/updated"},
	}
	for _, tool := range []string{
		"echo", "get-annotated-message", "get-resource-links", "get-resource-reference", "get-structured-content", "get-sum", "get-tiny-image",
		"gzip-file-as-resource", "trigger-sampling-request", "trigger-elicitation-request", "trigger-url-elicitation", "get-roots-list",
		"trigger-long-running-operation", "toggle-subscriber-updates",
	} {
		order := map[string]any{"tool": tool, "arguments": map[string]any{}, "until": until[tool]}
		if with := arguments[tool]; with != nil {
			order["arguments"] = with(&sharer{name: "agent"})
		}
		line, _ := json.Marshal(order) // it can't fail
		acts = append(acts, act{step: string(line)})
	}
	return append(acts, act{step: "unsubscribe"}, act{step: "close"})
}

// behind is a server behind an address, and what is done with it.
type behind struct {
	name   string
	era    string
	entry  entry
	cutter *cutter
	acts   []act
	sdks   []string // whose clients do it
}

var sdks = []string{"go", "typescript"}

// Servers of both SDKs give clients of both the same transcript through the gate as directly.
func TestRemote(t *testing.T) {
	npmFile(t, "node_modules", "@modelcontextprotocol", "client", "package.json")
	needProc(t)
	t.Parallel()
	h := newFixture(t)
	h.rules("schema: 1\ngovernance: {defaults: {action: forward, asks: forward}}\n")
	h.startDaemon()
	address := h.nodeServer(t)
	node, nodeModern := newCutter(t, address), newCutter(t, address)
	stateful := &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)}
	get := func(*http.Request) *mcp.Server { return goServer() }
	one := goServer()
	getOne := func(*http.Request) *mcp.Server { return one }
	goLegacy := behindCutter(t, httptest.NewServer(mcp.NewStreamableHTTPHandler(get, stateful)))
	goModern := behindCutter(t, httptest.NewServer(mcp.NewStreamableHTTPHandler(getOne, &mcp.StreamableHTTPOptions{Stateless: true})))
	goOld := behindCutter(t, httptest.NewServer(mcp.NewSSEHandler(get, nil)))
	legacy, modern := slices.Concat(spoken, torn, last), slices.Concat(spoken, lost, last)
	// A server of the Go SDK does not notice in the modern era that a call is cancelled.
	noCancel := slices.DeleteFunc(slices.Clone(modern), func(a act) bool { return strings.HasPrefix(a.step, "cancel") })
	all := []*behind{
		{"typescript", "legacy", entry{Type: "http", URL: node.url("/mcp")}, node, legacy, sdks},
		{"typescript-modern", "modern", entry{Type: "http", URL: nodeModern.url("/mcp")}, nodeModern, modern, sdks},
		{"go", "legacy", entry{Type: "http", URL: goLegacy.url("/mcp")}, goLegacy, legacy, sdks},
		{"go-modern", "modern", entry{Type: "http", URL: goModern.url("/mcp")}, goModern, noCancel, sdks[:1]},
		{"go-sse", "legacy", entry{Type: "sse", URL: goOld.url("/sse")}, goOld, slices.Concat(spoken, last), sdks[:1]},
		h.everythingBehind(t, "streamableHttp", "http", "/mcp"),
		h.everythingBehind(t, "sse", "sse", "/sse"),
	}
	t.Run("servers", func(t *testing.T) { // so that the fixture outlives them
		for _, b := range all {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				for _, sdk := range b.sdks {
					if sdk == "typescript" {
						b.acts = slices.DeleteFunc(slices.Clone(b.acts), func(a act) bool { return slices.Contains(lost, a) && b.era == "modern" })
					}
					direct := b.transcript(t, h.speak(t, sdk, b.name, b.entry, b.era, false))
					through := b.transcript(t, h.speak(t, sdk, b.name, b.entry, b.era, true))
					if diff := cmp.Diff(direct, through); diff != "" {
						t.Errorf("client of the %s SDK: through the gate it is not as it is directly (-directly +through the gate):\n%s", sdk, diff)
					}
				}
			})
		}
	})
}

// everythingBehind starts server-everything.
func (h *fixture) everythingBehind(t *testing.T, mode, kind, path string) *behind {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command("node", npmServer(t, "server-everything"), mode)
	cmd.Env, cmd.Dir = append(slices.Clone(h.env), "PORT="+port), h.path("work")
	p := h.start(cmd)
	t.Cleanup(p.kill)
	if !eventually(func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, patience) {
		t.Fatalf("server-everything %s does not listen", mode)
	}
	c := newCutter(t, address)
	return &behind{"everything-" + kind, "legacy", entry{Type: kind, URL: c.url(path)}, c, everything(), sdks[:1]}
}

// nodeServer starts the server of the TypeScript SDK and returns its address.
func (h *fixture) nodeServer(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("node", npmFile(t, "server.mjs"))
	cmd.Env, cmd.Dir, cmd.Stderr = h.env, h.path("work"), os.Stderr
	stdout, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	cmd.Stdout = write
	p := h.start(cmd)
	write.Close()
	t.Cleanup(p.kill)
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strings.TrimSpace(port))
}

// transcript has a client do it all, and returns the transcripts of its steps.
func (b *behind) transcript(t *testing.T, s *speaker) [][]string {
	t.Helper()
	defer s.leave(t)
	var all [][]string
	var byItself []string
	streams, _ := b.cutter.count()
	for _, a := range b.acts {
		_, cuts := b.cutter.count()
		if a.marker != "" {
			b.cutter.cut(a.marker, a.place)
			cuts++
		}
		lines := s.take(t, a.step)
		if _, n := b.cutter.count(); n != cuts {
			t.Errorf("%d connections have been cut in %q, want %d", n, a.step, cuts)
		}
		if a.step == "connect" && b.era == "legacy" && !eventually(func() bool { n, _ := b.cutter.count(); return n > streams }, patience) {
			t.Fatal("there is no stream for what the server says by itself")
		}
		lines, others := normalized(a, b.era, lines)
		all, byItself = append(all, lines), append(byItself, others...)
	}
	slices.Sort(byItself)
	return append(all, byItself)
}

var (
	late    = regexp.MustCompile(`notifications/progress|"text":"context canceled"`) // what a server says of a call that was cancelled
	laterOn = regexp.MustCompile(`^(answer to )?received (roots/list|notifications/(message|resources/list_changed))`)
	status  = regexp.MustCompile(`sending \S+ (.*): rejected by transport: Bad Request`) // what the Go SDK says of an error with such a status
)

// normalized returns the transcript of a step without what differs between any two runs, and without
// what has to differ between HTTP and pipes. Apart from it, it returns what server-everything says when
// it comes to it.
func normalized(a act, era string, lines []string) (all, byItself []string) {
	all = []string{"step " + a.step}
	if a.marker != "" && era == "modern" {
		// Over HTTP, the SDK says that the stream has ended. Over pipes, that is an error of the gate.
		isError := strings.Contains(lines[len(lines)-1], `"error":`) && !strings.Contains(lines[len(lines)-1], "<nil>")
		return append(all, fmt.Sprint("error: ", isError)), nil
	}
	for _, line := range lines {
		line = status.ReplaceAllString(varies.ReplaceAllString(line, "…"), "$1")
		switch {
		case (a.step == "cancel" || a.step == "close") && late.MatchString(line):
			// until the server knows
		case a.step == "cancelled" && strings.HasPrefix(line, "received notifications/progress"):
			// of the call before, whose stream was cut: the SDK hands it over when it comes to it
		case a.step == "cancel" && era == "modern" && strings.Contains(line, "notifications/cancelled"):
			// over HTTP, the end of the response cancels the call
		case a.step != "change" && strings.HasPrefix(line, "received notifications/tools/list_changed"):
			// when the handshake is complete: the Go SDK listens before that, the gate after it, as the TypeScript SDK does
		case laterOn.MatchString(line):
			byItself = append(byItself, line)
		default:
			all = append(all, line)
		}
	}
	if a.step == "many" || a.step == "change" {
		slices.Sort(all[1:]) // over HTTP, they come on different streams
	}
	return all, byItself
}
