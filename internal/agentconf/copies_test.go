package agentconf

import (
	"slices"
	"strings"
	"testing"
)

// Copies that an agent makes of its file while a wrap has rewritten it are found,
// and can be put right as the file itself.
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
