package policy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// anExplanation has a value in every field, some of them hostile.
func anExplanation() *pb.Explanation {
	return &pb.Explanation{
		Verdict: "ask", Gate: "rule", Rule: `"*" when planted (thoughtgate.yaml:6)`, Profile: "development", Forwarded: true,
		Reason: "evil\x1b[2J.example was named by server web, not by you or your agent", Set: strings.Repeat("0f", 32),
		Workflow: "ops", Timeout: durationpb.New(10 * time.Minute), Surfaces: []string{"terminal", "script"}, Grant: "mail/send to a@evil\u202e.example",
		Natively: true,
		Hooks:    []string{"words", "evil\x1b[2J"}, ResultHooks: []string{"scrubber"},
		Facts: []*pb.CallFact{
			{Name: "planted", Member: "to", Place: "a@evil\u202e.example", By: "web"},
			{Name: "sends", Detail: "its name says send"},
		},
		Cited: []*pb.Citation{
			{Kind: "rule", File: "/p/.thoughtgate.yaml", Line: 3, Column: 5, Does: "approve", Project: true},
			{Kind: "rule", Name: `"*" when planted`, File: "/home/ana/.config/thoughtgate/thoughtgate.yaml", Line: 6, Column: 7, Does: "approve", Says: "{place} was named by server {by}"},
			{Kind: "default", Name: "defaults.action", Does: "forward"},
			{Kind: "permit", Name: "small", File: "/p/a.cedar", Line: 1, Column: 1, Does: "ask"},
			{Kind: "forbid", Name: "never", File: "/p/a.cedar", Line: 2, Column: 1, Does: "forbid", Says: "no mail"},
		},
		Near: []*pb.NearRule{{Rule: &pb.Citation{Kind: "rule", Name: `"send_*"`, File: "/home/ana/t.yaml", Line: 4, Column: 7, Does: "deny"}, Because: "its source is prod-*, the call's is mail"}},
		Changes: []*pb.PolicyChange{
			{Change: `without the rule "*" when planted (thoughtgate.yaml:6)`, Verdict: "forward", By: "defaults.action"},
			{Change: "the call without the fact planted", Alternative: true, Verdict: "forward"},
			{Change: "the policies or the call, so that they can be evaluated"},
		},
	}
}

func TestExplain(t *testing.T) {
	f := consoletest.Start(t)
	f.Explain = func(*pb.ExplainRequest) (*pb.Explanation, error) { return anExplanation(), nil }
	c := newConsole(f.Socket)
	line := []string{"policy", "explain", "--server", "mail", "--tool", "send", "--args", `{"to": "a@evil.example"}`, "--agent", "cursor", "--project", "/p", "--config", "/c/t.yaml"}
	if code := c.Run(t, line...); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	consoletest.MustFit(t, c.Out.String(), 80)
	consoletest.Golden(t, "policy-explain", c.Out.String())
	q := f.Explains[0]
	if q.GetServer() != "mail" || q.GetMethod() != "tools/call" || q.GetSubject() != "send" || string(q.GetArguments()) != `{"to": "a@evil.example"}` ||
		q.GetAgent() != "cursor" || q.GetProject() != "/p" || q.GetConfig() != "/c/t.yaml" || q.GetBrief() {
		t.Errorf("asked %v", q)
	}
	if code := c.Run(t, append(line, "--json")...); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	consoletest.Golden(t, "policy-explain-json", c.Out.String())
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range []struct{ flag, method string }{{"--uri", "resources/read"}, {"--prompt", "prompts/get"}} {
		c.Run(t, "policy", "explain", "--server", "x", one.flag, "y")
		if q := f.Explains[i+2]; q.GetMethod() != one.method || q.GetSubject() != "y" || q.GetProject() != wd || q.GetArguments() != nil {
			t.Errorf("asked %v", q)
		}
	}
}

