package main

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

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/audit"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// recorded returns a log as a daemon would have written it.
func recorded() []*pb.AuditRecord {
	records := []record.Record{
		{Kind: record.KindLog, Log: "5f3a", Time: noon.Add(-26 * time.Hour)},
		{Kind: record.KindSession, Agent: "claude-code", Session: "s-5d41", Verdict: "opened", Time: noon.Add(-time.Hour)},
		{Kind: record.KindCall, Agent: "claude-code", Session: "s-5d41", Server: "filesystem", Method: "tools/call", Tool: "read_file",
			Verdict: "forward", Gate: "rule", Profile: "production", LatencyUS: 85, Call: 3, Attachment: "t-1", ID: "c-1", Time: noon.Add(-50 * time.Minute)},
		{Kind: record.KindCall, Agent: "claude-code", Server: "evil\x1b[2J", Method: "tools/call", Tool: "delete\u202e_everything_there_is",
			Verdict: "deny", Gate: "rule", Rule: `"delete_*" (thoughtgate.yaml:12)`, Facts: []string{"secret"}, Policies: []string{"p1", "p2"},
			Reason: "a reason that is rather long, and says \x1b]0;owned\x07 to the terminal", Time: noon.Add(-40 * time.Minute)},
		{Kind: record.KindCall, Server: "github", Method: "resources/read", Tool: "file:///etc/passwd", Verdict: "forward", Would: "WOULD_ASK",
			Profile: "development", Auto: true, Time: noon.Add(-30 * time.Minute)},
		{Kind: record.KindDecision, Approval: "A-3", Verdict: "approved", Decider: "ana (uid 1000)", Surface: "terminal", Time: noon.Add(-20 * time.Minute), Peer: &record.Peer{
			UID: 1000, PID: 4711, Start: 98231, Handle: true, Exe: "/usr/bin/tgctl", TTY: "/dev/pts/3", Foreground: "4711 /usr/bin/tgctl",
			Cgroup: "/user.slice/user-1000.slice/vte-spawn-\x1b[2J.scope", Above: []string{"4700 /usr/bin/bash", "1 (systemd)"},
		}},
	}
	out := chained(records)
	out[3].Values = []byte(`{"values":4,"arguments":{"path":"/home/ana","token":"hmac:3f\u202e"}}`)
	return out
}

// chained numbers and chains records as in a log.
func chained(records []record.Record) []*pb.AuditRecord {
	var out []*pb.AuditRecord
	prev := ""
	for i := range records {
		r := &records[i]
		r.V, r.Seq, r.Prev, r.Time = 1, uint64(i+1), prev, r.Time.UTC()
		line := r.Append(nil)
		sum := sha256.Sum256(line)
		prev = hex.EncodeToString(sum[:])
		out = append(out, &pb.AuditRecord{Seq: r.Seq, Line: line})
	}
	return out
}

func consoleWithRecords(t *testing.T) (*fakeDaemon, *console) {
	f := startFake(t)
	f.records = recorded()
	return f, newConsole(f.socket)
}

func TestAuditOnATerminal(t *testing.T) {
	for _, test := range []struct {
		golden string
		args   []string
	}{
		{"audit", []string{"audit"}},
		{"audit-show", []string{"audit", "show", "4"}},
		{"audit-show-decision", []string{"audit", "show", "6"}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			_, c := consoleWithRecords(t)
			if code := c.run(t, test.args...); code != 0 {
				t.Fatalf("exit %d: %s", code, c.err.String())
			}
			mustFit(t, c.out.String(), 80)
			golden(t, test.golden, c.out.String())
		})
	}
}

