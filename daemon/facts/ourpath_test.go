package facts

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Spellings that lead a server to a file of ours, but are not obvious from the text.
func TestOursAsServersReadIt(t *testing.T) {
	h := newFixture(t)
	if err := os.Symlink("/proc/self/cwd/../.config/thoughtgate", h.project+"/via-proc"); err != nil {
		t.Fatal(err)
	}
	config := h.home + "/.config/thoughtgate/thoughtgate.yaml"
	for _, value := range []string{
		// Longer than a path may be, until the server normalizes it.
		h.home + "/" + strings.Repeat("a/../", 1000) + ".config/thoughtgate/thoughtgate.yaml", h.home + strings.Repeat("/", 5000) + ".claude.json",
		strings.Repeat("./", 3000) + "../.claude.json",
		// Through /proc, where each process sees itself.
		"/proc/self/cwd/../.claude.json", "/proc/thread-self/cwd/../.claude.json", "/dev/fd/../cwd/../.claude.json", "via-proc/thoughtgate.yaml",
		// URLs with a host, which many parsers ignore.
		"file://LOCALHOST" + config, "FILE://localhost" + config, "file://any.host" + config, "fs://localhost" + config, "vscode-remote://wsl" + config,
		// Blanks and quotes, which servers trim.
		" " + h.home + "/a b/../.claude.json", h.home + "/a b/../.claude.json\n", "'" + h.home + "/a b/../.claude.json'",
		"${HOME:-/x}/.claude.json", "$PWD/../.claude.json",
		h.home + "/.config/{thoughtgate,x}/thoughtgate.yaml", h.home + "/.conf{ig,x}/thoughtgate", h.home + "/.claude.jso[!x]", h.home + "/@(.claude.json)",
	} {
		if !h.isOurs("write_file", "path", value) {
			t.Errorf("%.100q is not seen to be ours", value)
		}
	}
	for _, command := range []string{"rm -r ~/.config", "rm -rf ..", "mv " + h.home + "/.config x"} {
		if !h.isOurs("shell", "command", command) {
			t.Errorf("command %q is not seen to take ours away", command)
		}
	}
	if !h.isOurs("copy_directory", "destination", h.home+"/.config") {
		t.Error("writing over the folder above ours is not seen")
	}
}

func TestOursInTwoMembers(t *testing.T) {
	h := newFixture(t)
	for args, want := range map[string]bool{
		`{"files":{"` + h.home + `/.claude.json":"x"}}`:                                    true,
		`{"files":{"../.claude.json":{"edits":[]}}}`:                                       true,
		`{"root":"` + h.home + `","path":".config/thoughtgate/thoughtgate.yaml"}`:          true,
		`{"files":["thoughtgate/x"],"repo":"` + h.home + `/.config"}`:                      true,
		`{"cwd":"~/.config","pattern":"thoughtgate/**"}`:                                   true,
		`{"path":"` + h.home + `/.config","edits":{"thoughtgate/thoughtgate.yaml":1}}`:     true,
		`{"path":".config/thoughtgate/thoughtgate.yaml"}`:                                  false,
		`{"root":"` + h.home + `","path":"docs/x.md","pattern":"**/*.go"}`:                 false,
		`{"headers":{"content/type":"text/plain"},"url":"https://a.example/.claude.json"}`: false,
	} {
		c := callTo("write_file", args)
		c.Project = h.project
		found := false
		for _, f := range h.finder.Of(context.Background(), c) {
			found = found || f.Name == gate.FactOurs
		}
		if found != want {
			t.Errorf("%s: got %v, want %v", args, found, want)
		}
	}
	// The folder in which the server was started, or that it serves, may not be the project.
	c := callTo("write_file", `{"path":".config/thoughtgate/thoughtgate.yaml"}`)
	c.Project = h.project
	c.Cwd = h.home
	if !hasFact(h.finder.Of(context.Background(), c), gate.FactOurs, "path") {
		t.Error("a path from the server's own folder is not seen")
	}
	c.Cwd, c.Command = "", []string{"mcp-server-git", "--repository=" + h.home}
	if !hasFact(h.finder.Of(context.Background(), c), gate.FactOurs, "") {
		t.Error("a path within what the server was started on is not seen")
	}
}

// Each folder in which a path may begin needs a single system call, even if a server would trim
// the path. TestFollowAsLinkByLink covers further costs.
func TestAPathIsFollowedOnce(t *testing.T) {
	h := newFixture(t)
	for value, want := range map[string]int{
		"/srv/notes/7.txt": 1, "docs/x.md": 1, "../x/./docs": 1, "link-to-docs/x": 1, "hello": 1, " docs/x.md ": 2, "a\nb": 0, "": 0,
	} {
		c := callTo("read_file", `{"path":"`+value+`","text":""}`)
		c.Project, c.Cwd = h.project, h.project
		in := h.finder.inspect(context.Background(), c)
		in.json(c.Arguments())
		if in.follow != want {
			t.Errorf("links of %q are followed %d times, want %d", value, in.follow, want)
		}
	}
}
