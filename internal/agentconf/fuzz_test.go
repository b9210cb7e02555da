package agentconf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzRewrite rewrites and restores anything that looks like a configuration. If it is refused,
// nothing may be changed.
func FuzzRewrite(f *testing.F) {
	seeds, err := filepath.Glob("testdata/claude-code/*.json")
	if err != nil || len(seeds) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range seeds {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(twoServers))
	f.Add([]byte(`{"context_servers":{"a":{"command":{"path":"x","args":["y"],"env":{"A":"b"}},"settings":{}},"b":{"command":"x","args":[],"enabled":false}}}`))
	f.Add([]byte(`{"inputs":[],"servers":{"a":{"type":"stdio","command":"x","env":{"N":3,"G":null}}},"mcp.servers":{"b":{"command":"y"}}}`))
	f.Add([]byte(`{"flat":{"type":"local","command":"x"}}`))
	f.Add([]byte("\ufeff{\"mcpServers\":{\"a\":{\"command\":\"x\",\"args\":null,\"env\":null},},}"))
	line := Line{Shim: "/opt/tg-shim", Socket: "/run/s", Session: "5e55"}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 4000 {
			return
		}
		doc, err := lenient.Parse(text)
		if err != nil {
			return
		}
		s := &Source{Path: "x", doc: doc}
		s.addServers("any", []string{"mcpServers"})
		s.addServers("any", []string{"projects", "/home/ada/src/shop", "mcpServers"})
		zed{}.add(s, "any", zedList)
		for _, list := range slices.Concat(vscodeList, settingsLists) {
			s.addServers("any", list, portableType)
		}
		if len(s.Entries) == 0 {
			s.addFlat("any")
		}
		p := &planned{doc: doc, entries: s.Entries}
		rewritten, before, err := rewrite(doc, p.governed(), nil, line)
		if err != nil || len(before) == 0 {
			return
		}
		again, err := lenient.Parse(rewritten)
		if err != nil {
			t.Fatalf("%q: %v", rewritten, err)
		}
		taken, err := removeLines(again, before, line.Session, line.Shim)
		if err != nil || string(taken.text) != string(text) || taken.lines != len(before) {
			t.Fatalf("%d of %d lines, %v\nbefore    %q\nrewritten %q\nafter     %q", taken.lines, len(before), err, text, rewritten, taken.text)
		}
	})
}

// FuzzLaunched parses any command line, and checks that only absolute paths are searched for
// files.
func FuzzLaunched(f *testing.F) {
	for _, command := range []string{
		"code\n--user-data-dir=x\n--profile\nWeb\n.", "open\n-na\nVisual Studio Code\n--args\n--folder-uri\nfile:///src",
		"flatpak\nrun\n--x\ndev.zed.Zed\nssh://h/p", "cursor-agent\n--workspace\n..", "a/Cursor-1.2.AppImage\n--", "claude\n--mcp-config\nx\n--agents={}",
	} {
		f.Add(command)
	}
	f.Fuzz(func(t *testing.T, command string) {
		env := Env{Home: "/nowhere/ada", Cwd: "/nowhere/ada/src", Command: strings.Split(command, "\n"), LookupEnv: func(string) (string, bool) { return "", false }}
		name, ok := Detect(env.Command)
		if _, err := AgentFor("", env.Command); ok && err != nil {
			t.Errorf("%q starts %s: %v", env.Command, name, err)
		}
		for _, agent := range kinds {
			for _, path := range agent.Files(env) {
				if !filepath.IsAbs(path) {
					t.Errorf("%s with %q looks at %s", agent.Name(), env.Command, path)
				}
			}
		}
	})
}
