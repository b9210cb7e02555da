package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
)

// ServerOptions configure a server. The zero value is a server called fake with a few notes.
type ServerOptions struct {
	Name  string
	Notes map[string]string // notes at the start; nil for two defaults
	// Log is a file to which each called tool appends a line before it does anything; ReadLog
	// reads it. Several servers may share it. Empty means no log.
	Log string
	// Legacy disables MCP 2026-07-28: server/discover is an unknown method.
	Legacy bool
}

// ErrCrash is the error of Serve after a call of the tool crash: the program must end at once
// without further output.
var ErrCrash = errors.New("told to crash")

const (
	legacyVersion = "2025-11-25"
	modernVersion = "2026-07-28"
)

var legacyVersions = []string{"2024-11-05", "2025-03-26", "2025-06-18", legacyVersion}

// JSON-RPC error codes that the server uses.
const (
	codeNoMethod = -32601
	codeParams   = -32602
)

// server is a running server.
type server struct {
	*peer
	options ServerOptions
	errw    io.Writer
	crash   chan struct{}

	mu        sync.Mutex // guards the fields below
	notes     map[string]string
	redefined bool
}

// Serve runs an MCP server on in and out, with errw as its standard error. It returns nil at
// the end of in, ErrCrash after a call of crash, and the cause of ctx if that ends first; then
// the caller must close in to end the reading goroutine.
func Serve(ctx context.Context, in io.Reader, out, errw io.Writer, o ServerOptions) error {
	if o.Name == "" {
		o.Name = "fake"
	}
	if o.Notes == nil {
		o.Notes = map[string]string{"groceries": "milk, bread, apples", "plan": "release on Friday"}
	}
	s := &server{peer: newPeer(out), options: o, errw: errw, crash: make(chan struct{}, 1), notes: maps.Clone(o.Notes)}
	s.request = s.serve
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, in) }()
	select {
	case err := <-ended:
		return err
	case <-s.crash:
		return ErrCrash
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// serve answers one request.
func (s *server) serve(ctx context.Context, m *message) (any, *Error, func() (any, *Error)) {
	var params struct {
		Version   string          `json:"protocolVersion"`
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      map[string]any  `json:"_meta"`
	}
	if len(m.Params) > 0 {
		if err := json.Unmarshal(m.Params, &params); err != nil {
			return nil, &Error{Code: codeParams, Message: err.Error()}, nil
		}
	}
	modern := params.Meta["io.modelcontextprotocol/protocolVersion"] != nil
	switch m.Method {
	case "initialize":
		version := legacyVersion
		if slices.Contains(legacyVersions, params.Version) {
			version = params.Version
		}
		return s.about("protocolVersion", version, false), nil, nil
	case "server/discover":
		if !s.options.Legacy {
			return s.about("supportedVersions", []string{modernVersion}, true), nil, nil
		}
	case "ping":
		return struct{}{}, nil, nil
	case "tools/list":
		return complete(map[string]any{"tools": s.definitions()}, modern), nil, nil
	case "resources/list":
		return complete(map[string]any{"resources": s.resources()}, modern), nil, nil
	case "resources/read":
		return s.readResource(params.URI, modern)
	case "prompts/list":
		return complete(map[string]any{"prompts": []any{map[string]any{"name": "summary", "description": "Sum up all notes"}}}, modern), nil, nil
	case "prompts/get":
		if params.Name == "summary" {
			text := map[string]any{"type": "text", "text": "Sum up these notes: " + s.allNotes()}
			return complete(map[string]any{"messages": []any{map[string]any{"role": "user", "content": text}}}, modern), nil, nil
		}
		return nil, &Error{Code: codeParams, Message: "Unknown prompt: " + params.Name}, nil
	case "tools/call":
		return s.callTool(ctx, params.Name, params.Arguments, modern)
	}
	return nil, &Error{Code: codeNoMethod, Message: "Method not found"}, nil
}

// about returns the result of either handshake.
func (s *server) about(member string, version any, modern bool) map[string]any {
	return complete(map[string]any{
		member:         version,
		"capabilities": map[string]any{"tools": map[string]any{"listChanged": true}, "resources": struct{}{}, "prompts": struct{}{}},
		"serverInfo":   map[string]any{"name": s.options.Name, "version": "1.0.0"},
	}, modern)
}

// complete adds resultType to a result in the modern era.
func complete(result map[string]any, modern bool) map[string]any {
	if modern {
		result["resultType"] = "complete"
	}
	return result
}

func (s *server) resources() []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(s.notes)) {
		list = append(list, map[string]any{"uri": "note://" + name, "name": name, "mimeType": "text/plain"})
	}
	return list
}

func (s *server) readResource(uri string, modern bool) (any, *Error, func() (any, *Error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, text := range s.notes {
		if uri == "note://"+name {
			s.executed("resources/read", json.RawMessage(fmt.Sprintf("%q", uri)))
			return complete(map[string]any{"contents": []any{map[string]any{"uri": uri, "mimeType": "text/plain", "text": text}}}, modern), nil, nil
		}
	}
	return nil, &Error{Code: -32002, Message: "Resource not found"}, nil
}
