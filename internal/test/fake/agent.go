package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// AgentOptions configure an agent.
type AgentOptions struct {
	Config string // a file with servers: of Codex if it ends in .toml, of Goose if in .yaml, otherwise with mcpServers
	Dir    string // directory of the servers; empty for the current one
	Steps  []Step
	// Report, if not nil, is called with each result, in the order of the steps, before the
	// next step begins.
	Report   func(Result)
	Stderr   io.Writer     // of the servers; nil for none
	Patience time.Duration // timeout of a call; 0 means a minute
}

// Step is a call of a tool or, if Tool is empty, a request for the tools of a server.
type Step struct {
	Server    string
	Tool      string
	Arguments json.RawMessage
}

// Result is the result of a step.
type Result struct {
	Step
	Text    string   // of the tool's result, or the names of the tools, one a line
	IsError bool     // the result says so
	Err     *Error   // the answer is an error, not a result
	Failed  error    // there is no answer
	Tools   []string // result of a list
}

// RunAgent starts every server that the configuration names, carries out the steps one after
// the other, stops the servers, and returns when they have ended. It fails if a server can't be
// started or does not answer the handshake, or when ctx ends; a failed call is a Result.
func RunAgent(ctx context.Context, o AgentOptions) (err error) {
	entries, err := readConfig(o.Config)
	if err != nil {
		return err
	}
	if o.Patience <= 0 {
		o.Patience = time.Minute
	}
	servers := map[string]*started{}
	defer func() {
		for _, name := range slices.Sorted(maps.Keys(servers)) {
			if stopErr := servers[name].stop(); stopErr != nil && err == nil {
				err = fmt.Errorf("stop server %s: %w", name, stopErr)
			}
		}
	}()
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		s, err := start(entries[name], o)
		if err != nil {
			return fmt.Errorf("start server %s: %w", name, err)
		}
		servers[name] = s
		if err := s.handshake(ctx, o.Patience); err != nil {
			return fmt.Errorf("server %s: %w", name, err)
		}
	}
	for _, step := range o.Steps {
		s := servers[step.Server]
		if s == nil {
			return fmt.Errorf("the configuration %s has no server %q", o.Config, step.Server)
		}
		r := s.do(ctx, step, o.Patience)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if o.Report != nil {
			o.Report(r)
		}
	}
	return nil
}

// ReadScript parses steps, one a line: `call SERVER TOOL [ARGUMENTS]` or `list SERVER`.
// ARGUMENTS is a JSON object. Empty lines and lines that begin with # are skipped.
func ReadScript(script string) ([]Step, error) {
	var steps []Step
	for n, line := range strings.Split(script, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.SplitN(line, " ", 4)
		switch {
		case words[0] == "list" && len(words) == 2:
			steps = append(steps, Step{Server: words[1]})
		case words[0] == "call" && len(words) >= 3:
			step := Step{Server: words[1], Tool: words[2], Arguments: json.RawMessage("{}")}
			if len(words) == 4 {
				step.Arguments = json.RawMessage(words[3])
			}
			if !json.Valid(step.Arguments) {
				return nil, fmt.Errorf("line %d: the arguments are not JSON: %s", n+1, step.Arguments)
			}
			steps = append(steps, step)
		default:
			return nil, fmt.Errorf("line %d: %q is neither `call SERVER TOOL [ARGUMENTS]` nor `list SERVER`", n+1, line)
		}
	}
	return steps, nil
}

// handedOn are the variables that the official SDKs pass to a server; others must be in its
// configuration.
var handedOn = []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}

// started is a running server.
type started struct {
	*peer
	cmd   *exec.Cmd
	stdin io.Closer
	read  chan error // result of the reading goroutine
}

func start(e entry, o AgentOptions) (*started, error) {
	cmd := exec.Command(e.Command, e.Args...)
	cmd.Dir = o.Dir
	cmd.Stderr = o.Stderr
	cmd.WaitDelay = time.Second // a descendant may keep stderr open
	for _, name := range handedOn {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	for name, value := range e.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &started{peer: newPeer(stdin), cmd: cmd, stdin: stdin, read: make(chan error, 1)}
	s.request = answerServer
	go func() { s.read <- s.run(context.Background(), stdout) }()
	return s, nil
}

// answerServer answers a request of a server.
func answerServer(_ context.Context, m *message) (any, *Error, func() (any, *Error)) {
	switch m.Method {
	case "ping":
		return struct{}{}, nil, nil
	case "sampling/createMessage":
		return map[string]any{"role": "assistant", "model": "fake", "content": map[string]any{"type": "text", "text": "as you wish"}}, nil, nil
	case "elicitation/create":
		return map[string]any{"action": "accept", "content": map[string]any{"answer": "yes"}}, nil, nil
	case "roots/list":
		return map[string]any{"roots": []any{}}, nil, nil
	}
	return nil, &Error{Code: codeNoMethod, Message: "Method not found"}, nil
}

func (s *started) handshake(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := s.call(ctx, "initialize", map[string]any{
		"protocolVersion": legacyVersion,
		"capabilities":    map[string]any{"sampling": struct{}{}, "elicitation": struct{}{}, "roots": struct{}{}},
		"clientInfo":      map[string]any{"name": "fake-agent", "version": "1.0.0"},
	})
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	return s.notify("notifications/initialized", struct{}{})
}

// do carries out a step.
func (s *started) do(ctx context.Context, step Step, patience time.Duration) Result {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := Result{Step: step}
	method, params := "tools/call", any(map[string]any{"name": step.Tool, "arguments": step.Arguments})
	if step.Tool == "" {
		method, params = "tools/list", struct{}{}
	}
	raw, err := s.call(ctx, method, params)
	if !errors.As(err, &r.Err) && err != nil {
		r.Failed = err
	}
	if err != nil {
		return r
	}
	var result struct {
		Content []struct{ Text string }
		IsError bool
		Tools   []struct{ Name string }
	}
	if r.Failed = json.Unmarshal(raw, &result); r.Failed != nil {
		return r
	}
	r.IsError = result.IsError
	var texts []string
	for _, c := range result.Content {
		texts = append(texts, c.Text)
	}
	for _, t := range result.Tools {
		r.Tools = append(r.Tools, t.Name)
	}
	r.Text = strings.Join(append(texts, r.Tools...), "\n")
	return r
}

// stepGrace is how long the official SDKs wait after each step of stopping a server.
const stepGrace = 2 * time.Second

// stop stops the server as the official SDKs do: it closes stdin, sends SIGTERM after two
// seconds and SIGKILL after two more. It returns when the process has been waited for.
func (s *started) stop() error {
	_ = s.stdin.Close()
	ended := make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		failed = s.cmd.Wait()
		<-s.read
	}()
	for _, sig := range []os.Signal{syscall.SIGTERM, os.Kill} {
		select {
		case <-ended:
			return ignoreExit(failed)
		case <-time.After(stepGrace):
			_ = s.cmd.Process.Signal(sig)
		}
	}
	<-ended
	return ignoreExit(failed)
}

// ignoreExit returns nil for an error that only says how the process ended.
func ignoreExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}
