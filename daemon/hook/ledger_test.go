package hook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/transcript"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// used returns a line of a transcript of Claude Code that was written some minutes after began.
func used(minutes int, id, tool, input string) string {
	return fmt.Sprintf(`{"type":"assistant","timestamp":%q,"message":{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}]}}`+"\n",
		began.Add(time.Duration(minutes)*time.Minute).Format(time.RFC3339Nano), id, tool, input)
}

func bash(minutes int, id, command string) string {
	return used(minutes, id, "Bash", fmt.Sprintf(`{"command":%q}`, command))
}

// books is a ledger with a folder of transcripts.
type books struct {
	*ledger
	t    *testing.T
	home string
}

func newBooks(t *testing.T) *books {
	home := t.TempDir()
	folder := filepath.Join(home, ".claude", "projects")
	if err := os.MkdirAll(filepath.Join(folder, "p"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &books{newLedger(agenthook.Of("claude-code"), folder, began, newKnown()), t, home}
}

func (b *books) write(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.home, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// reports has the agent report a call before it makes it.
func (b *books) reports(id, transcript string) {
	b.note(&agenthook.Event{Kind: agenthook.Before, ID: id, Transcript: transcript})
}

func (b *books) compared() (string, string) {
	calls, problem := b.compare(b.t.Context(), func(server string) bool { return server == "governed" })
	var all []string
	for _, c := range calls {
		all = append(all, c.What)
	}
	return strings.Join(all, ","), problem
}

func (b *books) want(calls, problem string) {
	b.t.Helper()
	if got, why := b.compared(); got != calls || !strings.HasPrefix(why, problem) || problem == "" && why != "" {
		b.t.Errorf("calls %q, problem %q; want %q, %q", got, why, calls, problem)
	}
}

const inFolder = ".claude/projects/p/s.jsonl"

// Calls that only the transcript has are found, each once; those that were reported, that the
// agent refused itself, that are judged at a gate, or that are from before are not.
func TestCompare(t *testing.T) {
	b := newBooks(t)
	path := b.write(inFolder, bash(-5, "old", "before")+bash(1, "seen", "seen")+bash(2, "x", "npm test")+
		used(3, "m", "mcp__governed__go", `{}`)+used(3, "n", "mcp__other__go", `{}`)+bash(4, "r", "refused")+
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"r","is_error":true,"content":"<tool_use_error>no</tool_use_error>"}]}}`+"\n"+
		bash(5, "x", "npm test")+`{"type":"assi`)
	b.reports("seen", path)
	b.note(&agenthook.Event{Kind: agenthook.After, ID: "x", Transcript: path}) // nobody judged it
	b.want("npm test,mcp__other__go", "")
	b.want("", "")
	if err := os.WriteFile(path, []byte(bash(2, "x", "npm test")+bash(9, "y", "later")), 0o600); err != nil {
		t.Fatal(err)
	}
	b.want("later", "")
}

// Events of some agents have no ids. A use in the transcript is then one that was reported if as many
// were about the same, in the same conversation.
func TestCompareWithoutIDs(t *testing.T) {
	folder := filepath.Join(t.TempDir(), ".gemini", "tmp")
	if err := os.MkdirAll(filepath.Join(folder, "shop", "chats"), 0o700); err != nil {
		t.Fatal(err)
	}
	shell := func(id, command string) string {
		return fmt.Sprintf(`{"timestamp":%q,"type":"gemini","toolCalls":[{"id":%q,"name":"run_shell_command","args":{"command":%q},"status":"success"}]}`+"\n", began.Format(time.RFC3339), id, command)
	}
	kind := newKnown()
	l := newLedger(agenthook.Of("gemini"), folder, began, kind)
	path := filepath.Join(folder, "shop/chats/session-2026-11-29T13-06-e4fe196b.jsonl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reports := func(command, transcript string) {
		l.note(&agenthook.Event{Kind: agenthook.Before, Tool: "run_shell_command", Input: fmt.Appendf(nil, `{"command":%q}`, command), Transcript: transcript})
	}
	want := func(want ...string) {
		t.Helper()
		calls, problem := l.compare(t.Context(), func(string) bool { return false })
		var got []string
		for _, c := range calls {
			got = append(got, c.What)
		}
		if !slices.Equal(got, want) || problem != "" {
			t.Errorf("calls %q, problem %q; want %q", got, problem, want)
		}
	}
	reports("ls", path)
	reports("make", path)
	reports("ls", path)
	write(shell("1", "ls") + shell("1", "ls") + shell("2", "make") + shell("3", "ls") + shell("4", "ls") + shell("5", "rm -r x"))
	want("ls", "rm -r x")
	want()
	reports("rm -r y", filepath.Join(folder, "other"))
	write(shell("4", "ls") + shell("6", "rm -r y"))
	l.paths = l.paths[:1]
	want("rm -r y")

	reports("late", path)
	write(shell("7", "late") + shell("8", "late"))
	silent := newLedger(agenthook.Of("gemini"), folder, began, kind)
	for _, want := range []int{1, 0} { // one of the two, and that once
		if got := silent.missed(t.Context(), path, func(string) bool { return false }, true, func(digest) bool { return false }); len(got) != want {
			t.Errorf("without an agent that runs hooks: %+v, want %d", got, want)
		}
	}
}

// However many events are never found in a transcript, the latest are remembered.
func TestUnmatchedAreBounded(t *testing.T) {
	k := newKnown()
	for i := range 3 * maxJudged {
		k.addUnmatched(digestOf(fmt.Sprint(i)))
	}
	if n := len(k.unmatched) + len(k.older); n > 2*maxJudged {
		t.Errorf("%d are remembered", n)
	}
	last := digestOf(fmt.Sprint(3*maxJudged - 1))
	for _, want := range []struct {
		use string
		is  bool
	}{{"a", true}, {"a", true}, {"b", false}} { // the same use twice, and another
		if got := k.matches(digestOf(want.use), last); got != want.is {
			t.Errorf("%s matches the last: %v, want %v", want.use, got, want.is)
		}
	}
	if k.matches(digestOf("c"), digestOf("0")) {
		t.Error("the first is remembered")
	}
}

// What the subagents of a conversation did is in files of their own, and found there.
func TestCompareSubagents(t *testing.T) {
	const beside = ".claude/projects/p/s/subagents"
	for name, tt := range map[string]struct {
		files          map[string]string
		calls, problem string
	}{
		"a subagent":           {map[string]string{"agent-1.jsonl": bash(1, "a", "npm test") + bash(1, "seen", "seen")}, "npm test", ""},
		"two, one of a flow":   {map[string]string{"agent-1.jsonl": bash(1, "a", "one"), "workflows/wf_1/agent-2.jsonl": bash(1, "b", "two")}, "one,two", ""},
		"files that are none":  {map[string]string{"agent-1.meta.json": "{}", "workflows/wf_1/journal.jsonl": "{}\n{\n"}, "", ""},
		"a line in both":       {map[string]string{"agent-1.jsonl": bash(1, "main", "main")}, "", ""},
		"garbage":              {map[string]string{"agent-1.jsonl": "{\n" + bash(1, "a", "ls")}, "ls", "1 line of the transcript not"},
		"a link":               {map[string]string{"agent-1.jsonl": "-> ../../s.jsonl"}, "", "transcript not read ("},
		"a folder by a link":   {map[string]string{"more": "-> ../.."}, "", ""},
		"the folder is a link": {map[string]string{"": "-> ../../q"}, "", "transcript not read ("},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			path := b.write(inFolder, bash(1, "main", "main"))
			b.reports("main", path)
			b.reports("seen", path)
			for file, text := range tt.files {
				at := filepath.Join(b.home, beside, file)
				if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
					t.Fatal(err)
				}
				if to, link := strings.CutPrefix(text, "-> "); link {
					if err := os.Symlink(to, at); err != nil {
						t.Fatal(err)
					}
					continue
				}
				b.write(filepath.Join(beside, file), text)
			}
			b.want(tt.calls, tt.problem)
			b.want("", "")
		})
	}
}

