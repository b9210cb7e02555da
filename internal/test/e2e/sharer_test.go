//lint:file-ignore SA1019 what MCP is about to drop has to work for as long as servers use it

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sharer is one agent with the official SDK, whose server is server-everything
// behind a shim.
type sharer struct {
	t       *testing.T
	name    string
	uri     string // of the resource that it alone subscribes to
	session *mcp.ClientSession

	mu       sync.Mutex // guards what follows
	changed  chan struct{}
	updated  map[string]bool  // resources that it was told of
	progress map[any][]string // by token
	lines    []string         // its transcript
}

// join starts an agent. Those with one server id have one line of configuration.
func (h *fixture) join(t *testing.T, server, program string, n int) *sharer {
	t.Helper()
	s := &sharer{
		t: t, name: fmt.Sprintf("agent-%02d", n), uri: fmt.Sprintf("demo://resource/dynamic/text/%d", 100+n),
		changed: make(chan struct{}), updated: map[string]bool{}, progress: map[any][]string{},
	}
	client := mcp.NewClient(&mcp.Implementation{Name: s.name, Version: "1"}, &mcp.ClientOptions{
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "model", Content: &mcp.TextContent{Text: s.name}}, nil
		},
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": s.name}}, nil
		},
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			s.note(func() { s.updated[r.Params.URI] = true })
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			p := r.Params
			s.note(func() {
				s.progress[p.ProgressToken] = append(s.progress[p.ProgressToken], fmt.Sprintf("%v of %v", p.Progress, p.Total))
			})
		},
		LoggingMessageHandler: func(context.Context, *mcp.LoggingMessageRequest) {},
	})
	client.AddSendingMiddleware(again)
	client.AddRoots(&mcp.Root{URI: "file:///work", Name: "work"}) // the server keeps the first that it is told
	cmd := exec.Command(filepath.Join(h.bin, "tg-shim"), "--server-id", server, "--", "node", program, "stdio", h.path())
	cmd.Env, cmd.Dir = h.env, h.path("work")
	cmd.Stderr = os.Stderr
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: 10 * time.Second}, nil)
	if err != nil {
		t.Errorf("%s: %v", s.name, err)
		return nil
	}
	s.session = session
	t.Cleanup(func() { _ = session.Close() })
	return s
}

// again makes a request once more that was refused because the daemon did not come
// to say anything about it in time: so many agents at once are much for a slow
// machine under the race detector.
func again(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		for {
			result, err := next(ctx, method, req)
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "said nothing within") {
				return result, err
			}
		}
	}
}

func (s *sharer) note(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// until waits until it is so.
func (s *sharer) until(what string, so func() bool) {
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		done, changed := so(), s.changed
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			s.t.Errorf("%s: never %s", s.name, what)
			return
		}
	}
}

var varies = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z|\d+:\d\d:\d\d( [AP]M)?|[0-9a-f]{8}-[0-9a-f-]{27}|(Started|Stopped) simulated[^"]*`)

// say adds to the transcript what came of something, without what differs between
// any two runs of the server.
func (s *sharer) say(what string, result any, err error) {
	text := ""
	if err != nil {
		text = "error: " + err.Error()
	} else if raw, err := json.Marshal(result); err != nil {
		s.t.Error(err)
	} else {
		text = string(raw)
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, s.name, "NAME"), s.uri, "URI")
	text = strings.ReplaceAll(text, fmt.Sprintf("Resource %s", strings.TrimPrefix(s.uri, "demo://resource/dynamic/text/")), "Resource N")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, what+": "+varies.ReplaceAllString(text, "…"))
}

// phases are what an agent does; the next begins when all have done the last.
var phases = []func(*sharer, context.Context){
	(*sharer).look,
	(*sharer).tools,
	func(s *sharer, ctx context.Context) {
		s.say("subscribe", nil, s.session.Subscribe(ctx, &mcp.SubscribeParams{URI: s.uri}))
	},
	func(s *sharer, ctx context.Context) {
		s.call(ctx, "toggle-subscriber-updates", nil)
		s.until("told of its resource", func() bool { return s.updated[s.uri] })
	},
	(*sharer).cancels,
	func(s *sharer, ctx context.Context) {
		s.say("unsubscribe", nil, s.session.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: s.uri}))
		s.say("told of", slices.Sorted(maps.Keys(s.updated)), nil)
		s.call(ctx, "echo", map[string]any{"message": s.name})
	},
}

