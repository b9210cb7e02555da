package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ACPOptions configure an agent that speaks the Agent Client Protocol. The zero value is a
// correct agent.
type ACPOptions struct {
	Version   int       // of the protocol; 0 means 1
	NeedsAuth bool      // session/new fails until the user logs in
	Silent    bool      // it answers nothing
	Deaf      bool      // it does not stop when told to
	Log       io.Writer // for the host's requests and notifications; nil for none
}

// ServeACP runs an agent that speaks the Agent Client Protocol on in and out, with errw as
// its standard error. Its prompt says what it does, one step a line:
//
//	say TEXT               a part of the answer, with its line end
//	think TEXT             a thought
//	plan TEXT              a plan of one step
//	stderr TEXT            a line on standard error
//	read PATH [LINE LIMIT] reads a file through the host and says it
//	write PATH TEXT        writes a file through the host
//	run COMMAND [ARGS...]  a terminal of the host; says its output and status
//	permit KIND TITLE      asks for permission and says what was chosen
//	ask METHOD [PARAMS]    any request; says the answer
//	tool SERVER TOOL ARGS  a call of an MCP server that the host named
//	env NAME               says a variable
//	await PATH             waits until a file exists
//	raw LINE               writes a line as it is
//	flood N                N parts of the answer, at once
//	reason WORD            the turn ends with that stop reason
//	fail TEXT              the turn ends with an error
//	exit CODE              the agent exits at once
//	hang                   nothing, until it is told to stop
//
// It returns the exit code for the program.
func ServeACP(in io.Reader, out, errw io.Writer, o ACPOptions) int {
	a := &acpAgent{peer: newPeer(out), options: o, errw: errw, exit: make(chan int, 1), cancelled: make(chan struct{})}
	a.request = a.serve
	a.notification = a.hear
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = a.run(context.Background(), in)
	}()
	select {
	case <-ended:
		return 0
	case code := <-a.exit:
		return code
	}
}

type acpAgent struct {
	*peer
	options ACPOptions
	errw    io.Writer
	exit    chan int

	once      sync.Once // for cancelled
	cancelled chan struct{}
	servers   []acpServer
	cwd       string
	started   map[string]*started
}

type acpServer struct {
	Name    string   `json:"name"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Env     []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
}

func (a *acpAgent) log(m *message) {
	if a.options.Log != nil {
		_, _ = fmt.Fprintf(a.options.Log, "%s %s\n", m.Method, m.Params)
	}
}

func (a *acpAgent) hear(m *message) {
	a.log(m)
	if m.Method == "session/cancel" && !a.options.Deaf {
		a.once.Do(func() { close(a.cancelled) })
	}
}

func (a *acpAgent) serve(ctx context.Context, m *message) (any, *Error, func() (any, *Error)) {
	a.log(m)
	if a.options.Silent {
		return nil, nil, func() (any, *Error) { <-ctx.Done(); return nil, nil }
	}
	switch m.Method {
	case "initialize":
		version := a.options.Version
		if version == 0 {
			version = 1
		}
		return map[string]any{
			"protocolVersion": version, "agentCapabilities": map[string]any{"loadSession": false},
			"authMethods": []map[string]string{{"id": "key", "name": "An API key"}},
		}, nil, nil
	case "session/new":
		if a.options.NeedsAuth {
			return nil, &Error{Code: -32000, Message: "Authentication required"}, nil
		}
		var params struct {
			Cwd     string      `json:"cwd"`
			Servers []acpServer `json:"mcpServers"`
		}
		if err := json.Unmarshal(m.Params, &params); err != nil {
			return nil, &Error{Code: codeParams, Message: err.Error()}, nil
		}
		a.servers, a.cwd = params.Servers, params.Cwd
		return map[string]any{"sessionId": "s-1"}, nil, nil
	case "session/prompt":
		return nil, nil, func() (any, *Error) { return a.prompt(ctx, m.Params) }
	}
	return nil, &Error{Code: codeNoMethod, Message: "Method not found"}, nil
}

// prompt carries out the steps of a prompt.
func (a *acpAgent) prompt(ctx context.Context, raw json.RawMessage) (any, *Error) {
	var params struct {
		Prompt []struct {
			Text string `json:"text"`
		} `json:"prompt"`
	}
	if err := json.Unmarshal(raw, &params); err != nil || len(params.Prompt) == 0 {
		return nil, &Error{Code: codeParams, Message: "no prompt"}
	}
	a.started = map[string]*started{}
	defer func() {
		for _, s := range a.started {
			_ = s.stop()
		}
	}()
	reason := "end_turn"
	for _, line := range strings.Split(params.Prompt[0].Text, "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "reason":
			reason = rest
			continue
		case "fail":
			return nil, &Error{Code: -32603, Message: rest}
		}
		a.step(ctx, word, rest)
		select {
		case <-a.cancelled:
			return map[string]string{"stopReason": "cancelled"}, nil
		default:
		}
	}
	return map[string]string{"stopReason": reason}, nil
}

// step carries out one step. It reports errors in the answer.
func (a *acpAgent) step(ctx context.Context, word, rest string) {
	switch word {
	case "say":
		a.say(rest + "\n")
	case "think":
		a.update("agent_thought_chunk", "content", map[string]string{"type": "text", "text": rest})
	case "plan":
		a.update("plan", "entries", []map[string]string{{"content": rest, "priority": "high", "status": "pending"}})
	case "stderr":
		_, _ = fmt.Fprintln(a.errw, rest)
	case "raw":
		a.mu.Lock()
		_, _ = io.WriteString(a.out, rest+"\n")
		a.mu.Unlock()
	case "env":
		a.say(fmt.Sprintf("%s=%s\n", rest, os.Getenv(rest)))
	case "flood":
		n, _ := strconv.Atoi(rest)
		for i := range n {
			a.say(fmt.Sprintf("%d\n", i))
		}
	case "await":
		for _, err := os.Stat(rest); err != nil; _, err = os.Stat(rest) {
			if !a.wait(ctx, 10*time.Millisecond) {
				return
			}
		}
	case "exit":
		code, _ := strconv.Atoi(rest)
		a.exit <- code
		select {}
	case "hang":
		for a.wait(ctx, time.Hour) {
		}
	case "":
	default:
		a.asks(word, rest)
	}
}

// wait waits for d. It returns false if the turn is cancelled meanwhile or the host leaves.
func (a *acpAgent) wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-a.cancelled:
		return false
	case <-time.After(d):
		return true
	}
}