// How many transcripts of subagents are read is bounded, and said. Those from before do not count.
func TestCompareManySubagents(t *testing.T) {
	b := newBooks(t)
	b.reports("seen", b.write(inFolder, ""))
	if err := os.MkdirAll(filepath.Join(b.folder, "p/s/subagents"), 0o700); err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range transcript.MaxSubagents + 1 {
		all = append(all, b.write(fmt.Sprintf(".claude/projects/p/s/subagents/agent-%d.jsonl", i), ""))
	}
	b.want("", "transcript not read (there are more than 256 of subagents)")
	b.ledger.problem = false
	before := began.Add(-time.Hour)
	if err := os.Chtimes(all[0], before, before); err != nil {
		t.Fatal(err)
	}
	b.want("", "")
}

// Nothing is read but a regular file of the user's in the agent's folder, nothing hangs, and what
// may hide calls is said once.
func TestCompareRefuses(t *testing.T) {
	line := bash(1, "x", "ls")
	for name, tt := range map[string]struct {
		path    func(b *books) string
		calls   string
		problem string
	}{
		"no transcript named":     {func(*books) string { return "" }, "", "transcript not found: calls"},
		"not there":               {func(b *books) string { return filepath.Join(b.home, inFolder) }, "", "transcript not found: calls"},
		"elsewhere":               {func(b *books) string { return b.write("s.jsonl", line) }, "", "transcript not read (it is not in the agent's folder)"},
		"elsewhere by dots":       {func(b *books) string { b.write(".claude/s.jsonl", line); return b.folder + "/../s.jsonl" }, "", "transcript not read (it is not in"},
		"a folder beside":         {func(b *books) string { return b.folder + "-other/s.jsonl" }, "", "transcript not read (it is not in"},
		"relative":                {func(*books) string { return "s.jsonl" }, "", "transcript not read (it is not in"},
		"the folder itself":       {func(b *books) string { return b.folder }, "", "transcript not read (it is not in"},
		"a folder in it":          {func(b *books) string { return b.folder + "/p" }, "", "transcript not read (is not a regular file)"},
		"a link":                  {func(b *books) string { return b.link("s.jsonl", b.write("s.jsonl", line)) }, "", "transcript not read ("},
		"a link in the folder":    {func(b *books) string { b.write(inFolder, line); return b.link("l.jsonl", "s.jsonl") }, "", "transcript not read ("},
		"below a link":            {func(b *books) string { b.write("s.jsonl", line); return b.link("dir", b.home) + "/s.jsonl" }, "", "transcript not read ("},
		"a named pipe":            {func(b *books) string { return b.pipe() }, "", "transcript not read (is not a regular file)"},
		"garbage":                 {func(b *books) string { return b.write(inFolder, "\n{\n"+line+"{}{}\nx\n") }, "ls", "3 lines of the transcript not understood: calls"},
		"one line of garbage":     {func(b *books) string { return b.write(inFolder, line+"\x00\n") }, "ls", "1 line of the transcript not"},
		"a doubled key":           {func(b *books) string { return b.write(inFolder, `{"type":"x","type":"y"}`+"\n"+line) }, "ls", "1 line of"},
		"a line that is too long": {func(b *books) string { return b.write(inFolder, strings.Repeat("x", transcript.MaxLine+1)+"\n"+line) }, "ls", "1 line of"},
		"a torn last line":        {func(b *books) string { return b.write(inFolder, line+`{"type":`) }, "ls", ""},
		"no end of the last line": {func(b *books) string { return b.write(inFolder, strings.TrimSpace(line)) }, "ls", ""},
		"a huge file":             {func(b *books) string { return b.huge(line) }, "ls", "only the last 64 MB of the transcript read: calls"},
		"a folder behind a link":  {func(b *books) string { b.move(); return b.write(inFolder, line) }, "ls", ""},
		"a path without an end":   {func(b *books) string { return b.folder + strings.Repeat("/p", transcript.MaxPath) }, "", "transcript not found"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks(t)
			b.reports("seen", tt.path(b))
			b.want(tt.calls, tt.problem)
			b.want("", "")
		})
	}
}

