package hook

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/beneath"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/transcript"
)

// recorded keeps the reasons of records.
type recorded []string

func (r *recorded) Record(_ context.Context, rec *record.Record, _ []byte, _ []string) error {
	*r = append(*r, fmt.Sprint(rec.Kind, " ", rec.Verdict, " ", rec.Session, ": ", rec.Reason))
	return nil
}

// Of a protected agent that runs no hooks, the calls are found by its transcripts: once each, when
// nothing is written to these any more. What agents of the kind have reported is not among them,
// nor is what may still wait for the hook of another agent.
func TestSilent(t *testing.T) {
	result := func(id string) string {
		return `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"x"}]}}` + "\n"
	}
	type run struct {
		b *books
		r *Registry
	}
	for name, tt := range map[string]struct {
		arrange func(run)
		want    string // the calls that are found; empty for none
	}{
		"never reported": {func(u run) { u.b.write(inFolder, bash(1, "a", "npm test")+bash(2, "b", "ls")) }, "2 shell calls the gate never saw: `npm test`, `ls`"},
		"reported": {func(u run) {
			u.b.write(inFolder, bash(1, "a", "npm test")+bash(2, "b", "ls"))
			u.b.reports("a", "elsewhere")
		}, "1 shell call the gate never saw: `ls`"},
		"many": {func(u run) {
			for _, name := range []string{"a", "b"} {
				u.b.write(".claude/projects/p/"+name+".jsonl", bash(1, name+"1", "ls "+name)+bash(2, name+"2", "ls")+bash(3, name+"3", "ls")+bash(4, name+"4", "ls"))
			}
		}, "8 shell calls the gate never saw: `ls a`, `ls`, `ls`, `ls`, `ls b`, ..."},
		"of a governed server": {func(u run) { u.b.write(inFolder, used(3, "m", "mcp__governed__go", `{}`)) }, ""},
		"from before":          {func(u run) { u.b.write(inFolder, bash(-5, "a", "npm test")) }, ""},
		"a file from before": {func(u run) {
			old := began.Add(-time.Hour)
			if err := os.Chtimes(u.b.write(inFolder, bash(1, "a", "npm test")), old, old); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"still written": {func(u run) { u.b.write(inFolder, bash(1, "a", "npm test")); u.r.scanning = time.Hour }, ""},
		"no transcript": {func(u run) { u.b.write(".claude/projects/p/s.txt", bash(1, "a", "npm test")) }, ""},
		"a link":        {func(u run) { u.b.link("s.jsonl", u.b.write("s.jsonl", bash(1, "a", "npm test"))) }, ""},
		"no folder": {func(u run) {
			if err := os.RemoveAll(u.b.folder); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"of an agent that runs hooks": {func(u run) {
			path := u.b.write(inFolder, bash(1, "a", "npm test")+result("a"))
			u.b.reports("z", path)
			u.r.agents[key{}] = &agent{contract: u.b.contract, ledger: u.b.ledger}
		}, ""},
		"beside an agent that runs hooks": {func(u run) {
			u.b.write(inFolder, bash(1, "a", "npm test")+bash(2, "b", "waits")+result("a"))
			u.r.agents[key{}] = &agent{contract: u.b.contract, ledger: u.b.ledger}
		}, "1 shell call the gate never saw: `npm test`"},
	} {
		t.Run(name, func(t *testing.T) {
			b, records := newBooks(t), &recorded{}
			r := New(Options{Recorder: records, Logger: slog.New(slog.DiscardHandler), Redact: strings.Clone})
			defer r.Close()
			r.scanning = 0
			b.kind = r.kinds["claude-code"]
			s := &silent{
				Protection{ID: "p-1", Agent: "claude-code", Covers: func(server string) bool { return server == "governed" }},
				newLedger(agenthook.Of("claude-code"), b.folder, began, b.kind), map[string]time.Time{},
			}
			tt.arrange(run{b, r})
			for range 2 { // of which the second finds nothing new
				r.scan(s)
			}
			var want []string
			if tt.want != "" {
				want = []string{"unseen unjudged p-1: " + tt.want}
			}
			if got := *records; fmt.Sprint(got) != fmt.Sprint(recorded(want)) || len(r.Unseen()) != len(want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// However many names there are in the folders of transcripts, no more are read than may be, and those of
// folders below come as well.
func TestSilentLists(t *testing.T) {
	top := t.TempDir()
	if err := os.Mkdir(filepath.Join(top, "z"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		for _, name := range []string{fmt.Sprint(i, ".jsonl"), fmt.Sprint("z/", i, ".jsonl")} {
			if err := os.WriteFile(filepath.Join(top, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir, err := beneath.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for limit, want := range map[int]int{20: 20, 51: 51, 60: 60, 1000: 101} {
		seen := map[string]bool{}
		_ = transcript.Walk(t.Context(), dir, ".", limit, transcript.AnyFolder, func(name string, _ beneath.Info) bool {
			seen[name] = true
			return true
		})
		if len(seen) != want {
			t.Errorf("at most %d names: %d were read, want %d", limit, len(seen), want)
		}
	}
}
