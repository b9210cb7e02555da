package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// newConsole returns a terminal of 80 columns whose tgctl has only these commands.
func newConsole(socket string) *consoletest.Console { return consoletest.New(socket, Command) }

func consoleWithRecords(t *testing.T) (*consoletest.Daemon, *consoletest.Console) {
	f := consoletest.Start(t)
	f.Records = consoletest.Recorded()
	return f, newConsole(f.Socket)
}

// Of a call about which its agent was told to ask, the record says that what comes of it is a claim.
func TestShowAskedByTheAgent(t *testing.T) {
	f := consoletest.Start(t)
	f.Records = consoletest.Chained([]record.Record{{
		Kind: record.KindCall, Agent: "claude-code", Server: "agent", Method: "tools/call", Tool: "shell", Verdict: "forward", Gate: "ask",
		Surface: "host", Reason: "claude-code is told to ask its own user: it destroys 2 files", Time: consoletest.Noon,
	}})
	c := newConsole(f.Socket)
	if code := c.Run(t, "audit", "show", "1"); code != 0 || !strings.Contains(c.Out.String(), "asked by  the agent itself") || strings.Contains(c.Out.String(), "decider") {
		t.Errorf("exit %d: %s%s", code, c.Out.String(), c.Err.String())
	}
}

func TestAuditOnATerminal(t *testing.T) {
	for _, test := range []struct {
		golden string
		args   []string
	}{
		{"audit", []string{"audit"}},
		{"audit-all", []string{"audit", "--all"}},
		{"audit-show", []string{"audit", "show", "4"}},
		{"audit-show-decision", []string{"audit", "show", "6"}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			_, c := consoleWithRecords(t)
			if code := c.Run(t, test.args...); code != 0 {
				t.Fatalf("exit %d: %s", code, c.Err.String())
			}
			consoletest.MustFit(t, c.Out.String(), 80)
			consoletest.Golden(t, test.golden, c.Out.String())
		})
	}
}

// In a pipe, each line is exactly the stored one: the next record carries its hash.
func TestAuditJSONIsWhatIsStored(t *testing.T) {
	f, c := consoleWithRecords(t)
	if code := c.Pipe().Run(t, "audit", "list", "--json"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	var want strings.Builder
	for _, r := range f.Records {
		want.Write(append(r.GetLine(), '\n'))
	}
	if c.Out.String() != want.String() {
		t.Errorf("got:\n%s\nwant:\n%s", c.Out.String(), want.String())
	}
	c.Run(t, "audit", "show", "4", "--json")
	if want := string(f.Records[3].GetLine()) + "\n" + string(f.Records[3].GetValues()) + "\n"; c.Out.String() != want {
		t.Errorf("show --json printed:\n%s\nwant:\n%s", c.Out.String(), want)
	}
}

func TestAuditFilters(t *testing.T) {
	midnight := time.Date(2026, 11, 19, 0, 0, 0, 0, consoletest.Noon.Location())
	for _, test := range []struct {
		args []string
		want *pb.AuditQuery
	}{
		{[]string{"list"}, &pb.AuditQuery{Last: perCall * ListLimit}},
		{[]string{"list", "--all"}, &pb.AuditQuery{Last: ListLimit}},
		{[]string{"--limit", "0", "--json"}, &pb.AuditQuery{}},
		{[]string{"list", "--all", "--since", "2h", "--until", "90s"}, &pb.AuditQuery{Last: ListLimit, Since: consoletest.At(-2 * time.Hour), Until: consoletest.At(-90 * time.Second)}},
		{[]string{"list", "--all", "--since", "7d"}, &pb.AuditQuery{Last: ListLimit, Since: consoletest.At(-7 * 24 * time.Hour)}},
		{[]string{"list", "--all", "--since", "1d12h"}, &pb.AuditQuery{Last: ListLimit, Since: consoletest.At(-36 * time.Hour)}},
		{[]string{"list", "--all", "--since", "2026-11-19"}, &pb.AuditQuery{Last: ListLimit, Since: consoletest.At(midnight.Sub(consoletest.Noon))}},
		{[]string{"list", "--all", "--since", "2026-11-19 06:30"}, &pb.AuditQuery{Last: ListLimit, Since: consoletest.At(midnight.Sub(consoletest.Noon) + 6*time.Hour + 30*time.Minute)}},
		{[]string{"list", "--all", "--since", "2026-11-20T10:00:00Z"}, &pb.AuditQuery{Last: ListLimit, Since: consoletest.At(-time.Hour)}},
		{[]string{"list", "--server", "git*", "--tool", "read_*", "--verdict", "deny", "--session", "s-5d41", "--kind", "call", "--limit", "5"},
			&pb.AuditQuery{Last: 5, Server: "git*", Tool: "read_*", Verdict: "deny", Session: "s-5d41", Kind: "call"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			f, c := consoleWithRecords(t)
			if code := c.Run(t, append([]string{"audit"}, test.args...)...); code != 0 {
				t.Fatalf("exit %d: %s", code, c.Err.String())
			}
			if !proto.Equal(f.Query, test.want) {
				t.Errorf("asked for %v, want %v", f.Query, test.want)
			}
		})
	}
}

func TestAuditUsage(t *testing.T) {
	for _, args := range [][]string{
		{"list", "--since", "yesterday"}, {"list", "--since", "-2h"}, {"list", "--until", "7dd"}, {"show"}, {"show", "x"}, {"show", "0"},
		{"show", "1", "2"}, {"lst"}, {"list", "extra"}, {"tail", "--since", "2h"}, {"list", "--limit", "-1"},
	} {
		_, c := consoleWithRecords(t)
		if code := c.Run(t, append([]string{"audit"}, args...)...); code != 2 {
			t.Errorf("audit %q: exit %d, want 2: %s", args, code, c.Err.String())
		}
	}
}

func TestAuditShowOfNothing(t *testing.T) {
	_, c := consoleWithRecords(t)
	if code := c.Run(t, "audit", "show", "99"); code != 1 || !strings.Contains(c.Err.String(), "record 99: not found") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}

// tail prints the existing records, waits for more, and exits 0 when interrupted.
func TestAuditTail(t *testing.T) {
	f, c := consoleWithRecords(t)
	ctx, cancel := context.WithCancel(t.Context())
	c.App.Out = consoletest.WriterFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "A-3") { // the last record
			cancel()
		}
		return c.Out.Write(p)
	})
	if code := c.Execute(ctx, "audit", "tail", "--all", "-n", "3"); code != 0 {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	if !f.Query.GetFollow() || f.Query.GetLast() != 3 {
		t.Errorf("asked for %v", f.Query)
	}
}