func (b *books) link(name, to string) string {
	path := filepath.Join(b.folder, "p", name)
	if err := os.Symlink(to, path); err != nil {
		b.t.Fatal(err)
	}
	return path
}

func (b *books) pipe() string {
	path := filepath.Join(b.folder, "p", "s.jsonl")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// huge returns a file with more than is read, of which only the end has any blocks.
func (b *books) huge(end string) string {
	path := b.write(inFolder, "")
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("\n"+end), transcript.MaxTail+1); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// move makes the folder of the agent a link of the user's.
func (b *books) move() {
	if err := os.Rename(filepath.Join(b.home, ".claude"), filepath.Join(b.home, "dotfiles")); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink("dotfiles", filepath.Join(b.home, ".claude")); err != nil {
		b.t.Fatal(err)
	}
}

// A file of another user's is not read.
func TestForeignTranscript(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file away")
	}
	b := newBooks(t)
	path := b.write(inFolder, bash(1, "x", "ls"))
	if err := os.Chown(path, 65534, -1); err != nil {
		t.Skip(err)
	}
	b.reports("seen", path)
	b.want("", "transcript not read (it belongs to another user)")
}

// Nothing is compared for an agent that has reported nothing, as doctor's canary.
func TestCompareNothing(t *testing.T) {
	b := newBooks(t)
	b.want("", "")
	b.note(&agenthook.Event{Kind: agenthook.Before, Session: "canary", Input: []byte(`{"command":"` + record.CanaryCommand + `"}`)})
	b.want("", "")
	b.note(&agenthook.Event{Kind: agenthook.Before, Session: "canary", Input: []byte(`{"command":"ls"}`)})
	b.want("", "transcript not found")
}

