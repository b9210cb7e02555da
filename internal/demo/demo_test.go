package demo

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain also lets the test binary play the server, or one that never answers.
func TestMain(m *testing.M) {
	if len(os.Args) != 3 {
		os.Exit(m.Run())
	}
	if os.Args[1] == "silent" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	if err := Serve(context.Background(), os.Stdin, os.Stdout, os.Args[1], os.Args[2]); err != nil {
		os.Exit(1)
	}
}

func thisProgram(t *testing.T, args ...string) Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Server{Command: self, Args: args}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	s := thisProgram(t, "notes", "log")
	s.Dir = dir
	calls := []Call{
		{"read_note", json.RawMessage(`{"name":"plan"}`)}, {"delete_note", json.RawMessage(`{"name":"plan"}`)},
		{"send_mail", json.RawMessage(`{"to":"ana@example.com","text":"x"}`)},
	}
	var begun []Call
	var got []Result
	err := Run(t.Context(), s, os.Stderr, calls, func(c Call) { begun = append(begun, c) }, func(_ Call, r Result) { got = append(got, r) })
	want := []Result{{"release on Friday", false}, {"Deleted the note.", false}, {"Sent to ana@example.com.", false}}
	if err != nil || !slices.Equal(got, want) || len(begun) != len(calls) {
		t.Errorf("%v: %d begun, %+v", err, len(begun), got)
	}
	executed, err := Executed(filepath.Join(dir, "log"))
	if err != nil || !slices.Equal(executed, []string{"read_note", "delete_note", "send_mail"}) {
		t.Errorf("executed %q: %v", executed, err)
	}
	if executed, err := Executed(filepath.Join(dir, "none")); err != nil || executed != nil {
		t.Errorf("without a log: %q, %v", executed, err)
	}
}

func TestRunFails(t *testing.T) {
	nothing := func(Call) {}
	called := func(Call, Result) { t.Error("a result") }
	err := Run(t.Context(), thisProgram(t, "notes", filepath.Join(t.TempDir(), "log")), nil, []Call{{"fly", json.RawMessage(`{}`)}}, nothing, called)
	if err == nil || !strings.Contains(err.Error(), "an error came back: Unknown tool: fly (-32602)") {
		t.Errorf("an unknown tool: %v", err)
	}
	if err := Run(t.Context(), Server{Command: "true"}, nil, nil, nothing, called); err == nil {
		t.Error("a server that ends at once")
	}
	if err := Run(t.Context(), Server{Command: "/nonexistent"}, nil, nil, nothing, called); err == nil {
		t.Error("a server that is not there")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := Run(ctx, thisProgram(t, "silent", "log"), nil, nil, nothing, called); err != context.DeadlineExceeded {
		t.Errorf("one that never answers: %v", err)
	}
}

func TestReadConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(path, []byte(`{"mcpServers": {"notes": {"command": "a", "args": ["b"], "env": {"C": "d"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := ReadConfig(path, "notes"); err != nil || s.Command != "a" || !slices.Equal(s.Args, []string{"b"}) || s.Env["C"] != "d" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := ReadConfig(path, "other"); err == nil || !strings.Contains(err.Error(), "it names no server other") {
		t.Errorf("%v", err)
	}
}
