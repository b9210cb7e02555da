package agentconf

import (
	"slices"
	"strings"
	"testing"
)

// Copies that an agent makes of its file during a wrap are found, and can be fixed like the
// file itself.
func TestCopiesOfAnAgent(t *testing.T) {
	w := fillWorld(newWorld(t))
	p, _ := w.wrapped()
	text := w.read(w.state())
	dir := t.TempDir()
	path := dir + "/settings.json"
	copies := []string{"settings.json.orig", "settings.json~", "settings.bak.json", "old-settings.json", "backups/settings.json.1"}
	for _, name := range append(slices.Clone(copies), "other.json", "settings.json.thoughtgate-backup", "settings.local.json") {
		w.write(dir+"/"+name, text)
	}
	w.write(path, twoServers)
	w.write(dir+"/settings.json.clean", twoServers)
	p.Unlock()
	find := func(lasting []*Protection) []string {
		var found []string
		for _, l := range copiesOf(path, []string{path, dir + "/settings.local.json"}, lasting) {
			if l.Kind != AgentsCopy || l.Config != path {
				t.Errorf("found as %+v", l)
			}
			found = append(found, l.Path[len(dir)+1:])
		}
		slices.Sort(found)
		return found
	}
	slices.Sort(copies)
	if got := find(nil); !slices.Equal(got, copies) {
		t.Errorf("found %q, want %q", got, copies)
	}
	if _, err := Unwrap(dir+"/settings.json.orig", w.notes()); err != nil {
		t.Fatal(err)
	}
	if now := w.read(dir + "/settings.json.orig"); strings.Contains(now, envSession) || strings.Contains(now, "--server-id") || !strings.Contains(now, "clock-mcp") {
		t.Errorf("put back it is %s", now)
	}
	if got := find(nil); slices.Contains(got, "settings.json.orig") || len(got) != len(copies)-1 {
		t.Errorf("found %q after one was put back", got)
	}
	if got := find([]*Protection{{ID: w.line().Session}}); len(got) > 0 {
		t.Errorf("found %q, which a protection wrote", got)
	}
}

// Copies of the file of a custom agent are found by a note, which is removed with the last
// copy. They can be fixed whatever their names.
func TestCopiesOfACustomAgent(t *testing.T) {
	for ending, text := range map[string]string{
		".json": `{"mcpServers":{"a":{"command":"old-mcp"}}}`, ".toml": "[mcp_servers.a]\ncommand = \"old-mcp\"\n", ".yaml": "mcpServers:\n  a:\n    command: old-mcp\n",
	} {
		t.Run(ending, func(t *testing.T) {
			w := newWorld(t)
			dir := w.home + "/.crush"
			env := w.env()
			env.Command, env.Config = []string{"crush"}, dir+"/settings"+ending
			w.write(env.Config, text)
			p := w.governedBy(custom{}, env)
			names := []string{"settings" + ending + ".orig", "settings" + ending + "~", "settings" + ending + ".1700", "settings.bak", "settings.1"}
			for _, name := range names {
				w.write(dir+"/"+name, w.read(env.Config))
			}
			w.restore(p)
			w.wantFile(env.Config, text)
			env.Command, env.Config = nil, ""
			left := func() (paths []string) {
				for _, s := range Look(env) {
					for _, l := range s.Left {
						if s.Agent != "custom" || l.Kind != AgentsCopy {
							t.Errorf("found as %+v of %s", l, s.Agent)
						}
						paths = append(paths, l.Path[len(dir)+1:])
					}
				}
				slices.Sort(paths)
				return paths
			}
			slices.Sort(names)
			if got := left(); !slices.Equal(got, names) {
				t.Fatalf("found %q, want %q", got, names)
			}
			for _, name := range names {
				if _, err := Unwrap(dir+"/"+name, w.notes()); err != nil {
					t.Fatal(err)
				}
				if now := w.read(dir + "/" + name); strings.Contains(now, shimName) || strings.Contains(now, envSession) || !strings.Contains(now, "old-mcp") {
					t.Errorf("%s is now %s", name, now)
				}
			}
			if got := left(); len(got) > 0 {
				t.Errorf("found %q after they were put right", got)
			}
			if notes := notebook(w.notes()).all(); len(notes) > 0 {
				t.Errorf("noted still: %+v", notes[0])
			}
		})
	}
}
