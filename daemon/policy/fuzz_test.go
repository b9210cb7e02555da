package policy

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// FuzzConvert compares converted arguments with the result of the standard decoder.
func FuzzConvert(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":[1,"x",null,{"b":[true]}],"c":1.50}`, `{"__entity":{"type":"A","id":"b"}}`,
		`{"n":-0,"m":-0.0,"o":1e-4,"p":123456789012345678901}`, `{"a":"\ud83d\ude00"}`, `[1]`, `{"a":1,"a":2}`, `{"":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		args, lists, err := convert(raw, true, nil)
		if err != nil {
			return
		}
		if raw == nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var want map[string]any
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("converted %q, which the standard decoder refuses: %v", raw, err)
		}
		same(t, args, lists, want)
	})
}

func same(t *testing.T, args, lists cedar.Record, want map[string]any) {
	t.Helper()
	n := 0
	for name, w := range want {
		got, ok := args.Get(cedar.String(name))
		if ok {
			n++
		}
		switch w := w.(type) {
		case nil:
			if ok {
				t.Errorf("%q: null became %v", name, got)
			}
		case string:
			if got != cedar.String(w) {
				t.Errorf("%q: got %v, want %q", name, got, w)
			}
		case bool:
			if got != cedar.Boolean(w) {
				t.Errorf("%q: got %v, want %v", name, got, w)
			}
		case json.Number:
			sameNumber(t, got, w)
		case map[string]any:
			record, ok := got.(cedar.Record)
			if !ok {
				t.Errorf("%q: got %v, want a record", name, got)
				continue
			}
			inner, _ := lists.Get(cedar.String(name))
			innerLists, _ := inner.(cedar.Record)
			same(t, record, innerLists, w)
		case []any:
			if _, ok := got.(cedar.Set); !ok {
				t.Errorf("%q: got %v, want a set", name, got)
			}
			text, _ := lists.Get(cedar.String(name))
			s, _ := text.(cedar.String)
			dec := json.NewDecoder(strings.NewReader(string(s)))
			dec.UseNumber()
			var back []any
			if err := dec.Decode(&back); err != nil || !equalJSON(back, w) {
				t.Errorf("%q: the list reads %q, want %v", name, s, w)
			}
		}
	}
	if n != args.Len() {
		t.Errorf("got %d members, want %d", args.Len(), n)
	}
}

func equalJSON(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

func sameNumber(t *testing.T, got cedar.Value, want json.Number) {
	t.Helper()
	switch got := got.(type) {
	case cedar.Long:
		if n, err := want.Int64(); err != nil || n != int64(got) {
			t.Errorf("%s: got Long %v", want, got)
		}
	case cedar.Decimal:
		a, errA := json.Number(strings.Trim(got.String(), `"`)).Float64()
		b, errB := want.Float64()
		if errA != nil || errB != nil || a != b {
			t.Errorf("%s: got decimal %v", want, got)
		}
	case cedar.String:
		if string(got) != want.String() {
			t.Errorf("%s: got text %v", want, got)
		}
	default:
		t.Errorf("%s: got %T", want, got)
	}
}

// FuzzPolicies reads any text as a policy file. The result must be a set that can judge, or an
// error whose place is in the text.
func FuzzPolicies(f *testing.F) {
	f.Add([]byte(cedarPolicies))
	f.Add([]byte("@id(\"x\") permit (principal, action in [], resource) when { if true then !!true else -1 > 2 };"))
	f.Add([]byte("permit (principal, action, resource) when { context.arguments.x like \"*\\*\" };"))
	dir := f.TempDir()
	cfg, ds := config.Parse(filepath.Join(dir, config.FileName), []byte(cedarYAML), func(string) string { return "" })
	if cfg == nil {
		f.Fatal(ds)
	}
	f.Add([]byte("forbid (principal, action in ThoughtGate::Action::\"tools/call\", resource)\nwhen { context has arguments.path && context.arguments[\"path\"].x.y > {a: [1, context.lists.z]}.b && context.facts.contains(\"secrets\") };"))
	f.Add([]byte("forbid (principal, action == ThoughtGate::Action::\"bank/pay\", resource) when { context.arguments.a == context.arguments.b && !(context.arguments has amount.x) } unless { (context).arguments.to in principal };"))
	c := toolCall(f, "db", "update", `{"table":"users","x":"y"}`)
	tools := toolsOf(f, bankTools+`db update {"type":"object","properties":{"table":{"type":"string"},"x":{}}}`)
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > maxFile {
			return
		}
		l := &loader{Set: newSet(cfg)}
		l.compileRules()
		s := l.Set
		s.tools = tools
		s.known = known
		s.policies = l.parsePolicies(filepath.Join(dir, "t.cedar"), text)
		s.byID = map[string]*policy{}
		for _, p := range s.policies {
			s.byID[p.id] = p
		}
		s.index = newIndex(s.policies)
		s.digest = "a digest"
		l.checkGenerated()
		lines := bytes.Count(text, []byte("\n")) + 1
		for _, d := range l.found {
			if d.Line > lines || strings.Contains(d.Message, "panic") {
				t.Errorf("of %d lines: %v", lines, d)
			}
		}
		judge(s, c)
	})
}