func (s *sharer) look(ctx context.Context) {
	s.say("server", s.session.InitializeResult(), nil)
	tools, err := s.session.ListTools(ctx, nil)
	s.say("tools", tools, err)
	prompts, err := s.session.ListPrompts(ctx, nil)
	s.say("prompts", prompts, err)
	resources, err := s.session.ListResources(ctx, nil)
	s.say("resources", resources, err)
	templates, err := s.session.ListResourceTemplates(ctx, nil)
	s.say("templates", templates, err)
	s.say("ping", nil, s.session.Ping(ctx, nil))
	s.say("level", nil, s.session.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "warning"}))
	prompt, err := s.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "args-prompt", Arguments: map[string]string{"city": s.name}})
	s.say("prompt", prompt, err)
	_, err = s.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "no-such-prompt"})
	s.say("no prompt", nil, err)
	for _, uri := range []string{s.uri, "demo://resource/static/document/features.md", "demo://none"} {
		read, err := s.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		s.say("read", read, err)
	}
	values, err := s.session.Complete(ctx, &mcp.CompleteParams{
		Ref:      &mcp.CompleteReference{Type: "ref/prompt", Name: "completable-prompt"},
		Argument: mcp.CompleteParamsArgument{Name: "department", Value: "S"},
	})
	s.say("complete", values, err)
}

var arguments = map[string]func(s *sharer) map[string]any{
	"echo":                     func(s *sharer) map[string]any { return map[string]any{"message": s.name} },
	"get-annotated-message":    func(*sharer) map[string]any { return map[string]any{"messageType": "error", "includeImage": true} },
	"get-resource-links":       func(*sharer) map[string]any { return map[string]any{"count": 3} },
	"get-resource-reference":   func(*sharer) map[string]any { return map[string]any{"resourceType": "Text", "resourceId": 1} },
	"get-structured-content":   func(*sharer) map[string]any { return map[string]any{"location": "Chicago"} },
	"get-sum":                  func(s *sharer) map[string]any { return map[string]any{"a": 20, "b": 22} },
	"simulate-research-query":  func(s *sharer) map[string]any { return map[string]any{"topic": s.name} },
	"trigger-sampling-request": func(s *sharer) map[string]any { return map[string]any{"prompt": s.name} },
	"trigger-url-elicitation":  func(*sharer) map[string]any { return map[string]any{"url": "https://example.com/"} },
	"gzip-file-as-resource": func(*sharer) map[string]any {
		return map[string]any{"name": "x.gz", "data": "data:text/plain;base64,aGVsbG8=", "outputType": "resource"}
	},
	"trigger-long-running-operation": func(*sharer) map[string]any { return map[string]any{"duration": 0.2, "steps": 4} },
}

// tools calls every tool that there is.
func (s *sharer) tools(ctx context.Context) {
	list, err := s.session.ListTools(ctx, nil)
	if err != nil {
		s.t.Errorf("%s: %v", s.name, err)
		return
	}
	for _, tool := range list.Tools {
		if tool.Name == "toggle-subscriber-updates" {
			continue // when all have subscribed
		}
		var args map[string]any
		if with := arguments[tool.Name]; with != nil {
			args = with(s)
		}
		s.call(ctx, tool.Name, args)
	}
}

func (s *sharer) call(ctx context.Context, tool string, args map[string]any) {
	if args == nil {
		args = map[string]any{}
	}
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	token := s.name + " " + tool
	params.SetProgressToken(token)
	result, err := s.session.CallTool(ctx, params)
	switch tool {
	case "get-env": // it is the server's
		s.say(tool, err == nil && !result.IsError, err)
	case "trigger-long-running-operation":
		s.until("told of all progress", func() bool { return len(s.progress[token]) >= 4 })
		s.say("progress", s.progress[token], nil)
		fallthrough
	default:
		s.say(tool, result, err)
	}
}

// cancels gives up a call when it has begun, and one at once.
func (s *sharer) cancels(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	params := &mcp.CallToolParams{Name: "trigger-long-running-operation", Arguments: map[string]any{"duration": 6, "steps": 60}}
	token := s.name + " cancelled"
	params.SetProgressToken(token)
	go func() { // ends with the call
		s.until("told that the call has begun", func() bool { return len(s.progress[token]) > 0 || ctx.Err() != nil })
		cancel()
	}()
	_, err := s.session.CallTool(ctx, params)
	s.say("cancelled", err != nil && ctx.Err() != nil, nil)
}