func TestExplainFails(t *testing.T) {
	f := consoletest.Start(t)
	path, problems := consoletest.BrokenConfig(t)
	f.Explain = func(*pb.ExplainRequest) (*pb.Explanation, error) {
		return nil, client.NewError(client.ReasonInvalid, "the configuration has errors", problems...)
	}
	c := newConsole(f.Socket)
	if code := c.Run(t, "policy", "explain", "--server", "x", "--tool", "y"); code != ui.ExitCheck || c.Out.Len() > 0 ||
		!strings.Contains(c.Err.String(), path+":4:25: error: unknown key") || !strings.HasSuffix(c.Err.String(), "tgctl: the configuration has errors\n") {
		t.Errorf("exit %d, stdout %q, stderr %s", code, c.Out.String(), c.Err.String())
	}
	f.Explain = func(*pb.ExplainRequest) (*pb.Explanation, error) {
		return &pb.Explanation{Error: "it makes no sense"}, nil
	}
	if code := c.Run(t, "policy", "explain", "--server", "x", "--tool", "y"); code != 1 || !strings.Contains(c.Err.String(), "it makes no sense") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}

// TestExplainLines checks that each line gets one answer, and that an invalid line does not
// affect the next.
func TestExplainLines(t *testing.T) {
	f := consoletest.Start(t)
	f.Explain = func(q *pb.ExplainRequest) (*pb.Explanation, error) {
		if q.GetServer() == "" {
			return &pb.Explanation{Error: "it names no server"}, nil
		}
		return &pb.Explanation{Verdict: "ask", Rule: "r", Facts: []*pb.CallFact{{Name: "acts"}, {Name: "acts", Member: "x"}}, Grant: "g"}, nil
	}
	c := newConsole(f.Socket).Pipe()
	lines := []string{
		`{"server":"s","method":"tools/call","tool":"t","arguments":{"a":1},"agent":"claude-code","session":"1","definition":{"name":"t"}}`,
		`{"server":"s","tool":"t","arguments":null,"result":{"content":[]},"label":1,"turn":2}`,
		`{"server":"s","uri":"file:///x","project":"/p","command":["node","x"],"assume":["secret"]}`,
		`{"server":"s","method":"sampling/createMessage","params":{"messages":[]}}`,
		``,
		`not JSON`, `[]`, `{"server":1}`, `{"server":"s","server":"t"}`, `{"server":"s"} {"server":"s"}`, `{"server":"s"`, `{"tool":"t"}`,
		`{"server":"s","tool":"t","arguments":{"a":1,"a":2}}`,
	}
	c.App.In = strings.NewReader(strings.Join(lines, "\n"))
	if code := c.Run(t, "policy", "explain", "-"); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	consoletest.Golden(t, "policy-explain-lines", c.Out.String())
	if got := strings.Count(c.Out.String(), "\n"); got != len(lines)-1 {
		t.Errorf("%d answers to %d lines", got, len(lines)-1)
	}
	first := f.Explains[0]
	if first.GetSession() != "1" || string(first.GetDefinition()) != `{"name":"t"}` || !first.GetBrief() || first.GetProject() == "" {
		t.Errorf("asked %v", first)
	}
	if q := f.Explains[1]; q.GetArguments() != nil || string(q.GetResult()) != `{"content":[]}` {
		t.Errorf("asked %v", q)
	}
	if q := f.Explains[2]; q.GetMethod() != "resources/read" || q.GetSubject() != "file:///x" || q.GetProject() != "/p" || len(q.GetCommand()) != 2 || len(q.GetAssume()) != 1 {
		t.Errorf("asked %v", q)
	}
	if q := f.Explains[len(f.Explains)-1]; string(q.GetArguments()) != `{"a":1,"a":2}` {
		t.Errorf("what the gate should refuse did not reach it: %v", q)
	}
	c.App.In = strings.NewReader(`{"server":"` + strings.Repeat("x", longestLine) + `"}`)
	if code := c.Run(t, "policy", "explain", "-"); code != 1 || !strings.Contains(c.Err.String(), "the line is longer than") {
		t.Errorf("exit %d: %.200s", code, c.Err.String())
	}
}

