//lint:file-ignore SA1019 sampling is deprecated, and what servers do

package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMain also lets the test binary play the server.
func TestMain(m *testing.M) {
	if os.Getenv("FAKE_SERVER") == "" {
		os.Exit(m.Run())
	}
	deaf := os.Getenv("FAKE_SERVER") == "deaf"
	if deaf {
		signal.Ignore(syscall.SIGTERM)
	}
	err := Serve(context.Background(), os.Stdin, os.Stdout, os.Stderr, ServerOptions{Log: os.Getenv("FAKE_LOG")})
	if err != nil {
		os.Exit(70)
	}
	if deaf { // also to the end of stdin
		time.Sleep(time.Hour)
	}
}

// connect returns an official client connected to a server.
func connect(t *testing.T, o ServerOptions, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(context.Background(), fromClient, toClient, io.Discard, o) }()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		session.Close()
		toServer.Close()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return session
}

func text(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) (string, bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return result.Content[0].(*mcp.TextContent).Text, result.IsError
}

// An official client works with the server, in either era.
func TestServerWithOfficialClient(t *testing.T) {
	for name, legacy := range map[string]bool{"modern": false, "legacy": true} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			session := connect(t, ServerOptions{Log: log, Legacy: legacy, Notes: map[string]string{"a": "alpha"}}, &mcp.ClientOptions{
				//lint:ignore SA1019 servers of the legacy era ask for it
				CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
					//lint:ignore SA1019 servers of the legacy era ask for it
					return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "four"}}, nil
				},
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "blue"}}, nil
				},
			})
			list, err := session.ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != len(tools) {
				t.Fatalf("%d tools, want %d: %v", len(list.Tools), len(tools), err)
			}
			for _, call := range []struct {
				tool      string
				arguments map[string]any
				want      string
				isError   bool
			}{
				{"list_notes", nil, "a", false},
				{"read_note", map[string]any{"name": "a"}, "alpha", false},
				{"read_note", map[string]any{"name": "b"}, `there is no note "b"`, true},
				{"write_note", map[string]any{"name": "b", "text": "beta"}, "Written.", false},
				{"delete_note", map[string]any{"name": "b"}, "Deleted b.", false},
				{"send_mail", map[string]any{"to": "x@y", "text": "hi"}, "Sent to x@y.", false},
				{"echo", map[string]any{"x": []any{1.5}}, `{"x":[1.5]}`, false},
				{"slow", map[string]any{"milliseconds": 1}, "Waited.", false},
				{"big", map[string]any{"bytes": 33}, "0123456789abcdef0123456789abcdef0", false},
				{"noise", map[string]any{"lines": 2}, "Made noise.", false},
			} {
				got, isError := text(t, session, call.tool, call.arguments)
				if got != call.want || isError != call.isError {
					t.Errorf("%s: got %q (error: %v), want %q", call.tool, got, isError, call.want)
				}
			}
			if legacy {
				if got, _ := text(t, session, "ask_model", map[string]any{"prompt": "2+2"}); got != "The model said: four" {
					t.Errorf("ask_model: %q", got)
				}
				if got, _ := text(t, session, "ask_user", map[string]any{"message": "colour?"}); got != "The user chose to accept: blue" {
					t.Errorf("ask_user: %q", got)
				}
			}
			executed, err := ReadLog(log)
			if err != nil || len(executed) < 10 || executed[1].Tool != "read_note" || string(executed[1].Arguments) != `{"name":"a"}` {
				t.Errorf("log: %v %v", executed, err)
			}
			resource, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "note://a"})
			if err != nil || resource.Contents[0].Text != "alpha" {
				t.Errorf("resource: %v %v", resource, err)
			}
		})
	}
}

// Cancelling a slow call ends it without an answer; the server continues.
func TestServerCancels(t *testing.T) {
	session := connect(t, ServerOptions{Legacy: true}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"milliseconds": 60000}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if got, _ := text(t, session, "list_notes", nil); got != "groceries\nplan" {
		t.Errorf("got %q", got)
	}
}

func TestServerCrashes(t *testing.T) {
	var out bytes.Buffer
	in := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"crash"}}` + "\n"
	reader, writer := io.Pipe()
	defer writer.Close()
	if err := Serve(t.Context(), io.MultiReader(strings.NewReader(in), reader), &out, io.Discard, ServerOptions{}); !errors.Is(err, ErrCrash) {
		t.Errorf("got %v, want ErrCrash", err)
	}
	if out.Len() > 0 {
		t.Errorf("it answered before it crashed: %s", out.String())
	}
}

func writeConfig(t *testing.T, env map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.json")
	raw, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"notes": map[string]any{"command": os.Args[0], "env": env}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAgent(t *testing.T) {
	t.Setenv("SECRET_OF_THE_AGENT", "x")
	log := filepath.Join(t.TempDir(), "log")
	steps, err := ReadScript(`
# a comment
list notes
call notes read_note {"name": "plan"}
call notes no_such_tool
call notes environment {"name": "SECRET_OF_THE_AGENT"}
call notes ask_user {"message": "well?"}
call notes crash
call notes list_notes
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = RunAgent(t.Context(), AgentOptions{
		Config: writeConfig(t, map[string]string{"FAKE_SERVER": "1", "FAKE_LOG": log}), Steps: steps,
		Report: func(r Result) {
			said := r.Text
			switch {
			case r.Failed != nil:
				said = "failed: " + r.Failed.Error()
			case r.Err != nil:
				said = fmt.Sprint("error: ", r.Err.Code)
			case r.Tool == "":
				said = fmt.Sprint(len(r.Tools), " tools")
			}
			got = append(got, said)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprint(len(tools), " tools"), "release on Friday", "error: -32602", "", "The user chose to accept: yes"}
	if diff := cmp.Diff(want, got[:5]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, s := range got[5:] {
		if !strings.HasPrefix(s, "failed: ") {
			t.Errorf("after the crash: got %q, want a failure", s)
		}
	}
	executed, err := ReadLog(log)
	if err != nil || len(executed) == 0 {
		t.Fatalf("log: %v %v", executed, err)
	}
	if alive(executed[0].PID) {
		t.Error("the server is still there")
	}
}

// A server that ignores the end of its stdin and SIGTERM is killed.
func TestAgentStopsADeafServer(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	err := RunAgent(t.Context(), AgentOptions{
		Config: writeConfig(t, map[string]string{"FAKE_SERVER": "deaf", "FAKE_LOG": log}), Steps: []Step{{Server: "notes", Tool: "list_notes"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	executed, err := ReadLog(log)
	if err != nil || len(executed) != 1 {
		t.Fatalf("log: %v %v", executed, err)
	}
	if alive(executed[0].PID) {
		t.Error("the server is still there")
	}
}

func TestAgentFails(t *testing.T) {
	for name, config := range map[string]string{"nothing": "", "no JSON": "{", "no servers": `{"mcpServers":{}}`, "no program": `{"mcpServers":{"a":{"command":"/nonexistent"}}}`} {
		path := filepath.Join(t.TempDir(), "mcp.json")
		if config != "" {
			if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := RunAgent(t.Context(), AgentOptions{Config: path}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, script := range []string{"dance", "call x", "list", "call a b {"} {
		if _, err := ReadScript(script); err == nil {
			t.Errorf("%q: no error", script)
		}
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
