package agentconf

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func byName(name string) serverRule        { return serverRule{name: name, place: "S"} }
func byCommand(words ...string) serverRule { return serverRule{command: words, place: "S"} }
func byURL(pattern string) serverRule      { return serverRule{url: pattern, place: "S"} }
func started(name string, words ...string) candidate {
	return candidate{name: name, commands: [][]string{words}}
}
func remote(name, url string) candidate { return candidate{name: name, url: url} }

// Rules apply to what the owner wrote.
func TestServerLists(t *testing.T) {
	const denied, unlisted = "S denies it", "it is not on the list of allowed servers"
	files := started("files", "npx", "-y", "files")
	expanded := candidate{name: "files", commands: [][]string{{"${NPX}", "-y"}, {"/bin/npx", "-y"}}}
	wrapped := started("files", "/usr/libexec/thoughtgate/tg-shim", "--server-id", "files", "--", "npx", "-y", "files")
	for _, test := range []struct {
		name  string
		lists serverLists
		c     candidate
		want  string
	}{
		{"no rules", serverLists{}, files, ""},
		{"nothing is allowed", serverLists{listed: true}, files, unlisted},
		{"nothing remote is allowed", serverLists{listed: true}, remote("web", "https://x.test"), unlisted},
		{"denied by name", serverLists{denied: []serverRule{byName("files")}}, files, denied},
		{"another name", serverLists{denied: []serverRule{byName("file")}}, files, ""},
		{"names are told by case", serverLists{denied: []serverRule{byName("Files")}}, files, ""},
		{"denied by command", serverLists{denied: []serverRule{byCommand("npx", "-y", "files")}}, files, denied},
		{"one argument less", serverLists{denied: []serverRule{byCommand("npx", "-y")}}, files, ""},
		{"one argument more", serverLists{denied: []serverRule{byCommand("npx", "-y", "files", "/")}}, files, ""},
		{"another order", serverLists{denied: []serverRule{byCommand("npx", "files", "-y")}}, files, ""},
		{"denied as written", serverLists{denied: []serverRule{byCommand("${NPX}", "-y")}}, expanded, denied},
		{"denied as expanded", serverLists{denied: []serverRule{byCommand("/bin/npx", "-y")}}, expanded, denied},
		{"the rewritten entry would slip past", serverLists{denied: []serverRule{byCommand("npx", "-y", "files")}}, wrapped, ""},
		{"denied by URL", serverLists{denied: []serverRule{byURL("https://*.evil.test/*")}}, remote("web", "https://a.evil.test/mcp"), denied},
		{"a URL rule is none for a command", serverLists{denied: []serverRule{byURL("*")}}, files, ""},
		{"a rule without anything", serverLists{denied: []serverRule{{place: "S"}}}, candidate{}, ""},
		{"an empty command is none", serverLists{denied: []serverRule{byCommand()}}, files, ""},
		{"denied and allowed", serverLists{denied: []serverRule{byName("files")}, allowed: []serverRule{byName("files")}, listed: true}, files, denied},
		{"allowed by name", serverLists{allowed: []serverRule{byName("files")}, listed: true}, files, ""},
		{"another is allowed", serverLists{allowed: []serverRule{byName("clock")}, listed: true}, files, unlisted},
		{"a command is named, so a name is not enough", serverLists{allowed: []serverRule{byName("files"), byCommand("clock")}, listed: true}, files, unlisted},
		{"allowed by command", serverLists{allowed: []serverRule{byCommand("clock"), byCommand("npx", "-y", "files")}, listed: true}, files, ""},
		{"a name is enough for a remote one", serverLists{allowed: []serverRule{byName("web"), byCommand("clock")}, listed: true}, remote("web", "https://x.test"), ""},
		{"a URL is named, so a name is not enough", serverLists{allowed: []serverRule{byName("web"), byURL("https://y.test/*")}, listed: true}, remote("web", "https://x.test"), unlisted},
		{"allowed by URL", serverLists{allowed: []serverRule{byURL("https://x.test*")}, listed: true}, remote("web", "https://x.test"), ""},
		{"a URL rule is nothing to a command", serverLists{allowed: []serverRule{byName("files"), byURL("https://y.test/*")}, listed: true}, files, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.lists.refuses(test.c); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A server that is allowed by its command is not allowed any more when tg-shim starts it.
func TestAllowedForItsCommand(t *testing.T) {
	c := started("files", "npx")
	for _, test := range []struct {
		lists serverLists
		want  bool
	}{
		{serverLists{}, false},
		{serverLists{allowed: []serverRule{byName("files")}, listed: true}, false},
		{serverLists{allowed: []serverRule{byName("files"), byCommand("npx")}, listed: true}, true},
		{serverLists{allowed: []serverRule{byCommand("uvx")}, listed: true}, false},
	} {
		if got := test.lists.exactly(c); got != test.want {
			t.Errorf("%+v: %v", test.lists, got)
		}
	}
}

func TestMatchURL(t *testing.T) {
	for _, test := range []struct {
		pattern, url string
		want         bool
	}{
		{"https://x.test", "https://x.test", true},
		{"https://x.test", "https://x.test/", false},
		{"https://x.test/*", "https://x.test/", true},
		{"https://x.test/*", "https://x.test.evil/", false},
		{"*", "", true},
		{"", "", true},
		{"", "x", false},
		{"*://x.test:*/mcp", "http://x.test:80/mcp", true},
		{"*://x.test:*/mcp", "http://x.test:80/mcp/", false},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "a-c-b", false},
		{"a**c", "abc", true},
	} {
		if got := matchURL(test.pattern, test.url); got != test.want {
			t.Errorf("%q, %q: %v", test.pattern, test.url, got)
		}
	}
}

// NewPlan warns before the rewrite if the agent takes a rewritten entry for another one.
func TestAsksAgain(t *testing.T) {
	for _, a := range kinds {
		w := newWorld(t)
		env := w.env()
		env.Config = filepath.Join(w.home, "agent.json")
		w.write(env.Config, `{"mcpServers":{"a":{"command":"x"}},"servers":{"b":{"command":"x"}},"context_servers":{"c":{"command":"x"}}}`)
		p, err := NewPlan(a.Agent, env, w.shim)
		if err != nil {
			continue // its servers are in another file
		}
		told := slices.ContainsFunc(p.Warnings(), func(text string) bool {
			return strings.Contains(text, "again when it is restored")
		})
		if want := a.Name() == "vscode" || a.Name() == "cursor"; told != want {
			t.Errorf("%s: %v, %q", a.Name(), told, p.Warnings())
		}
	}
}

// No pattern may take long or panic.
func FuzzMatchURL(f *testing.F) {
	f.Add("https://*.x.test/*", "https://a.x.test/b")
	f.Fuzz(func(t *testing.T, pattern, url string) {
		if matchURL(pattern, url) && !matchURL("*"+pattern+"*", url) {
			t.Errorf("%q is %q, and is not when there may be more around it", url, pattern)
		}
		if !matchURL("*", url) {
			t.Errorf("%q is not anything", url)
		}
	})
}
