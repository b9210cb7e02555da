//lint:file-ignore SA1019 what MCP is about to drop has to work for as long as servers use it

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const demoURI = "demo://x"

// eraVar and configVar tell a speaker what to do.
const eraVar = "E2E_ERA"

// speaker is a client of an SDK that takes steps with the one server of its configuration. The steps of
// both SDKs have the same names; npm/client.mjs has those of the other.
type speaker struct {
	*process
	stdin io.WriteCloser
	lines chan string
}

// speak starts the client of an SDK, wrapped or not, whose configuration has the server.
func (h *fixture) speak(t *testing.T, sdk, server string, e entry, era string, wrapped bool) *speaker {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"mcpServers": map[string]entry{server: e}})
	if err != nil {
		t.Fatal(err)
	}
	config := h.write(fmt.Sprintf("work/%s-%s-%v.json", server, sdk, wrapped), string(raw), 0o600)
	program, role := []string{testBinary(t)}, "speaker"
	if sdk == "typescript" {
		program, role = []string{"node", npmFile(t, "client.mjs")}, ""
	}
	if wrapped {
		program = append([]string{filepath.Join(h.bin, "tgctl"), "wrap", "--agent-type", "custom", "--config-path", config, "--"}, program...)
	}
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Env = append(slices.Clone(h.env), configVar+"="+config, eraVar+"="+era, roleVar+"="+role)
	cmd.Dir, cmd.Stderr = h.path("work"), os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = write
	s := &speaker{process: h.start(cmd), stdin: stdin, lines: make(chan string, 64)}
	write.Close()
	go func() {
		defer close(s.lines)
		defer stdout.Close()
		scanner := bufio.NewScanner(stdout)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			s.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() { s.leave(t) })
	return s
}

// leave has the client end, if it has not.
func (s *speaker) leave(t *testing.T) {
	t.Helper()
	s.stdin.Close()
	for deadline := time.After(patience); ; {
		select {
		case _, ok := <-s.lines:
			if !ok {
				s.wait(t)
				return
			}
		case <-deadline:
			s.kill()
			t.Fatal("the client does not end")
		}
	}
}

// take has the client take a step, and returns its transcript: what it sent and received, in that
// order, and what came of it.
func (s *speaker) take(t *testing.T, step string) []string {
	t.Helper()
	if _, err := io.WriteString(s.stdin, step+"\n"); err != nil {
		t.Fatal(err)
	}
	var all []string
	for deadline := time.After(patience); ; {
		select {
		case line, ok := <-s.lines:
			if !ok {
				t.Fatalf("the client has ended in %q: %q", step, all)
			}
			all = append(all, line)
			if strings.HasPrefix(line, `{"step"`) {
				return all
			}
		case <-deadline:
			t.Fatalf("%q does not end: %q", step, all)
		}
	}
}

// goSpeaker is the client of the Go SDK. Its transcript has what the SDK makes of messages.
type goSpeaker struct {
	client  *mcp.Client
	entry   entry
	era     string
	session *mcp.ClientSession
	seen    chan string // methods of notifications

	mu    sync.Mutex // guards what follows
	lines []string
}

