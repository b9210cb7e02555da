package facts

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// Paths returns what a call names in the file system: which texts are paths, which may be, and
// which of them are missing.
func TestWhatACallNames(t *testing.T) {
	h := newFixture(t)
	at := func(name string) string { return h.project + "/" + name }
	many := strings.Repeat(`"a/b",`, mostNamed/2)
	for i := range mostNamed {
		many += fmt.Sprintf(`"new/%d",`, i)
	}
	for _, tt := range []struct {
		args           string
		places         int
		wide           bool
		named, missing string // a named or missing path; may be empty
		more           string // another named path
	}{
		{`{"path":"new"}`, 1, false, at("new"), at("new"), ""},
		{`{"path":"a b"}`, 1, false, at("a b"), at("a b"), ""},
		{`{"path":"."}`, 1, false, h.project, "", ""},
		{`{"path":"link-to-docs/new"}`, 1, false, at("link-to-docs/new"), at("link-to-docs/new"), at("docs/new")},
		{`{"from":"new","to":"out"}`, 2, false, at("new"), at("new"), at("out")},
		{`{"x":"a/b"}`, 1, false, at("a/b"), at("a/b"), ""},
		{`{"x":"a\\b"}`, 1, false, at("a/b"), at("a/b"), ""},
		{`{"x":".new"}`, 1, false, at(".new"), at(".new"), ""},
		{`{"x":"~"}`, 1, false, h.home, "", ""},
		{`{"x":"word"}`, 0, false, at("word"), "", ""},
		{`{"x":"two words"}`, 0, true, "", "", ""},
		{`{"x":"see new/a"}`, 0, true, at("new/a"), at("new/a"), ""},
		{`{"data":"two words"}`, 0, false, "", "", ""},
		{`{"content":"see new/a"}`, 0, false, "", "", ""},
		{`{"command":"ls"}`, 0, true, "", "", ""},
		{`{"shell_command":"ls"}`, 0, true, "", "", ""},
		{`{"runcmd":"ls"}`, 0, true, "", "", ""},
		{`{"args":["ls","new/a"]}`, 0, true, at("new/a"), at("new/a"), ""},
		{`{"dir":` + quotedPath(h.project) + `,"name":"out"}`, 1, false, h.project, at("out"), at("out")},
		{`{"list":[` + many + `"x/y"]}`, -1, true, "", "", ""},
	} {
		c := callTo("put", tt.args)
		c.Project, c.Cwd = h.project, h.project
		p := h.finder.Paths(t.Context(), c)
		if tt.places >= 0 && p.Places != tt.places || p.Wide != tt.wide || p.Reads || p.Links {
			t.Errorf("%.80s: %d places, wide %v, reads %v, links %v", tt.args, p.Places, p.Wide, p.Reads, p.Links)
		}
		for _, want := range []string{tt.named, tt.more} {
			if want != "" && !slices.Contains(p.Named, foldPath(want)) {
				t.Errorf("%.80s: named %.200q, not %s", tt.args, p.Named, want)
			}
		}
		if len(tt.args) < 1000 && (tt.missing == "" && len(p.Missing) > 0 || tt.missing != "" && !slices.Contains(p.Missing, foldPath(tt.missing))) {
			t.Errorf("%.80s: missing %.200q, want %q", tt.args, p.Missing, tt.missing)
		}
		if len(p.Named) > mostNamed+1 {
			t.Errorf("%.80s: %d are named", tt.args, len(p.Named))
		}
		facts, same := h.finder.FactsAndPaths(t.Context(), c)
		if alone := h.finder.Of(t.Context(), c); !reflect.DeepEqual(same, p) || !slices.Equal(facts, alone) {
			t.Errorf("%.80s: together %v and %+v, one by one %v and %+v", tt.args, facts, same, alone, p)
		}
	}

	// Paths beside the arguments, of a resource, and without time to examine them.
	c := callWith(t, "tools/call", `{"name":"put","arguments":{},"dest":"`+at("new")+`"}`)
	c.Project = h.project
	if p := h.finder.Paths(t.Context(), c); !slices.Contains(p.Named, foldPath(at("new"))) {
		t.Errorf("beside the arguments: named %q", p.Named)
	}
	if p := h.finder.Paths(t.Context(), &gate.Call{Message: gate.Message{Method: "resources/read", Subject: "file://" + at("new")}, Case: gate.Case{Project: h.project}}); !p.Reads || !slices.Contains(p.Missing, foldPath(at("new"))) {
		t.Errorf("a resource: %+v", p)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if p := h.finder.Paths(ended, callTo("put", `{"path":"new"}`)); !p.Wide {
		t.Errorf("without time: %+v", p)
	}
}

// kindOfTool interprets the names of tools.
func TestWhatAToolDoesToFiles(t *testing.T) {
	for name, want := range map[string]string{
		"read_file": "reads", "readFile": "reads", "get_link": "reads", "get_download": "reads", "get_run": "reads", "list_applied_resets": "reads", "get_status_command": "reads",
		"put": "", "write_file": "", "read_and_write": "", "find_and_save": "", "download_file": "", "fetch_page": "", "search_and_send": "", "save_list": "", "create_view": "",
		"make_link": "links", "download_link": "links", "symlink": "links", "get_and_link": "links", "git_checkout": "links", "read_link_and_mount": "links",
		"delete_file": "links", "move_file": "links", "list_delete": "links", "read_and_rename": "links", "unzip": "links",
		"run": "runs", "execute_script": "runs", "read_and_run": "runs", "bash": "runs", "npm_install": "runs",
	} {
		reads, links, runs := kindOfTool([]byte(name))
		var got []string
		for word, is := range map[string]bool{"reads": reads, "links": links, "runs": runs} {
			if is {
				got = append(got, word)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %q, want %q", name, s, want)
		}
	}
}
