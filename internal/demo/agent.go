package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Server is an MCP server in an agent's configuration.
type Server struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"-"` // its directory; empty for the current one
}

// ReadConfig reads the server with that name from a file with mcpServers.
func ReadConfig(path, name string) (Server, error) {
	var config struct {
		Servers map[string]Server `json:"mcpServers"`
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err == nil && config.Servers[name].Command == "" {
		err = fmt.Errorf("it names no server %s", name)
	}
	if err != nil {
		return Server{}, fmt.Errorf("read %s: %w", path, err)
	}
	return config.Servers[name], nil
}

// endGrace is the grace period for a server to end by itself, and again after SIGTERM.
const endGrace = 2 * time.Second

// Run starts a server, makes the calls one after the other, and returns when the server has
// ended. It stops the server as the official SDKs do: it closes stdin, after a grace period
// sends SIGTERM, and then SIGKILL. It calls before and after around each call.
func Run(ctx context.Context, s Server, stderr io.Writer, calls []Call, before func(Call), after func(Call, Result)) error {
	running, end := context.WithCancel(ctx)
	defer end()
	cmd := exec.CommandContext(running, s.Command, s.Args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endGrace
	cmd.Dir, cmd.Stderr = s.Dir, stderr
	for _, name := range []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"} { // as the SDKs do
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	c := &client{out: json.NewEncoder(stdin), in: json.NewDecoder(stdout)}
	err = c.run(calls, before, after)
	if ctx.Err() != nil {
		err = context.Cause(ctx) // the reason why the server has ended
	}
	_ = stdin.Close() // the server may have ended
	grace := time.AfterFunc(endGrace, end)
	defer grace.Stop()
	_ = cmd.Wait() // how it ends does not matter
	return err
}

// client is the agent's side of a server's pipes.
type client struct {
	out  *json.Encoder
	in   *json.Decoder
	last int // id of the last request
}

func (c *client) run(calls []Call, before func(Call), after func(Call, Result)) error {
	err := c.request("initialize", map[string]any{
		"protocolVersion": protocolVersion, "capabilities": struct{}{}, "clientInfo": map[string]string{"name": "demo", "version": "1.0.0"},
	}, nil)
	if err == nil {
		err = c.out.Encode(message{Version: "2.0", Method: "notifications/initialized"})
	}
	for _, call := range calls {
		if err != nil {
			break
		}
		before(call)
		var result struct {
			Content []struct{ Text string }
			IsError bool
		}
		if err = c.request("tools/call", call, &result); err == nil {
			r := Result{IsError: result.IsError}
			for _, part := range result.Content {
				r.Text += part.Text
			}
			after(call, r)
		}
	}
	return err
}

// request sends a request and waits for its result. It ignores other messages.
func (c *client) request(method string, params, result any) error {
	c.last++
	id := strconv.Itoa(c.last)
	if err := c.out.Encode(message{Version: "2.0", ID: json.RawMessage(id), Method: method, Params: params}); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		var raw json.RawMessage
		answer := message{Result: &raw}
		if err := c.in.Decode(&answer); err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the server has hung up")
			}
			return fmt.Errorf("%s: %w", method, err)
		}
		switch {
		case answer.Method != "" || string(answer.ID) != id:
		case answer.Error != nil:
			return fmt.Errorf("%s: an error came back: %w", method, answer.Error)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(raw, result)
		}
	}
}
