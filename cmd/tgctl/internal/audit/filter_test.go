package audit

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// lived returns the records of a log with calls of every end.
func lived() []record.Record {
	at := func(seconds int) time.Time { return consoletest.Noon.Add(time.Duration(seconds-600) * time.Second) }
	call := func(n uint64, seconds int, tool, verdict, approval, reason string) record.Record {
		return record.Record{
			Kind: record.KindCall, Attachment: "t-1", Call: n, Session: "s-1", Agent: "claude-code", Server: "files", Direction: "agent_to_server",
			Method: "tools/call", Tool: tool, MessageID: tool, Verdict: verdict, Approval: approval, Reason: reason, Time: at(seconds),
		}
	}
	about := func(kind record.Kind, n uint64, seconds int, verdict, approval string) record.Record {
		return record.Record{
			Kind: kind, Attachment: "t-1", Call: n, Session: "s-1", Agent: "claude-code", Server: "files", Method: "tools/call", Verdict: verdict, Approval: approval, Time: at(seconds),
		}
	}
	return []record.Record{
		{Kind: record.KindLog, Log: "5f3a", Time: at(0)},
		{Kind: record.KindAttach, Verdict: "attached", Attachment: "t-1", Session: "s-1", Agent: "claude-code", Server: "files", Time: at(1)},
		{Kind: record.KindCall, Attachment: "t-1", Call: 1, Session: "s-1", Agent: "claude-code", Server: "files", Direction: "server_to_agent", Method: "tools/list", Verdict: "forward", Gate: "visible", Time: at(2)},
		call(2, 10, "read_file", "forward", "", ""), about(record.KindOutcome, 2, 10, "ok", ""),
		call(4, 20, "write_file", "hold", "A-3", "it changes a file"), about(record.KindDecision, 4, 51, "approved", "A-3"), call(4, 51, "write_file", "forward", "A-3", ""),
		about(record.KindOutcome, 4, 52, "ok", ""),
		call(6, 60, "delete_branch", "deny", "", "deleting is not allowed"),
		call(8, 70, "write_note", "hold", "A-4", "it changes a file"), call(8, 115, "write_note", "park", "A-4", "waiting for a person (A-4)"),
		call(10, 120, "write_log", "hold", "A-5", "it changes a file"), about(record.KindDecision, 10, 420, "expired", "A-5"), call(10, 420, "write_log", "deny", "A-5", "nobody answered A-5 in time"),
		call(12, 430, "write_tmp", "hold", "A-6", "it changes a file"), about(record.KindDecision, 12, 440, "withdrawn", "A-6"),
		call(14, 500, "write_end", "hold", "A-7", "it changes a file"),
	}
}

// A call is listed once, with its end, at 80 columns and at 160.
func TestAuditListsCalls(t *testing.T) {
	f := consoletest.Start(t)
	f.Records = consoletest.Chained(lived())
	c := newConsole(f.Socket)
	for columns, golden := range map[int]string{80: "calls", 160: "calls-wide"} {
		c.App.Columns = columns
		if code := c.Run(t, "audit"); code != 0 {
			t.Fatalf("exit %d: %s", code, c.Err.String())
		}
		consoletest.MustFit(t, c.Out.String(), columns)
		consoletest.Golden(t, golden, c.Out.String())
	}
	for verdict, want := range map[string]string{"deny": "delete_branch write_log", "park": "write_note", "approved": "write_file", "withdrawn": "write_tmp", "hold": "write_tmp write_end"} {
		if code := c.Run(t, "audit", "--verdict", verdict); code != 0 {
			t.Fatalf("exit %d: %s", code, c.Err.String())
		}
		for _, tool := range []string{"read_file", "write_file", "delete_branch", "write_note", "write_log", "write_tmp", "write_end"} {
			if listed := strings.Contains(c.Out.String(), tool); listed != strings.Contains(want, tool) {
				t.Errorf("--verdict %s lists %s: %v\n%s", verdict, tool, listed, c.Out.String())
			}
		}
	}
}

