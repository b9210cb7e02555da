package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// runFiles is a server for files that does what it is told at its leisure: a link is made
// after a while, and what is to be read or written is waited for.
func runFiles() int {
	type in struct {
		Path    string `json:"path"`
		Target  string `json:"target,omitempty"`
		Content string `json:"content,omitempty"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "files", Version: "1.0.0"}, nil)
	add := func(name string, do func(in) (string, error)) {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
			text, err := do(a)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, err
		})
	}
	awaitFolder := func(path string) {
		for range 50 {
			if _, err := os.Stat(filepath.Dir(path)); err == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	add("make_link", func(a in) (string, error) {
		time.Sleep(100 * time.Millisecond)
		return "linked", os.Symlink(a.Target, a.Path)
	})
	add("put", func(a in) (string, error) { // a link, without saying so
		time.Sleep(100 * time.Millisecond)
		return "put", os.Symlink(a.Target, a.Path)
	})
	add("move", func(a in) (string, error) {
		time.Sleep(100 * time.Millisecond)
		return "moved", os.Rename(a.Path, a.Target)
	})
	add("write_file", func(a in) (string, error) {
		awaitFolder(a.Path)
		return "written", os.WriteFile(a.Path, []byte(a.Content), 0o600)
	})
	add("read_file", func(a in) (string, error) {
		awaitFolder(a.Path)
		text, err := os.ReadFile(a.Path)
		return string(text), err
	})
	if err := s.Run(background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, "files:", err)
		return 1
	}
	return 0
}

// Nothing is read or written through a link that a call of the same moment makes,
// whichever of both comes first, and through whichever server.
func TestLinkMadeAndUsedAtOnce(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules("schema: 1\ngovernance: {defaults: {action: forward}, rules: []}\napproval: {you: {destination: {type: local}, timeout: 5m}}\n")
	files := entry{Command: testBinary(t), Args: []string{h.path("work")}, Env: map[string]string{roleVar: "files"}}
	config := h.servers(0o600, map[string]entry{"one": files, "two": files})
	h.startDaemon()
	a := h.wrap(config)
	h.write("config/thoughtgate/secret.txt", "it is ours", 0o600)
	if err := os.Mkdir(h.path("work/far"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(h.path("config"), h.path("work/far/link")); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, links := range []string{"make_link", "put", "move"} {
		for _, server := range []string{"one", "two"} {
			for _, linkFirst := range []bool{true, false} {
				for _, uses := range []string{"write_file", "read_file"} {
					if n++; n%3 != 1 && links != "put" { // a case takes seconds
						continue
					}
					what := fmt.Sprintf("%d: %s, %s with %s, link first: %v", n, links, uses, server, linkFirst)
					out, file := h.path(fmt.Sprintf("work/out%d", n)), "secret.txt"
					if uses == "write_file" {
						file = fmt.Sprintf("new%d.txt", n)
					}
					use := order{Server: server, Tool: uses, Arguments: map[string]any{"path": filepath.Join(out, "thoughtgate", file), "content": "x"}}
					link := order{Server: "one", Tool: links, Arguments: map[string]any{"path": out, "target": h.path("config")}}
					if links == "move" { // a tree with a link in it, made by somebody else
						from := h.path(fmt.Sprintf("work/from%d", n))
						if err := os.Mkdir(from, 0o700); err != nil {
							t.Fatal(err)
						}
						if err := os.Symlink(h.path("config"), filepath.Join(from, "deep")); err != nil {
							t.Fatal(err)
						}
						link.Arguments = map[string]any{"path": from, "target": out}
						use.Arguments["path"] = filepath.Join(out, "deep", "thoughtgate", file)
					}
					var linked, used <-chan reply
					if linkFirst {
						_, linked = a.begin(link)
						_, used = a.begin(use)
					} else {
						_, used = a.begin(use)
						_, linked = a.begin(link)
					}
					// What names a link to ours from the start is asked about, too.
					for _, result := range []<-chan reply{linked, used} {
						var r reply
						if !eventually(func() bool {
							select {
							case r = <-result:
								return true
							default:
							}
							for _, q := range h.questions() {
								h.tgctl("approvals", "deny", q.ID)
							}
							return false
						}, patience) {
							t.Fatalf("%s: not answered\n%s", what, a.talk())
						}
						if strings.Contains(r.Text, "it is ours") {
							t.Errorf("%s: read through the link", what)
						}
					}
					if _, err := os.Stat(h.path("config/thoughtgate", file)); uses == "write_file" && err == nil {
						t.Errorf("%s: written through the link", what)
					}
				}
			}
		}
	}
	a.leave()
}
