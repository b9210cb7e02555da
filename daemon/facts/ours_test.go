package facts

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// fixture is a home with ThoughtGate's folders, a wrapped configuration, and a project with links
// to them.
type fixture struct {
	home, project string
	finder        *Finder
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	root := t.TempDir()
	h := fixture{home: root + "/home", project: root + "/home/project"}
	for _, dir := range []string{h.home + "/.config/thoughtgate/policies", h.home + "/.local/state/thoughtgate/audit", h.project + "/docs"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{h.home + "/.config/thoughtgate/thoughtgate.yaml", h.home + "/.local/state/thoughtgate/state.db",
		h.home + "/.claude.json", h.project + "/README.md"} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"link-to-state": h.home + "/.local/state/thoughtgate", "link-to-config": "../.config", "link-to-link": "link-to-config/thoughtgate", "link-to-docs": "docs",
		"agent.json": "../.claude.json", "loop-a": "loop-b", "loop-b": "loop-a", "up": "..", "dangling": "../.config/thoughtgate/new.yaml",
	} {
		if err := os.Symlink(target, h.project+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(h.home+"/.local/state/thoughtgate/state.db", h.project+"/hard.db"); err != nil {
		t.Fatal(err)
	}
	h.finder = New(Options{Home: h.home, Ours: func() []string {
		return []string{h.home + "/.config/thoughtgate", h.home + "/.local/state/thoughtgate", h.home + "/.claude.json", h.home + "/.claude.json.thoughtgate-*"}
	}})
	return h
}

func (h fixture) isOurs(tool, member, value string) bool {
	c := callTo(tool, `{`+string(quoted(member, true))+`:`+string(quoted(value, true))+`}`)
	c.Project = h.project
	return hasFact(h.finder.Of(context.Background(), c), gate.FactOurs, member)
}

func hasFact(facts []gate.Fact, name, member string) bool {
	for _, f := range facts {
		if f.Name == name && f.Member == member {
			return true
		}
	}
	return false
}

func TestOursInEachSpelling(t *testing.T) {
	h := newFixture(t)
	t.Setenv("XDG_CONFIG_HOME", h.home+"/.config")
	config := h.home + "/.config/thoughtgate"
	for _, value := range []string{
		config, config + "/", config + "/thoughtgate.yaml", config + "/policies/new.cedar", h.home + "/.local/state/thoughtgate/audit/000001.jsonl", h.home + "/.claude.json",
		h.home + "/.claude.json.thoughtgate-backup", h.home + "/.claude.json.thoughtgate-backup.7", h.home + "/.claude.json.thoughtgate-swap-0123", "../.claude.json.thoughtgate-new-1",
		"~/.claude.json.thoughtgate-lock", "$HOME/x/../.claude.json.thoughtgate-altered", "file://" + h.home + "/.claude%2ejson.thoughtgate-swap-1", h.project + "/up/.claude.json.thoughtgate-new-1",
		"cp evil ~/.claude.json.thoughtgate-swap-1", h.home + "/.claude.json.thought*", h.home + "/.claude.json.thoughtgate-n*", h.home + "/*.thoughtgate-*",
		h.home + "//.config/./thoughtgate/thoughtgate.yaml", h.project + "/../.config/thoughtgate/thoughtgate.yaml",
		"../.config/thoughtgate/thoughtgate.yaml", "./../.claude.json", "~/.config/thoughtgate/thoughtgate.yaml", "~/x/../.claude.json", "$HOME/.claude.json",
		"${HOME}/.config/thoughtgate", "$XDG_CONFIG_HOME/thoughtgate/thoughtgate.yaml", "file://" + config + "/thoughtgate.yaml", "file://localhost" + config,
		"file:" + config, "file://" + h.home + "/%2econfig/thoughtgate", "@" + config + "/thoughtgate.yaml", strings.ReplaceAll(config, "/", `\`),
		strings.ReplaceAll(url.PathEscape(config), "%2F", "/"), url.PathEscape(config), h.home + "/.config/*/thoughtgate.yaml", h.home + "/.config/though*", h.home + "/.conf?g/thoughtgate/**",
		h.home + "/.config/{thoughtgate,x}/thoughtgate.yaml", h.home + "/.config/{y,{thoughtgate,x}}/thoughtgate.yaml", h.home + "/{.config/thoughtgate,docs}/thoughtgate.yaml",
		"{~/.config/thoughtgate,/tmp}/thoughtgate.yaml", h.home + "/{docs/..,x}/.config/thoughtgate/x", h.home + "/.config/thoughtgat{a..z}/thoughtgate.yaml", "../{,.}config/thoughtgate/thoughtgate.yaml",
		h.home + "/.config/{" + strings.Repeat("a,", 300) + "thoughtgate}/thoughtgate.yaml", h.home + "/{" + strings.Repeat("a,", 300) + ".config/thoughtgate}/thoughtgate.yaml",
		h.home + "/.config/@(thoughtgate|x)/thoughtgate.yaml", "../*/{thoughtgate,x}/thoughtgate.yaml",
		// Through links.
		"link-to-state/state.db", "./link-to-state", h.project + "/link-to-config/thoughtgate/x", "link-to-link/thoughtgate.yaml", "agent.json", "up/.claude.json",
		"link-to-docs/../../.claude.json", "dangling", "hard.db", h.project + "/hard.db",
	} {
		if !h.isOurs("read_file", "path", value) {
			t.Errorf("path %q is not seen to be ours", value)
		}
	}
	for _, command := range []string{
		"cat " + config + "/thoughtgate.yaml", "cat '" + config + "/thoughtgate.yaml'", "rm -rf ~/.config/thoughtgate", "echo x >~/.claude.json",
		"sed -i s/a/b/ ../.config/thoughtgate/thoughtgate.yaml", "cp x --target=" + config, "docker run -v " + h.home + "/x/../.config/thoughtgate:/c i", "cat link-to-state/state.db",
		"cd /tmp\ncat $HOME/.claude.json\n", "ls " + h.home + "/.config/though*", "true;cat " + config + "; true",
	} {
		if !h.isOurs("shell", "command", command) {
			t.Errorf("command %q is not seen to be ours", command)
		}
	}
	// Content that is written counts, too, if it names a path plainly.
	if !h.isOurs("write_file", "content", "#!/bin/sh\nrm "+config+"/thoughtgate.yaml\n") {
		t.Error("a script that names the configuration is not seen")
	}
	// Removing a parent folder removes ours.
	for _, value := range []string{h.home, h.home + "/.config", "..", "~", "link-to-config"} {
		if !h.isOurs("delete_directory", "path", value) || !h.isOurs("move_file", "source", value) {
			t.Errorf("%q holds ours, and removing it is not seen", value)
		}
	}
}

func TestNotOurs(t *testing.T) {
	h := newFixture(t)
	for _, value := range []string{
		"README.md", "docs", "link-to-docs", "loop-a", "loop-a/x", h.home, "~", "..", ".", "/", "", "up", h.home + "/.config", h.home + "/.config/thoughtgate2/x",
		h.home + "/.config/thoughtgate.yaml", h.home + "/.claude.json5", h.home + "/.claude", "/mnt" + h.home + "/.config/thoughtgate", "thoughtgate.yaml", "docs/thoughtgate/x",
		"https://example.com" + h.home + "/.config", "hello", "a b c", "*", "*.md", "docs/*", "../*.txt", "{a,b}", "docs/{a,b}", `{"a":1,"b":2}`, `{"a":[1,2,{"b":"c,d"}],"e":null}`, "{a,{b,c}}/x", "x{1..9}", "{" + strings.Repeat(`"a":1,`, 100) + `"b":2}`, "~other/.claude.json", "x\x00y",
	} {
		if h.isOurs("read_file", "path", value) {
			t.Errorf("path %q is taken for ours", value)
		}
	}
	for _, value := range []string{h.project, "docs", "README.md", "link-to-docs"} {
		if h.isOurs("delete_directory", "path", value) {
			t.Errorf("removing %q is taken for ours", value)
		}
	}
	if h.isOurs("write_file", "content", "ThoughtGate keeps its settings in thoughtgate.yaml; see docs/config.md.") {
		t.Error("prose about thoughtgate is taken for ours")
	}
	for _, text := range []string{"/**\n * Adds two numbers.\n */\nexport function add(a, b) {}\n", "/** One line. */", "/**"} {
		if h.isOurs("write_file", "content", text) {
			t.Errorf("the comment %q is taken for ours", text)
		}
	}
	if !h.isOurs("find_files", "pattern", "/**") {
		t.Error("a pattern for all files is not taken for ours")
	}
}

func TestOursFollowsWhatIsWrapped(t *testing.T) {
	h := newFixture(t)
	var mu sync.Mutex
	paths := []string{}
	h.finder = New(Options{Home: h.home, Ours: func() []string {
		mu.Lock()
		defer mu.Unlock()
		return paths
	}})
	if h.isOurs("read_file", "path", "../.claude.json") {
		t.Error("ours before it was wrapped")
	}
	mu.Lock()
	paths = []string{h.home + "/.claude.json"}
	mu.Unlock()
	if !h.isOurs("read_file", "path", "../.claude.json") {
		t.Error("not ours once it was wrapped")
	}
}

// A configuration folder that is a link is ours under both names.
func TestOursBehindALink(t *testing.T) {
	h := newFixture(t)
	real := filepath.Join(h.home, "dotfiles")
	if err := os.Rename(h.home+"/.config", real); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, h.home+"/.config"); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"~/dotfiles/thoughtgate/thoughtgate.yaml", "~/.config/thoughtgate/thoughtgate.yaml"} {
		if !h.isOurs("read_file", "path", value) {
			t.Errorf("%q is not seen to be ours", value)
		}
	}
}

func TestOursAsThePlatformComparesNames(t *testing.T) {
	h := newFixture(t)
	want := runtime.GOOS == "darwin"
	if got := h.isOurs("read_file", "path", h.home+"/.Config/THOUGHTGATE/thoughtgate.yaml"); got != want {
		t.Errorf("other case: got %v, want %v", got, want)
	}
}

func TestOursResource(t *testing.T) {
	h := newFixture(t)
	c := &gate.Call{Message: gate.Message{Method: "resources/read", Subject: "file://" + h.home + "/.config/thoughtgate/thoughtgate.yaml"}}
	if !hasFact(h.finder.Of(context.Background(), c), gate.FactOurs, "") {
		t.Error("a resource that is ours is not seen")
	}
}