// What does not fit is said, and nothing is taken for a call that was not reported.
func TestCompareIsBounded(t *testing.T) {
	b := newBooks(t)
	path := b.write(inFolder, bash(1, fmt.Sprint(maxJudged), "ls"))
	for i := range maxJudged + 1 {
		b.reports(fmt.Sprint(i), path)
	}
	b.want("", "too many calls to compare all")

	b = newBooks(t)
	for i := range maxTranscripts + 1 {
		b.reports("seen", b.write(fmt.Sprintf(".claude/projects/p/%d.jsonl", i), ""))
	}
	b.want("", "too many calls to compare all")
}

// A reading ends with its context.
func TestReadTranscriptEnds(t *testing.T) {
	b := newBooks(t)
	path := b.write(inFolder, strings.Repeat(bash(1, "x", "ls"), 1000))
	ctx, cancel := context.WithCancel(t.Context())
	lines := 0
	_, err := transcript.Read(ctx, b.folder, path, func([]byte) error {
		if lines++; lines == 3 {
			cancel()
		}
		return nil
	})
	if err == nil || lines != 3 {
		t.Errorf("%d lines, %v", lines, err)
	}
}

// What a warning says: how many calls, some of them on one line each, and no secrets.
func TestDescribe(t *testing.T) {
	var calls []agenthook.Use
	for _, what := range []string{"npm test", "echo\n  SECRET", strings.Repeat("é", 90), "a", "b"} {
		calls = append(calls, agenthook.Use{Tool: agenthook.Shell, What: what})
	}
	calls = append(calls, agenthook.Use{Tool: agenthook.Write, What: "/etc/x"})
	u := describe(calls, func(s string) string { return strings.ReplaceAll(s, "SECRET", "***") })
	want := "5 shell calls, 1 write call the gate never saw: `npm test`, `echo ***`, `" + strings.Repeat("é", 77) + "...`, `a`, `b`, ..."
	if u.Text != want || u.Count != 6 || len(u.Calls) != maxShown || !slices.Contains(u.Calls, "echo ***") {
		t.Errorf("got %+v", u)
	}
	if one := describe(calls[:1], strings.Clone); one.Text != "1 shell call the gate never saw: `npm test`" {
		t.Errorf("got %+v", one)
	}
}
