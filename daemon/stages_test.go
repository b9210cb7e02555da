package daemon_test

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"os"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
	"github.com/thoughtgate/thoughtgated/daemon"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// explainOne requests one explanation.
func explainOne(t *testing.T, c *client.Client, q *pb.ExplainRequest) (*pb.Explanation, error) {
	t.Helper()
	asking, err := c.Explain(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer asking.Close()
	return asking.Ask(q)
}

// An explanation matches what happens.
//
//gotest:plain it is about what is decided, and not about when
func TestExplainIsWhatHappens(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	c := h.control(t)
	file, inside := repository(t)
	put(t, file, "schema: 1\ngovernance:\n  rules:\n    - {match: 'list_*', action: approve}\n")
	a := h.join(t, attach.Hello{Cwd: inside}, nil)
	for _, tool := range []string{"read_file", "delete_file", "send_mail", "list_files"} {
		e, err := explainOne(t, c, &pb.ExplainRequest{Server: "files", Subject: tool, Project: inside})
		if err != nil {
			t.Fatal(err)
		}
		if f := a.call(tool); e.GetVerdict() != f.verdict || f.verdict != "forward" && !strings.Contains(f.reason, e.GetReason()) {
			t.Errorf("%s: explained %s (%s), was %s (%s)", tool, e.GetVerdict(), e.GetReason(), f.verdict, f.reason)
		}
		if len(e.GetCited()) == 0 {
			t.Errorf("%s: nothing is cited", tool)
		}
	}
	if n, err := c.ListApprovals(t.Context(), true); err != nil || len(n) != 2 {
		t.Errorf("explaining has asked people: %d questions, %v", len(n), err)
	}
	if calls := len(h.records(t, "call")); calls != 4 {
		t.Errorf("explaining is on record: %d calls, want 4", calls)
	}
}

//gotest:plain it is about what is decided, and not about when
func TestExplainACandidate(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	c := h.control(t)
	candidate := filepath.Join(t.TempDir(), "new.yaml")
	put(t, candidate, strings.Replace(someRules, "delete_*", "remove_*", 1))
	for path, want := range map[string]string{"": "deny", candidate: "forward"} {
		if e, err := explainOne(t, c, &pb.ExplainRequest{Config: path, Server: "files", Subject: "delete_file"}); err != nil || e.GetVerdict() != want {
			t.Errorf("%s: got %v, %v", path, e, err)
		}
	}
	put(t, candidate, "schema: 1\nnonsense: 1\n")
	_, err := explainOne(t, c, &pb.ExplainRequest{Config: candidate, Server: "files", Subject: "delete_file"})
	var bad *client.Error
	if !errors.As(err, &bad) || !errors.Is(err, client.ErrInvalid) || len(bad.Diagnostics) != 1 || bad.Diagnostics[0].GetLine() != 2 {
		t.Errorf("a broken candidate: got %v", err)
	}
	e, err := explainOne(t, c, &pb.ExplainRequest{Subject: "x"})
	if err != nil || e.GetError() != "the server is missing" {
		t.Errorf("nonsense: got %v, %v", e, err)
	}
}

// A text is tried as if the file had it; neither the file nor what is in force changes.
func TestBacktestOfAText(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	c := h.control(t)
	for text, want := range map[string]string{
		strings.Replace(someRules, "delete_*", "remove_*", 1): "",
		"schema: 1\nnonsense: 1\n":                            "unknown key",
		"schema: 1\n#" + strings.Repeat("x", 64<<10):          "at most",
	} {
		digest, got := "", ""
		for e, err := range c.Backtest(t.Context(), &pb.BacktestRequest{Text: []byte(text)}) {
			if bad, ok := errors.AsType[*client.Error](err); ok {
				got = bad.Error()
				for _, d := range bad.Diagnostics {
					got += "\n" + d.GetMessage()
				}
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			digest = cmp.Or(digest, e.GetSet().GetSet().GetDigest())
		}
		if !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("the error is %q, want %q", got, want)
		}
		now, err := c.PolicySet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && (digest == "" || digest == now.GetDigest()) {
			t.Errorf("tried is %q, in force is %q", digest, now.GetDigest())
		}
		if e, err := explainOne(t, c, &pb.ExplainRequest{Server: "files", Subject: "delete_file"}); err != nil || e.GetVerdict() != "deny" {
			t.Errorf("in force: %v, %v", e, err)
		}
	}
}

// alone returns a client of the policy calls without a daemon.
func alone(t *testing.T, h *home, flag string) *client.Client {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range pair {
		f := os.NewFile(uintptr(fd), "pair")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	getenv := func(name string) string {
		return map[string]string{"HOME": "/home/u", "XDG_CONFIG_HOME": filepath.Dir(h.paths.Config)}[name]
	}
	done := make(chan error, 1)
	go func() {
		done <- daemon.ServePolicies(ends[0], flag, getenv, slog.New(slog.DiscardHandler), "test")
	}()
	c, err := client.Over(t.Context(), ends[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return c
}

// Without a daemon the same calls are answered by what is on disk.
//
//gotest:plain it is about what is decided, and not about when
func TestPoliciesWithoutADaemon(t *testing.T) {
	h := newHome(t, "")
	put(t, h.config, someRules)
	c := alone(t, h, h.config)
	if e, err := explainOne(t, c, &pb.ExplainRequest{Server: "files", Subject: "delete_file"}); err != nil || e.GetVerdict() != "deny" {
		t.Errorf("got %v, %v", e, err)
	}
	if out, err := c.Validate(t.Context(), ""); err != nil || out.GetPath() != h.config {
		t.Errorf("got %v, %v", out, err)
	}
	if set, err := c.PolicySet(t.Context()); err != nil || set.GetDigest() != "" {
		t.Errorf("in force without a daemon: %v, %v", set, err)
	}
	if _, err := c.Status(t.Context()); !errors.Is(err, client.ErrVersion) {
		t.Errorf("status: got %v", err)
	}
	put(t, h.config, "schema: 2\n")
	if _, err := explainOne(t, c, &pb.ExplainRequest{Server: "files", Subject: "x"}); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a broken configuration: got %v", err)
	}
}

//gotest:plain it is about what is decided, and not about when
func TestTestFiles(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	c := h.control(t)
	dir := t.TempDir()
	put(t, filepath.Join(dir, "other.yaml"), strings.Replace(someRules, "delete_*", "remove_*", 1))
	put(t, filepath.Join(dir, "broken.yaml"), "schema: 2\n")
	const deleting = "tests: [{server: files, tool: delete_file, expect: deny}]\n"
	for _, tt := range []struct {
		name, config, text string
		problems, tests    int
		differences        int
		from               string
	}{
		{"the daemon's own", "", "schema: 1\n" + deleting, 0, 1, 0, h.config},
		{"what the file names", "", "schema: 1\nconfig: other.yaml\n" + deleting, 0, 1, 1, filepath.Join(dir, "other.yaml")},
		{"what is asked for", h.config, "schema: 1\nconfig: other.yaml\n" + deleting, 0, 1, 0, h.config},
		{"a broken configuration", "", "schema: 1\nconfig: broken.yaml\n" + deleting, 1, 0, 0, filepath.Join(dir, "broken.yaml")},
		{"none", "", "schema: 1\nconfig: none.yaml\n" + deleting, 1, 0, 0, filepath.Join(dir, "none.yaml")},
		{"a broken file", "", "schema: 1\n", 1, 0, 0, ""},
	} {
		out, err := c.TestPolicies(t.Context(), &pb.TestPoliciesRequest{Config: tt.config, Files: []*pb.TestFile{{Path: filepath.Join(dir, "a.test.yaml"), Text: []byte(tt.text)}}})
		if err != nil || len(out.GetFiles()) != 1 {
			t.Errorf("%s: %v, %v", tt.name, out, err)
			continue
		}
		f := out.GetFiles()[0]
		differences := 0
		for _, r := range f.GetResults() {
			differences += len(r.GetDifferences())
		}
		if len(f.GetProblems()) != tt.problems || len(f.GetResults()) != tt.tests || differences != tt.differences || f.GetConfig() != tt.from {
			t.Errorf("%s: got %v", tt.name, f)
		}
	}
	// The configuration on disk is tested, also if another set is in force.
	h.write(t, strings.Replace(someRules, "delete_*", "remove_*", 1))
	out, err := c.TestPolicies(t.Context(), &pb.TestPoliciesRequest{Files: []*pb.TestFile{{Path: "/x/a.test.yaml", Text: []byte("schema: 1\n" + deleting)}}})
	if err != nil || len(out.GetFiles()[0].GetResults()[0].GetDifferences()) != 1 {
		t.Errorf("got %v, %v", out, err)
	}
}
