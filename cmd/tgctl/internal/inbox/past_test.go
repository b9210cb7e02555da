package inbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// before returns the records of a session in which write_file was held, approved and
// forwarded once. values is the line of values beside the held call.
func before(values string) []*pb.AuditRecord {
	call := func(ago time.Duration, id, tool, verdict string) record.Record {
		return record.Record{Kind: record.KindCall, Agent: "claude-code", Session: "s-5d41", Server: "filesystem", Launch: strings.Repeat("ab", 32),
			Method: "tools/call", Tool: tool, Verdict: verdict, ID: id, Attachment: "t-1", Time: consoletest.Noon.Add(-ago)}
	}
	other := call(3*time.Hour, "c-1", "write_file", "forward")
	other.Session, other.Server = "s-0", "another"
	approved := call(58*time.Minute, "c-2", "write_file", "approved")
	approved.Kind, approved.Approval, approved.LatencyUS = record.KindDecision, "A-0", (2 * time.Minute).Microseconds()
	elsewhere := approved
	elsewhere.Server, elsewhere.Approval = "another", "A-9"
	out := consoletest.Chained([]record.Record{
		other,
		call(time.Hour, "c-2", "write_file", "hold"),
		approved,
		elsewhere,
		call(58*time.Minute, "c-2", "write_file", "forward"),
		call(30*time.Minute, "c-3", "read\u202e_file", "deny"),
		call(12*time.Second, "c-77", "write_file", "hold"), // the question itself
	})
	if values != "" {
		out[1].Values = []byte(values)
	}
	return out
}

func TestShowWithPast(t *testing.T) {
	f, c := consoleWithQuestions(t)
	f.Records = before(`{"values":2,"arguments":{"path":"/home/ana/notes.txt","content":"one\nand \u001b[2J a half","token":"hmac:12"},"bytes":9}`)
	if code := c.Run(t, "approvals", "show", "A-3"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	consoletest.MustFit(t, c.Out.String(), 80)
	consoletest.Golden(t, "approvals-show-past", c.Out.String())
}

func TestPast(t *testing.T) {
	long := strings.Repeat("x", maxCompareBytes)
	for _, test := range []struct {
		name    string
		records []*pb.AuditRecord
		err     error
		change  func(*pb.Approval)
		want    []string
		not     string
	}{
		{"none", nil, nil, nil, []string{"No approved call of this tool is on record."}, "previous calls"},
		{"the same", before(`{"values":2,"arguments":{"content":"one\ntwo \u202e three\n"},"bytes":9}`), nil,
			func(q *pb.Approval) {
				q.Arguments = []byte(`{"name":"write_file","arguments":{"content":"one\ntwo \u202e three\n"}}`)
			},
			[]string{"The same arguments as in the last approved call, A-0, 58 min ago."}, "@@"},
		{"not kept", before(""), nil, nil, []string{"A-0, 58 min ago. Its arguments were not recorded."}, "@@"},
		{"their beginning", before(`{"values":2,"preview":"{\"path\":","bytes":99999}`), nil, nil,
			[]string{"Only the beginning of its arguments was recorded: tgctl audit show 2"}, "@@"},
		{"too long", before(`{"values":2,"arguments":{"content":"` + long + `"},"bytes":9}`), nil, nil, []string{"too long to compare here: tgctl audit show 2"}, "@@"},
		{"another launch", before(`{"values":2,"arguments":{},"bytes":2}`), nil, func(q *pb.Approval) { q.Launch = "cd" },
			[]string{"started by a different command", "compared with"}, ""},
		{"other params than arguments", before(`{"values":2,"arguments":{"a":1},"bytes":2}`), nil, func(q *pb.Approval) {
			q.Arguments = []byte(`{"name":"write_file","Arguments":{"a":1},"arguments":{"a":2}}`)
		}, []string{"-   \"a\": 1\n+   \"a\": 2"}, "Arguments"},
		{"more than arguments", before(`{"values":2,"arguments":{"a":1},"bytes":2}`), nil, func(q *pb.Approval) {
			q.Arguments = []byte(`{"name":"write_file","arguments":{"a":1},"_meta":{"b":1}}`)
		}, []string{"Unlike the last approved call, this one has params besides its arguments"}, ""},
		{"more than before", before(`{"values":2,"params":{"name":"write_file","arguments":{"a":1},"_meta":{"b":1}},"bytes":2}`), nil, func(q *pb.Approval) {
			q.Arguments = []byte(`{"name":"write_file","arguments":{"a":1},"_meta":{"b":2}}`)
		}, []string{"-     \"b\": 1\n+     \"b\": 2"}, "Unlike"},
		{"another method", before(`{"values":2,"arguments":{},"bytes":2}`), nil, func(q *pb.Approval) { q.Method = "prompts/get" }, []string{"No approved call"}, "compared"},
		{"asked by the agent", consoletest.Chained([]record.Record{{
			Kind: record.KindCall, Agent: "claude-code", Session: "s-5d41", Server: "agent", Method: "tools/call", Tool: "shell", Verdict: "forward",
			Gate: "ask", Surface: "host", ID: "c-2", Attachment: "t-1", Time: consoletest.Noon.Add(-time.Hour),
		}}), nil, nil, []string{"forward if its user agrees"}, ""},
		{"no session", before(""), nil, func(q *pb.Approval) { q.Session = "" }, nil, "previous calls of this session"},
		{"no record", nil, client.NewError(client.ReasonNotRunning, "the log is \x1b[2J closed"), nil,
			[]string{"Previous calls cannot be shown: ", `the log is \u{1b}[2J closed`}, "approved call"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, c := consoleWithQuestions(t)
			f.Records, f.AuditErr = test.records, test.err
			if test.change != nil {
				test.change(f.Approvals[1])
			}
			if code := c.Pipe().Run(t, "approvals", "show", "A-3"); code != 0 {
				t.Fatalf("exit %d: %s", code, c.Err.String())
			}
			_, after, _ := strings.Cut(c.Out.String(), "bytes:\n")
			if _, rest, ok := strings.Cut(after, "\n  }\n"); ok {
				after = rest
			}
			for _, want := range test.want {
				if !strings.Contains(after, want) {
					t.Errorf("lacks %q:\n%s", want, after)
				}
			}
			if test.not != "" && strings.Contains(after, test.not) {
				t.Errorf("has %q:\n%s", test.not, after)
			}
		})
	}
}