// In a pipe, each line is exactly the stored one: the next record carries its hash.
func TestAuditJSONIsWhatIsStored(t *testing.T) {
	f, c := consoleWithRecords(t)
	if code := c.pipe().run(t, "audit", "list", "--json"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.err.String())
	}
	var want strings.Builder
	for _, r := range f.records {
		want.Write(append(r.GetLine(), '\n'))
	}
	if c.out.String() != want.String() {
		t.Errorf("got:\n%s\nwant:\n%s", c.out.String(), want.String())
	}
	c.run(t, "audit", "show", "4", "--json")
	if want := string(f.records[3].GetLine()) + "\n" + string(f.records[3].GetValues()) + "\n"; c.out.String() != want {
		t.Errorf("show --json printed:\n%s\nwant:\n%s", c.out.String(), want)
	}
}

func TestAuditFilters(t *testing.T) {
	midnight := time.Date(2026, 11, 19, 0, 0, 0, 0, noon.Location())
	for _, test := range []struct {
		args []string
		want *pb.AuditQuery
	}{
		{[]string{"list"}, &pb.AuditQuery{Last: audit.ListLimit}},
		{[]string{"--limit", "0", "--json"}, &pb.AuditQuery{}},
		{[]string{"list", "--since", "2h", "--until", "90s"}, &pb.AuditQuery{Last: audit.ListLimit, Since: at(-2 * time.Hour), Until: at(-90 * time.Second)}},
		{[]string{"list", "--since", "7d"}, &pb.AuditQuery{Last: audit.ListLimit, Since: at(-7 * 24 * time.Hour)}},
		{[]string{"list", "--since", "1d12h"}, &pb.AuditQuery{Last: audit.ListLimit, Since: at(-36 * time.Hour)}},
		{[]string{"list", "--since", "2026-11-19"}, &pb.AuditQuery{Last: audit.ListLimit, Since: at(midnight.Sub(noon))}},
		{[]string{"list", "--since", "2026-11-19 06:30"}, &pb.AuditQuery{Last: audit.ListLimit, Since: at(midnight.Sub(noon) + 6*time.Hour + 30*time.Minute)}},
		{[]string{"list", "--since", "2026-11-20T10:00:00Z"}, &pb.AuditQuery{Last: audit.ListLimit, Since: at(-time.Hour)}},
		{[]string{"list", "--server", "git*", "--tool", "create_*", "--verdict", "deny", "--session", "s-1", "--kind", "call", "--limit", "5"},
			&pb.AuditQuery{Last: 5, Server: "git*", Tool: "create_*", Verdict: "deny", Session: "s-1", Kind: "call"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			f, c := consoleWithRecords(t)
			if code := c.run(t, append([]string{"audit"}, test.args...)...); code != 0 {
				t.Fatalf("exit %d: %s", code, c.err.String())
			}
			if !proto.Equal(f.query, test.want) {
				t.Errorf("asked for %v, want %v", f.query, test.want)
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
		if code := c.run(t, append([]string{"audit"}, args...)...); code != 2 {
			t.Errorf("audit %q: exit %d, want 2: %s", args, code, c.err.String())
		}
	}
}

func TestAuditShowOfNothing(t *testing.T) {
	_, c := consoleWithRecords(t)
	if code := c.run(t, "audit", "show", "99"); code != 1 || !strings.Contains(c.err.String(), "record 99: not found") {
		t.Errorf("exit %d: %s", code, c.err.String())
	}
}

// tail prints the existing records, waits for more, and exits 0 when interrupted.
func TestAuditTail(t *testing.T) {
	f, c := consoleWithRecords(t)
	ctx, cancel := context.WithCancel(t.Context())
	c.app.Out = writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "A-3") { // the last record
			cancel()
		}
		return c.out.Write(p)
	})
	if code := c.app.run(ctx, []string{"audit", "tail", "-n", "3"}); code != 0 {
		t.Errorf("exit %d: %s", code, c.err.String())
	}
	if !f.query.GetFollow() || f.query.GetLast() != 3 {
		t.Errorf("asked for %v", f.query)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// writeLog writes the records as the log of an instance.
func writeLog(t *testing.T, dir string, records []*pb.AuditRecord) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, record.SegmentName(1))
	var content []byte
	for _, r := range records {
		content = append(append(content, r.GetLine()...), '\n')
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// verify works without a daemon. It reports what is valid and names what is not.
func TestAuditVerify(t *testing.T) {
	c := newConsole("/nonexistent/control.sock")
	dir := t.TempDir()
	path := writeLog(t, dir, recorded())

	if code := c.run(t, "audit", "verify", dir); code != 0 || !strings.HasPrefix(c.out.String(), "verified: 6 records in 1 segment, log 5f3a\n") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.out.String(), c.err.String())
	}
	if code := c.run(t, "audit", "verify", "--json", path); code != 0 || !strings.Contains(c.out.String(), `"ok":true`) {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.out.String(), c.err.String())
	}

	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(content), `"verdict":"deny"`, `"verdict":"okay"`, 1)
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := c.run(t, "audit", "verify", dir); code != ui.ExitCheck || !strings.Contains(c.err.String(), "record 4") || c.out.Len() > 0 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.out.String(), c.err.String())
	}
	if code := c.run(t, "audit", "verify", "--json", dir); code != ui.ExitCheck || !strings.Contains(c.out.String(), `"record":4`) {
		t.Errorf("exit %d, stdout %q, stderr %q", code, c.out.String(), c.err.String())
	}
	if code := c.run(t, "audit", "verify", filepath.Join(dir, "nothing")); code != 1 {
		t.Errorf("of a folder that is not there: exit %d", code)
	}
}

