package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func background() context.Context { return context.Background() }

// The client is a program with the official SDK: it starts the servers of a
// configuration file, and then does what it reads from stdin, one JSON object a
// line, any number at once. It ends at the end of stdin.

// order is what the client is told to do: call a tool, or list those of a
// server.
type order struct {
	ID        int            `json:"id"`
	Server    string         `json:"server"`
	Tool      string         `json:"tool,omitempty"`
	Arguments map[string]any `json:"arguments,omitempty"`
	Cancel    int            `json:"cancel,omitempty"`   // id of an order to give up instead
	Shell     string         `json:"shell,omitempty"`    // a command to run instead
	Patience  time.Duration  `json:"patience,omitempty"` // after which the call is given up; 0 for never
}

// reply is what came of an order. The client's first line is a reply without
// an id: ready, or why not.
type reply struct {
	ID      int      `json:"id"`
	Text    string   `json:"text,omitempty"`
	IsError bool     `json:"is_error,omitempty"`
	Tools   []string `json:"tools,omitempty"`
	Error   string   `json:"error,omitempty"`
}

const configVar = "E2E_CONFIG"

// runClient is the client program. As claude it is one that, besides, rewrites
// its own configuration all the time.
func runClient(role string) int {
	// An agent may live on when its wrap is killed, whatever it is told.
	signal.Ignore(syscall.SIGHUP)
	config := os.Getenv(configVar)
	if role == "claude" {
		config = filepath.Join(os.Getenv("HOME"), ".claude.json")
		stop := make(chan struct{})
		var writer sync.WaitGroup
		writer.Go(func() { rewriteAllTheTime(config, stop) })
		defer writer.Wait()
		defer close(stop)
	}
	c := &sdkClient{out: json.NewEncoder(os.Stdout), sessions: map[string]*mcp.ClientSession{}, running: map[int]context.CancelFunc{}}
	defer c.close()
	if err := c.connect(config); err != nil {
		c.reply(reply{Error: err.Error()})
		return 1
	}
	c.reply(reply{Text: "ready"})
	var work sync.WaitGroup
	defer work.Wait()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			c.reply(reply{Error: err.Error()})
			return 1
		}
		if o.Cancel != 0 {
			c.cancel(o.Cancel)
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		c.mu.Lock()
		c.running[o.ID] = cancel
		c.mu.Unlock()
		work.Go(func() { c.reply(c.do(ctx, o)) })
	}
	return 0
}

type sdkClient struct {
	sessions map[string]*mcp.ClientSession

	mu      sync.Mutex // guards what follows
	out     *json.Encoder
	running map[int]context.CancelFunc
}

func (c *sdkClient) reply(r reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.out.Encode(r)
}

func (c *sdkClient) cancel(id int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.running[id]; cancel != nil {
		cancel()
	}
}

func (c *sdkClient) connect(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var config struct {
		Servers map[string]struct {
			Command string            `json:"command"`
			Args    []string          `json:"args"`
			Env     map[string]string `json:"env"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for name, server := range config.Servers {
		cmd := exec.Command(server.Command, server.Args...)
		cmd.Stderr = os.Stderr
		for _, inherited := range []string{"HOME", "PATH", "USER", "LANG"} {
			cmd.Env = append(cmd.Env, inherited+"="+os.Getenv(inherited))
		}
		for k, v := range server.Env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		defer cancel()
		session, err := client.Connect(ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: 4 * time.Second}, nil)
		if err != nil {
			return fmt.Errorf("server %s: %w", name, err)
		}
		c.sessions[name] = session
	}
	return nil
}

func (c *sdkClient) close() {
	var all sync.WaitGroup
	for _, s := range c.sessions {
		all.Go(func() { _ = s.Close() })
	}
	all.Wait()
}

func (c *sdkClient) do(ctx context.Context, o order) reply {
	if o.Shell != "" {
		out, err := exec.CommandContext(ctx, "sh", "-c", o.Shell).CombinedOutput()
		return reply{ID: o.ID, Text: string(out), IsError: err != nil}
	}
	if o.Patience > 0 {
		limited, cancel := context.WithTimeout(ctx, o.Patience)
		defer cancel()
		ctx = limited
	}
	session := c.sessions[o.Server]
	if session == nil {
		return reply{ID: o.ID, Error: "no server " + o.Server}
	}
	r := reply{ID: o.ID}
	if o.Tool == "" {
		list, err := session.ListTools(ctx, nil)
		if err != nil {
			return reply{ID: o.ID, Error: err.Error()}
		}
		for _, t := range list.Tools {
			r.Tools = append(r.Tools, t.Name)
		}
		return r
	}
	if o.Arguments == nil {
		o.Arguments = map[string]any{} // a nil map would be sent as null
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: o.Tool, Arguments: o.Arguments})
	if err != nil {
		return reply{ID: o.ID, Error: err.Error()}
	}
	r.IsError = result.IsError
	var texts []string
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	r.Text = strings.Join(texts, "\n")
	return r
}

// rewriteAllTheTime does to ~/.claude.json what Claude Code does to it: takes
// its lock, reads it, changes something of its own, writes it beside and
// renames it.
func rewriteAllTheTime(path string, stop <-chan struct{}) {
	for n := 1; ; n++ {
		if err := rewriteOnce(path, n); err != nil && !errors.Is(err, os.ErrExist) {
			fmt.Fprintln(os.Stderr, "claude:", err)
		}
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func rewriteOnce(path string, n int) error {
	lock := path + ".lock"
	if err := os.Mkdir(lock, 0o700); err != nil {
		return err
	}
	defer os.Remove(lock)
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var state map[string]any
	if err := json.Unmarshal(raw, &state); err != nil {
		return err
	}
	state["numStartups"] = n
	state["tipsHistory"] = map[string]any{fmt.Sprint("tip-", n): n}
	out, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	temp := fmt.Sprintf("%s.tmp.%d.%x", path, os.Getpid(), n)
	if err := os.WriteFile(temp, out, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
