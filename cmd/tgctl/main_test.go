// A test runs commands one after the other, and starts programs. What goroutines share is in the
// packages of the commands, whose tests have the race detector.
//
//gotest:plain commands run one after the other, and the rest is in other processes
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/test/fake"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// TestMain runs another program if the test binary was started under its name.
func TestMain(m *testing.M) {
	if code, ok := fake.PlayExtension(os.Args[1:]); ok {
		os.Exit(code)
	}
	switch filepath.Base(os.Args[0]) {
	case connect.DaemonName:
		os.Exit(consoletest.PlayDaemon())
	case "eventually":
		os.Exit(playEventually())
	case "tgctl-at-noon":
		os.Exit(playTgctlAtNoon())
	case "fake-server":
		os.Exit(playServer())
	case "fake-remote":
		os.Exit(playRemote())
	case "fake-outsider":
		os.Exit(playOutsider())
	case "fake-window":
		os.Exit(playWindow())
	case "fake-agent":
		os.Exit(playAgent())
	case "fake-acp":
		os.Exit(playACP())
	case "fake-typed":
		os.Exit(fake.TypedAgent(os.Stdin, os.Stdout, os.Stderr))
	}
	// Parallel tests wait more than they compute. -parallel overrides this.
	if err := flag.Set("test.parallel", fmt.Sprint(2*runtime.GOMAXPROCS(0))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	rig.ResetSIGHUP()
	rig.EndAtOnce()
	code := m.Run()
	if removeBuilt != nil {
		removeBuilt()
	}
	os.Exit(code)
}

// playServer runs an MCP server. With an argument it logs its calls to that file.
func playServer() int {
	o := fake.ServerOptions{}
	if len(os.Args) > 1 {
		o.Log = os.Args[1]
	}
	if err := fake.Serve(context.Background(), os.Stdin, os.Stdout, os.Stderr, o); err != nil {
		return 1
	}
	return 0
}

// playRemote runs an MCP server behind an address, until it is killed. It writes a configuration from a
// template in which ADDRESS stands for where it is, and a line for each call into a log: the tool and
// the header X-Key.
func playRemote() int {
	template, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	log, err := os.OpenFile(os.Args[3], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer log.Close()
	server := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
	for _, name := range []string{"read_note", "ask_note", "delete_note"} {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			fmt.Fprintln(log, name, r.Extra.Header.Get("X-Key"))
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " from afar"}}}, nil, nil
		})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = os.WriteFile(os.Args[2], []byte(strings.ReplaceAll(string(template), "ADDRESS", "http://"+listener.Addr().String())), 0o600)
	}
	if err == nil {
		err = http.Serve(listener, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// playAgent runs an agent: it reads the configuration and the script named by its
// arguments, and prints a line for each result.
func playAgent() int {
	script, err := os.ReadFile(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	steps, err := fake.ReadScript(string(script))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	err = fake.RunAgent(context.Background(), fake.AgentOptions{Config: os.Args[1], Steps: steps, Stderr: os.Stderr, Report: func(r fake.Result) {
		fmt.Printf("%s: error %v, %v: %s\n", r.Tool, r.IsError, r.Err, strings.ReplaceAll(r.Text, "\n", " "))
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// playACP runs an agent that speaks the Agent Client Protocol. Each argument selects a
// misbehaviour; log=FILE logs the messages that it gets.
func playACP() int {
	o := fake.ACPOptions{}
	for _, arg := range os.Args[1:] {
		word, value, _ := strings.Cut(arg, "=")
		switch word {
		case "version":
			o.Version = int(value[0] - '0')
		case "auth":
			o.NeedsAuth = true
		case "silent":
			o.Silent = true
		case "deaf":
			o.Deaf = true
		case "log":
			log, err := os.OpenFile(value, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			defer log.Close()
			o.Log = log
		}
	}
	return fake.ServeACP(os.Stdin, os.Stdout, os.Stderr, o)
}