func TestPolicyTest(t *testing.T) {
	f := consoletest.Start(t)
	dir := t.TempDir()
	for _, name := range []string{"a.test.yaml", "b.test.yaml", "thoughtgate.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var asked []string
	f.Validate = &pb.ValidateResponse{Path: filepath.Join(dir, "thoughtgate.yaml")}
	f.Test = func(req *pb.TestPoliciesRequest) *pb.TestPoliciesResponse {
		one := req.GetFiles()[0]
		asked = append(asked, fmt.Sprintf("%s:%s:%s", filepath.Base(req.GetConfig()), filepath.Base(one.GetPath()), one.GetText()))
		out := &pb.TestFileResult{Path: one.GetPath(), Results: []*pb.TestResult{{Name: "fine", Line: 3, Got: &pb.Explanation{Verdict: "ask"}}}}
		if filepath.Base(one.GetPath()) == "b.test.yaml" {
			e := anExplanation()
			out.Results = append(out.Results, &pb.TestResult{Name: "deleting \x1b[2J is asked about", Line: 7, Got: e, Differences: []*pb.TestDifference{
				{What: "verdict", Want: "deny", Got: "ask"}, {What: "facts", Want: "secret", Got: ""},
			}})
		}
		return &pb.TestPoliciesResponse{Files: []*pb.TestFileResult{out}}
	}
	c := newConsole(f.Socket).Pipe()
	if code := c.Run(t, "policy", "test"); code != ui.ExitCheck {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	consoletest.Golden(t, "policy-test", strings.ReplaceAll(c.Out.String(), dir, "DIR"))
	if want := ".:a.test.yaml:a.test.yaml .:b.test.yaml:b.test.yaml"; strings.Join(asked, " ") != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
	if code := c.Run(t, "policy", "test", filepath.Join(dir, "a.test.yaml"), "--config", "other.yaml"); code != 0 || !strings.HasSuffix(c.Out.String(), "a.test.yaml: 1 verdict as expected\n") {
		t.Errorf("exit %d: %s", code, c.Out.String())
	}
	if got := asked[len(asked)-1]; got != "other.yaml:a.test.yaml:a.test.yaml" {
		t.Errorf("asked %q", got)
	}
	c.Run(t, "policy", "test", "--json")
	for line := range strings.SplitSeq(strings.TrimSpace(c.Out.String()), "\n") {
		var one struct {
			testJSON
			Differences []any
			Got         struct{ Verdict string }
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.OK != (len(one.Differences) == 0) || one.Got.Verdict != "ask" {
			t.Errorf("%s: %v", line, err)
		}
	}

	path, problems := consoletest.BrokenConfig(t)
	f.Test = func(*pb.TestPoliciesRequest) *pb.TestPoliciesResponse {
		return &pb.TestPoliciesResponse{Files: []*pb.TestFileResult{{Path: "/x/a.test.yaml", Config: path, Problems: problems}}}
	}
	if code := c.Run(t, "policy", "test"); code != ui.ExitCheck || !strings.Contains(c.Out.String(), path+":4:25: error") || !strings.Contains(c.Out.String(), "/x/a.test.yaml: no calls were judged\n") {
		t.Errorf("exit %d: %s", code, c.Out.String())
	}
	if code := c.Run(t, "policy", "test", filepath.Join(dir, "none")); code != 1 || !strings.Contains(c.Err.String(), "no such file") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	f.Validate.Path = filepath.Join(t.TempDir(), "thoughtgate.yaml")
	if code := c.Run(t, "policy", "test"); code != ui.ExitUsage || !strings.Contains(c.Err.String(), "name a FILE: there is no *.test.yaml in ") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	f.Validate.Path = ""
	if code := c.Run(t, "policy", "test"); code != ui.ExitUsage || !strings.Contains(c.Err.String(), "there is no configuration, so no ") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}

// TestCompleteFromTheRecord checks that servers and tools are completed from the record, except
// names that are displayed escaped.
func TestCompleteFromTheRecord(t *testing.T) {
	f := consoletest.Start(t)
	f.Records = consoletest.Recorded()
	c := newConsole(f.Socket)
	c.Run(t, "__complete", "policy", "explain", "--server", "")
	consoletest.Golden(t, "complete-server", c.Out.String())
	if q := f.Query; q.GetKind() != "call" || q.GetLast() == 0 {
		t.Errorf("asked %v", q)
	}
	c.Run(t, "__complete", "policy", "explain", "--server", "filesystem", "--tool", "")
	consoletest.Golden(t, "complete-tool", c.Out.String())
	if q := f.Query; q.GetServer() != "filesystem" {
		t.Errorf("asked %v", q)
	}
}