// A call that was judged after the question was asked is not shown as previous, whatever
// its time.
func TestCallsAfterTheQuestion(t *testing.T) {
	f, c := consoleWithQuestions(t)
	call := func(ago time.Duration, id, tool string) record.Record {
		r := record.Record{Kind: record.KindCall, Session: "s-5d41", Server: "filesystem", Method: "tools/call", Tool: tool, Verdict: "forward", ID: id, Time: consoletest.Noon.Add(-ago)}
		if id == "c-77" {
			r.Attachment, r.Approval = f.Approvals[1].GetAttachment(), "A-3"
		}
		return r
	}
	records := []record.Record{call(time.Minute, "c-1", "before"), call(12*time.Second, "c-77", "write_file"), call(time.Hour, "c-2", "clock_was_set")}
	for i := range 2 * pastRecords {
		records = append(records, call(time.Second, fmt.Sprint("d-", i), "after"))
	}
	f.Records = consoletest.Chained(records)
	if code := c.Run(t, "approvals", "show", "A-3"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	if _, calls, _ := strings.Cut(c.Out.String(), "previous calls of this session, oldest first:\n"); calls != "  11:59:00  forward  filesystem before\n" {
		t.Errorf("got\n%s", calls)
	}
}

// A call that was held and then forwarded counts as one call, and the question's own call
// is not shown as previous.
func TestCallsBefore(t *testing.T) {
	f, c := consoleWithQuestions(t)
	f.Records = before("")
	c.Run(t, "approvals", "show", "A-3")
	_, calls, _ := strings.Cut(c.Out.String(), "previous calls of this session, oldest first:\n")
	want := "  11:02:00  forward  filesystem write_file\n  11:30:00  deny     filesystem read\\u{202e}_file\n"
	if calls != want {
		t.Errorf("got\n%s\nwant\n%s", calls, want)
	}
}