// verify works without a daemon. It reports what is valid and names what is not.
func TestAuditVerify(t *testing.T) {
	c := newConsole("/nonexistent/control.sock")
	dir := t.TempDir()
	path := consoletest.WriteLog(t, dir, consoletest.Recorded())

	if code := c.Run(t, "audit", "verify", dir); code != 0 || !strings.HasPrefix(c.Out.String(), "verified: 6 records in 1 segment, log 5f3a\n") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.Out.String(), c.Err.String())
	}
	if code := c.Run(t, "audit", "verify", "--json", path); code != 0 || !strings.Contains(c.Out.String(), `"ok":true`) {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.Out.String(), c.Err.String())
	}

	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(content), `"verdict":"deny"`, `"verdict":"okay"`, 1)
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := c.Run(t, "audit", "verify", dir); code != ui.ExitCheck || !strings.Contains(c.Err.String(), "record 4") || c.Out.Len() > 0 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.Out.String(), c.Err.String())
	}
	if code := c.Run(t, "audit", "verify", "--json", dir); code != ui.ExitCheck || !strings.Contains(c.Out.String(), `"record":4`) {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.Out.String(), c.Err.String())
	}
	if code := c.Run(t, "audit", "verify", filepath.Join(dir, "nothing")); code != 1 {
		t.Errorf("of a folder that is not there: exit %d", code)
	}
}

// A head that is kept elsewhere shows that records at the end are missing.
func TestAuditVerifyAgainstAHead(t *testing.T) {
	c := newConsole("/nonexistent/control.sock")
	records := consoletest.Recorded()
	sum := sha256.Sum256(records[5].GetLine())
	head := filepath.Join(t.TempDir(), "audit.head")
	if err := os.WriteFile(head, record.Head{Log: "5f3a", Seq: 6, Sum: hex.EncodeToString(sum[:])}.Line(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ records, code int }{{6, 0}, {5, ui.ExitCheck}} {
		dir := t.TempDir()
		consoletest.WriteLog(t, dir, records[:test.records])
		if code := c.Run(t, "audit", "verify", dir, "--head", head); code != test.code {
			t.Errorf("with %d records: exit %d, want %d: %s", test.records, code, test.code, c.Err.String())
		}
	}
}

// Without arguments verify checks the log of this user.
func TestAuditVerifyFindsTheLog(t *testing.T) {
	c := newConsole("/nonexistent/control.sock")
	state := t.TempDir()
	c.Env["HOME"], c.Env["XDG_STATE_HOME"], c.Env["XDG_RUNTIME_DIR"] = t.TempDir(), state, t.TempDir()
	consoletest.WriteLog(t, filepath.Join(state, "thoughtgate", "audit"), consoletest.Recorded())
	if code := c.Run(t, "audit", "verify"); code != 0 || !strings.Contains(c.Out.String(), "verified: 6 records") {
		t.Errorf("exit %d: %s%s", code, c.Out.String(), fmt.Sprint(c.Err.String()))
	}
}

func TestReportCommand(t *testing.T) {
	_, c := consoleWithRecords(t)
	if code := c.Run(t, "audit", "report"); code != 2 {
		t.Errorf("onto a terminal: exit %d, want 2", code)
	}
	path := filepath.Join(t.TempDir(), "week.html")
	if code := c.Run(t, "audit", "report", "-o", path); code != 0 || !strings.Contains(c.Err.String(), path) {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(page), "<!doctype html>") || !strings.HasSuffix(string(page), "</html>\n") {
		t.Errorf("not a whole page:\n%s", page)
	}
	if code := c.Pipe().Run(t, "audit", "report"); code != 0 || c.Out.String() != string(page) {
		t.Errorf("into a pipe: exit %d", code)
	}
}
