package pin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChanges(t *testing.T) {
	const old = `{"name":"t","title":"T","description":"Old.","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"An a."}},"required":["a"]},"annotations":{"readOnlyHint":true},"_meta":{"x":1}}`
	with := func(before, after string) string { return strings.Replace(old, before, after, 1) }
	for _, tt := range []struct {
		name, after string
		want        []string
	}{
		{"nothing", old, nil},
		{"description", with("Old.", "New."), []string{`high description "Old." "New."`}},
		{"description gone", with(`"description":"Old.",`, ""), []string{`high description "Old." -`}},
		{"title", with(`"T"`, `"U"`), []string{`low title "T" "U"`}},
		{"annotations", with("true", "false"), []string{`low annotations.readOnlyHint true false`}},
		{"annotations gone", with(`"annotations":{"readOnlyHint":true},`, ""), []string{`low annotations {"readOnlyHint":true} -`}},
		{"deep in the schema", with("An a.", "Put your key here."), []string{`high inputSchema.properties.a.description "An a." "Put your key here."`}},
		{"new required argument", with(`{"a":{"type"`, `{"b":{"type":"string"},"a":{"type"`), []string{`high inputSchema.properties.b - {"type":"string"}`}},
		{"required", with(`["a"]`, `["a","b"]`), []string{`high inputSchema.required - "b" (a new required argument)`}},
		{"no longer required", with(`["a"]`, `[]`), []string{`high inputSchema.required "a" - (no longer required)`}},
		{"required in another order", `{"inputSchema":{"required":["b","a"]}}`, nil},
		{"name", with(`"name":"t"`, `"name":"u"`), []string{`high name "t" "u"`}},
		{"what nobody knows counts as high", with(`"x":1`, `"x":1.0`), []string{`high _meta.x 1 1.0`}},
		{"a member of another type", with(`"Old."`, `{"a":1}`), []string{`high description "Old." {"a":1}`}},
		{"blanks", with(`,"title"`, ` , "title"`), []string{`low  - - (only the notation differs: spaces, escapes, or the order of members)`}},
		{"escapes", with("Old.", `\u004fld.`), []string{`low  - - (only the notation differs: spaces, escapes, or the order of members)`}},
	} {
		if tt.name == "required in another order" {
			got := Changes([]byte(`{"inputSchema":{"required":["a","b"]}}`), []byte(tt.after))
			if len(got) != 1 || got[0].Path != "inputSchema.required" {
				t.Errorf("%s: got %v", tt.name, got)
			}
			continue
		}
		var got []string
		for _, c := range Changes([]byte(old), []byte(tt.after)) {
			line := fmt.Sprintf("%s %s %s %s", c.Grade, c.Path, orNone(c.Before), orNone(c.After))
			if c.Note != "" {
				line += " (" + c.Note + ")"
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func orNone(raw []byte) string {
	if raw == nil {
		return "-"
	}
	return string(raw)
}

func TestChangesAreBounded(t *testing.T) {
	many := func(value int) []byte {
		var b strings.Builder
		for i := range 3 * mostChanges {
			fmt.Fprintf(&b, `,"m%d":%d`, i, value)
		}
		return []byte("{" + b.String()[1:] + "}")
	}
	changes := Changes(many(1), many(2))
	if len(changes) != mostChanges || changes[mostChanges-1].Note != fmt.Sprintf("%d more changes", 2*mostChanges+1) {
		t.Errorf("%d changes, the last says %q", len(changes), changes[len(changes)-1].Note)
	}
	deep := func(leaf string) []byte {
		return []byte(strings.Repeat(`{"a":`, 2000) + leaf + strings.Repeat("}", 2000))
	}
	if changes := Changes(deep("1"), deep("2")); len(changes) != 1 || strings.Count(changes[0].Path, ".") != deepest-1 {
		t.Errorf("deep: %d changes at %q", len(changes), changes[0].Path)
	}
}

func FuzzChanges(f *testing.F) {
	f.Add(`{"name":"a","inputSchema":{"required":["a"]}}`, `{"name":"a","inputSchema":{"required":[1]}}`)
	f.Add(`{}`, `{"a":null}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		if before == "" || after == "" {
			t.Skip()
		}
		changes := Changes([]byte(before), []byte(after))
		if (len(changes) == 0) != (before == after) {
			t.Errorf("%d changes between %q and %q", len(changes), before, after)
		}
		summary(changes)
	})
}