// Of the newest calls, none is cut because its records are far apart.
func TestAuditLimitsCalls(t *testing.T) {
	f := consoletest.Start(t)
	f.Records = consoletest.Chained(lived())
	c := newConsole(f.Socket)
	if code := c.Run(t, "audit", "--limit", "6"); code != 0 || !strings.Contains(c.Out.String(), "held 31 s, approved, ok") || strings.Contains(c.Out.String(), "read_file") {
		t.Errorf("exit %d: %s%s", code, c.Out.String(), c.Err.String())
	}
}

// --follow prints the newest calls, and then each call when it is held and when it is over.
func TestAuditFollowsCalls(t *testing.T) {
	f := consoletest.Start(t)
	all := consoletest.Chained(lived())
	f.Records, f.Later = all[:13], all[13:]
	c := newConsole(f.Socket)
	ctx, cancel := context.WithCancel(t.Context())
	c.App.Out = consoletest.WriterFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "write_end") {
			cancel()
		}
		return c.Out.Write(p)
	})
	if code := c.Execute(ctx, "audit", "--follow"); code != 0 {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	for text, times := range map[string]int{"read_file": 1, "write_note": 1, "write_log": 2, "waiting 8 min": 1, "waiting 2 min": 1, "waiting 1 min": 1, "held 5 min, expired": 1, "held 10 s, withdrawn": 1} {
		if n := strings.Count(c.Out.String(), text); n != times {
			t.Errorf("%q is %d times there, want %d:\n%s", text, n, times, c.Out.String())
		}
	}
	if !f.Query.GetFollow() || f.Query.GetFrom() != 14 {
		t.Errorf("asked for %v", f.Query)
	}
}

// A filter that can't select anything is an error, not an empty answer.
func TestAuditFiltersAreChecked(t *testing.T) {
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--verdict", "denied"}, 2, `unknown verdict "denied": did you mean deny?`},
		{[]string{"--verdict", "aproved"}, 2, `did you mean approved?`},
		{[]string{"--verdict", "parked"}, 2, `did you mean park?`},
		{[]string{"--verdict", "x"}, 2, `unknown verdict "x": use one of `},
		{[]string{"--kind", "calls"}, 2, `unknown kind "calls": did you mean call?`},
		{[]string{"--kind", "outcome", "--verdict", "deny"}, 2, `no record of kind outcome has the verdict deny: use one of `},
		{[]string{"--kind", "start", "--verdict", "deny"}, 2, `records of kind start have no verdict`},
		{[]string{"--server", "nope"}, 1, `no record matches: no server matches "nope"; known: files`},
		{[]string{"--server", "no*"}, 1, `no server matches "no*"`},
		{[]string{"--session", "s-9"}, 1, `no session matches "s-9"; known: s-1`},
		{[]string{"--tool", "raed_file"}, 1, `no tool matches "raed_file"`},
		{[]string{"--server", "f*", "--session", "s-1", "--verdict", "deny"}, 0, ""},
	} {
		for _, command := range []string{"list", "export", "report"} {
			f := consoletest.Start(t)
			f.Records = consoletest.Chained(lived())
			c := newConsole(f.Socket)
			out := filepath.Join(t.TempDir(), "out")
			args := append([]string{"audit", command}, test.args...)
			switch command {
			case "export":
				args = append(args, "--format", "jsonl", "-o", out)
			case "report":
				args = append(args, "-o", out)
			}
			if code := c.Run(t, args...); code != test.code || !strings.Contains(strings.Join(strings.Fields(c.Err.String()), " "), test.want) {
				t.Errorf("%q: exit %d: %s", args, code, c.Err.String())
			}
			if _, err := os.Stat(out); command != "list" && (err == nil) != (test.code == 0) {
				t.Errorf("%q: the file: %v", args, err)
			}
		}
	}
}
