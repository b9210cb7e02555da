package man

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// thoughtgate.yaml(5) lists each key of the schema with its path.
func TestConfigPage(t *testing.T) {
	schema := config.Schema()
	var root schemaNode
	if err := json.Unmarshal(schema, &root); err != nil {
		t.Fatal(err)
	}
	page, err := configPage(schema, "2026-11-18")
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	var check func(path string, n *schemaNode)
	check = func(path string, n *schemaNode) {
		if n.Items != nil && n.Items.nested() {
			check(path+"[]", n.Items)
		} else if inner := n.values(); inner != nil && n.Type == "object" {
			check(path+".NAME", inner)
		} else if n.Properties == nil {
			keys++
			if !strings.Contains(page, "\n.TP\n"+bold(path[1:])+"\n") {
				t.Errorf("thoughtgate.yaml(5) lacks the key %s", path[1:])
			}
		}
		for key, inner := range n.Properties {
			check(path+"."+key, &inner)
		}
	}
	check("", &root)
	if keys < 40 {
		t.Errorf("the schema has %d keys", keys)
	}
	for _, want := range []string{
		"how long a question waits for an answer (a duration, as 90s, 10m or 7d; default 10m)",
		"server ids or globs (one, or a list)",
		"forward | deny | approve | policy (required)",
	} {
		if !strings.Contains(page, plain(want)+"\n") {
			t.Errorf("thoughtgate.yaml(5) lacks %q", want)
		}
	}
}

func TestRoffEscapes(t *testing.T) {
	p := &roff{}
	p.prose("one's `two`\n.three\n  four --five\n\nsix \\n")
	want := ".PP\none\\(aqs \\(gatwo\\(ga\n\\&.three\n.PP\n.nf\n  four \\-\\-five\n.fi\n.PP\nsix \\en\n"
	if got := p.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