// A head that is kept elsewhere shows that records at the end are missing.
func TestAuditVerifyAgainstAHead(t *testing.T) {
	c := newConsole("/nonexistent/control.sock")
	records := recorded()
	sum := sha256.Sum256(records[5].GetLine())
	head := filepath.Join(t.TempDir(), "audit.head")
	if err := os.WriteFile(head, record.Head{Log: "5f3a", Seq: 6, Sum: hex.EncodeToString(sum[:])}.Line(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ records, code int }{{6, 0}, {5, ui.ExitCheck}} {
		dir := t.TempDir()
		writeLog(t, dir, records[:test.records])
		if code := c.run(t, "audit", "verify", dir, "--head", head); code != test.code {
			t.Errorf("with %d records: exit %d, want %d: %s", test.records, code, test.code, c.err.String())
		}
	}
}

// Without arguments verify checks the log of this user.
func TestAuditVerifyFindsTheLog(t *testing.T) {
	c := newConsole("/nonexistent/control.sock")
	state := t.TempDir()
	c.env["HOME"], c.env["XDG_STATE_HOME"], c.env["XDG_RUNTIME_DIR"] = t.TempDir(), state, t.TempDir()
	writeLog(t, filepath.Join(state, "thoughtgate", "audit"), recorded())
	if code := c.run(t, "audit", "verify"); code != 0 || !strings.Contains(c.out.String(), "verified: 6 records") {
		t.Errorf("exit %d: %s%s", code, c.out.String(), fmt.Sprint(c.err.String()))
	}
}

func TestReportCommand(t *testing.T) {
	_, c := consoleWithRecords(t)
	if code := c.run(t, "audit", "report"); code != 2 {
		t.Errorf("onto a terminal: exit %d, want 2", code)
	}
	path := filepath.Join(t.TempDir(), "week.html")
	if code := c.run(t, "audit", "report", "-o", path); code != 0 || !strings.Contains(c.err.String(), path) {
		t.Fatalf("exit %d: %s", code, c.err.String())
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(page), "<!doctype html>") || !strings.HasSuffix(string(page), "</html>\n") {
		t.Errorf("not a whole page:\n%s", page)
	}
	if code := c.pipe().run(t, "audit", "report"); code != 0 || c.out.String() != string(page) {
		t.Errorf("into a pipe: exit %d", code)
	}
}