// runSpeaker is the program of a speaker with the Go SDK.
func runSpeaker() int {
	raw, err := os.ReadFile(os.Getenv(configVar))
	var config struct {
		Servers map[string]entry `json:"mcpServers"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "speaker:", err)
		return 1
	}
	var s *goSpeaker
	for _, e := range config.Servers {
		s = newGoSpeaker(e, os.Getenv(eraVar))
	}
	for steps := bufio.NewScanner(os.Stdin); steps.Scan(); {
		for _, line := range s.take(steps.Text()) {
			fmt.Println(line)
		}
	}
	return 0
}

func newGoSpeaker(e entry, era string) *goSpeaker {
	s := &goSpeaker{entry: e, era: era, seen: make(chan string, 1024)}
	s.client = mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "said"}}, nil
		},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "n"}}, nil
		},
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) {},
		ResourceUpdatedHandler:      func(context.Context, *mcp.ResourceUpdatedNotificationRequest) {},
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {},
	})
	s.client.AddRoots(&mcp.Root{URI: "file:///work", Name: "work"})
	s.client.AddSendingMiddleware(s.record("sent"))
	s.client.AddReceivingMiddleware(s.record("received"))
	return s
}

// transport returns the way to the server.
func (s *goSpeaker) transport() mcp.Transport {
	switch {
	case s.entry.Command != "":
		cmd := exec.Command(s.entry.Command, s.entry.Args...)
		cmd.Env, cmd.Stderr = os.Environ(), os.Stderr
		for name, value := range s.entry.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		return &mcp.CommandTransport{Command: cmd, TerminateDuration: 10 * time.Second}
	case s.entry.Type == "sse":
		return &mcp.SSEClientTransport{Endpoint: s.entry.URL}
	}
	return &mcp.StreamableClientTransport{Endpoint: s.entry.URL}
}

func (s *goSpeaker) note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *goSpeaker) record(what string) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			params, _ := json.Marshal(req.GetParams())
			s.note(fmt.Sprintf("%s %s %s", what, method, params))
			result, err := next(ctx, method, req)
			if strings.HasPrefix(method, "notifications/") {
				s.seen <- method
				return result, err
			}
			raw, _ := json.Marshal(result)
			s.note(fmt.Sprintf("answer to %s %s: %s %v", what, method, raw, err))
			return result, err
		}
	}
}

// until waits for a notification of each of these methods.
func (s *goSpeaker) until(ctx context.Context, methods ...string) error {
	for len(methods) > 0 {
		select {
		case method := <-s.seen:
			if i := slices.Index(methods, method); i >= 0 {
				methods = slices.Delete(methods, i, i+1)
			}
		case <-ctx.Done():
			return fmt.Errorf("wait for %q: %w", methods, ctx.Err())
		}
	}
	return nil
}

func (s *goSpeaker) take(step string) []string {
	ctx, cancel := context.WithTimeout(background(), patience)
	defer cancel()
	var err error
	if f := goSteps[step]; f != nil {
		err = f(s, ctx)
	} else {
		err = s.use(ctx, step)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.lines
	s.lines = nil
	slices.SortStableFunc(all, func(a, b string) int { // answers overtake notifications within the SDK
		return strings.Compare(notificationOf(a), notificationOf(b))
	})
	return append(all, fmt.Sprintf(`{"step":%q,"error":"%v"}`, step, err))
}

// notificationOf returns the method of the notification that a line of a goSpeaker tells; empty for none.
func notificationOf(line string) string {
	method, _, _ := strings.Cut(strings.TrimPrefix(line, "received "), " ")
	if !strings.HasPrefix(method, "notifications/") {
		return ""
	}
	return method
}

const acknowledged = "notifications/subscriptions/acknowledged"

func (s *goSpeaker) call(ctx context.Context, tool string, arguments map[string]any) error {
	if arguments == nil {
		arguments = map[string]any{}
	}
	_, err := s.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	return err
}

// use calls the tool of an order, in JSON, and waits for what it says by itself.
func (s *goSpeaker) use(ctx context.Context, line string) error {
	var o struct {
		Tool      string         `json:"tool"`
		Arguments map[string]any `json:"arguments"`
		Until     []string       `json:"until"`
	}
	if err := json.Unmarshal([]byte(line), &o); err != nil {
		return err
	}
	params := &mcp.CallToolParams{Name: o.Tool, Arguments: o.Arguments}
	params.SetProgressToken(o.Tool)
	if _, err := s.session.CallTool(ctx, params); err != nil {
		return err
	}
	return s.until(ctx, o.Until...)
}

func (s *goSpeaker) ask(what string) func(*goSpeaker, context.Context) error {
	return func(s *goSpeaker, ctx context.Context) error { return s.call(ctx, "ask", map[string]any{"what": what}) }
}

var goSteps = map[string]func(s *goSpeaker, ctx context.Context) error{
	"connect": func(s *goSpeaker, ctx context.Context) error {
		// A stream of 2024-11-05 ends with the context.
		version := map[string]string{"legacy": "2025-11-25", "modern": "2026-07-28"}[s.era]
		session, err := s.client.Connect(background(), s.transport(), &mcp.ClientSessionOptions{ProtocolVersion: version})
		if s.session = session; err != nil || s.era == "legacy" {
			return err
		}
		return s.until(ctx, acknowledged)
	},
	"lists": func(s *goSpeaker, ctx context.Context) error {
		for _, list := range []func() error{
			func() error { _, err := s.session.ListTools(ctx, nil); return err },
			func() error { _, err := s.session.ListResources(ctx, nil); return err },
			func() error { _, err := s.session.ListResourceTemplates(ctx, nil); return err },
			func() error { _, err := s.session.ListPrompts(ctx, nil); return err },
		} {
			if err := list(); err != nil {
				return err
			}
		}
		return nil
	},
	"echo": func(s *goSpeaker, ctx context.Context) error {
		return s.call(ctx, "echo", map[string]any{"text": "é \u2028 \\ \""})
	},
	"fail":    func(s *goSpeaker, ctx context.Context) error { return s.call(ctx, "fail", nil) },
	"unknown": func(s *goSpeaker, ctx context.Context) error { return s.call(ctx, "no-such-tool", nil) },
	"read": func(s *goSpeaker, ctx context.Context) error {
		_, err := s.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: demoURI})
		return err
	},
	"read nothing": func(s *goSpeaker, ctx context.Context) error {
		_, err := s.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "demo://none"})
		return err
	},
	"prompt": func(s *goSpeaker, ctx context.Context) error {
		_, err := s.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "greet", Arguments: map[string]string{"who": "you"}})
		return err
	},
	"complete": func(s *goSpeaker, ctx context.Context) error {
		_, err := s.session.Complete(ctx, &mcp.CompleteParams{
			Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "greet"}, Argument: mcp.CompleteParamsArgument{Name: "who"},
		})
		return err
	},
	"many": func(s *goSpeaker, ctx context.Context) error {
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() { _ = s.call(ctx, "echo", map[string]any{"text": fmt.Sprint(i)}) }) // it is in the transcript
		}
		wait.Wait()
		return nil
	},
	"slow": func(s *goSpeaker, ctx context.Context) error {
		params := &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"steps": 4}}
		params.SetProgressToken("slow")
		if _, err := s.session.CallTool(ctx, params); err != nil {
			return err
		}
		return s.until(ctx, slices.Repeat([]string{"notifications/progress"}, 4)...)
	},
	"sampling":    (*goSpeaker)(nil).ask("sampling"),
	"elicitation": (*goSpeaker)(nil).ask("elicitation"),
	"roots":       (*goSpeaker)(nil).ask("roots"),
	"subscribe": func(s *goSpeaker, ctx context.Context) error {
		if err := s.session.Subscribe(ctx, &mcp.SubscribeParams{URI: demoURI}); err != nil || s.era == "legacy" {
			return err
		}
		return s.until(ctx, acknowledged)
	},
	"change": func(s *goSpeaker, ctx context.Context) error {
		if err := s.call(ctx, "change", nil); err != nil {
			return err
		}
		return s.until(ctx, "notifications/resources/updated", "notifications/tools/list_changed")
	},
	"unsubscribe": func(s *goSpeaker, ctx context.Context) error {
		return s.session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: demoURI})
	},
	"cancel": func(s *goSpeaker, ctx context.Context) error {
		for len(s.seen) > 0 { // of a call whose stream was lost
			<-s.seen
		}
		called, stop := context.WithCancel(ctx)
		go func() { // ends with ctx at the latest
			_ = s.until(ctx, "notifications/progress")
			stop()
		}()
		params := &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"steps": 1000}}
		params.SetProgressToken("cancel")
		_, _ = s.session.CallTool(called, params) // it is in the transcript
		return s.call(ctx, "cancelled", nil)
	},
	"cancelled": func(s *goSpeaker, ctx context.Context) error { return s.call(ctx, "cancelled", nil) },
	"close":     func(s *goSpeaker, _ context.Context) error { return s.session.Close() },
}

// goServer is a server of the Go SDK with the tools of npm/server.mjs.
func goServer() *mcp.Server {
	var cancelled atomic.Int32
	s := mcp.NewServer(&mcp.Implementation{Name: "go", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"a", "b"}}}, nil
		},
	})
	text := func(t string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: t}}}
	}
	type input struct {
		Text  string `json:"text,omitempty"`
		Steps int    `json:"steps,omitempty"`
		What  string `json:"what,omitempty"`
	}
	add := func(name string, f func(ctx context.Context, r *mcp.CallToolRequest, in input) (*mcp.CallToolResult, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, r *mcp.CallToolRequest, in input) (*mcp.CallToolResult, any, error) {
			result, err := f(ctx, r, in)
			return result, nil, err
		})
	}
	add("echo", func(_ context.Context, _ *mcp.CallToolRequest, in input) (*mcp.CallToolResult, error) {
		return text(in.Text), nil
	})
	add("fail", func(context.Context, *mcp.CallToolRequest, input) (*mcp.CallToolResult, error) {
		return nil, io.ErrUnexpectedEOF
	})
	add("slow", func(ctx context.Context, r *mcp.CallToolRequest, in input) (*mcp.CallToolResult, error) {
		for i := range in.Steps {
			_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(in.Steps)})
			select {
			case <-time.After(30 * time.Millisecond):
			case <-ctx.Done():
				cancelled.Add(1)
				return nil, ctx.Err()
			}
		}
		return text("done"), nil
	})
	add("cancelled", func(context.Context, *mcp.CallToolRequest, input) (*mcp.CallToolResult, error) {
		eventually(func() bool { return cancelled.Load() > 0 }, patience/2)
		return text(fmt.Sprint(cancelled.Swap(0))), nil
	})
	add("ask", func(_ context.Context, r *mcp.CallToolRequest, in input) (*mcp.CallToolResult, error) {
		if answer := r.Params.InputResponses[in.What]; answer != nil {
			raw, err := json.Marshal(answer)
			return text(string(raw)), err
		}
		ask := map[string]mcp.InputRequest{
			"sampling":    &mcp.CreateMessageParams{MaxTokens: 10, Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "say"}}}},
			"elicitation": &mcp.ElicitParams{Message: "name?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)},
			"roots":       &mcp.ListRootsParams{},
		}[in.What]
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{in.What: ask}, RequestState: "asked"}, nil
	})
	echo := &mcp.Tool{Name: "change", InputSchema: json.RawMessage(`{"type":"object"}`)}
	var change mcp.ToolHandler
	change = func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.AddTool(echo, change) // its list has changed, for all that it knows
		return text("changed"), s.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: demoURI})
	}
	s.AddTool(echo, change)
	s.AddResource(&mcp.Resource{URI: demoURI, Name: "x"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: demoURI, Text: "x \u2028"}}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hello " + r.Params.Arguments["who"]}}}}, nil
	})
	return s
}
