package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/daemon"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// attachIn joins as a shim without a session would, that was started in cwd.
func (h *home) attachIn(t *testing.T, cwd string) *client.Attachment {
	t.Helper()
	return h.attachWith(t, &pb.Hello{Protocol: client.Protocol, Attachment: attachment, Server: "files", Command: []string{"cat"}, Cwd: cwd})
}

// repository is a folder with a .git and a folder in it.
func repository(t *testing.T) (file, inside string) {
	t.Helper()
	top := t.TempDir()
	for _, dir := range []string{".git", "src"} {
		if err := os.Mkdir(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(top, ".thoughtgate.yaml"), filepath.Join(top, "src")
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A project's file counts as it stands on disk, from the next call on.
func TestProjectFile(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	file, inside := repository(t)
	a := h.attachIn(t, inside)
	seq := uint64(0)
	verdict := func(tool string) (string, string) {
		t.Helper()
		seq++
		v := ask(t, a, seq, tool)
		return strings.TrimPrefix(v.GetAction().String(), "ACTION_"), string(v.GetAnswer())
	}
	expect := func(tool, want, told string) {
		t.Helper()
		if got, answer := verdict(tool); got != want || !strings.Contains(answer, told) {
			t.Errorf("%s: got %s %s, want %s with %q", tool, got, answer, want, told)
		}
	}
	expect("read_file", "FORWARD", "")

	put(t, file, "schema: 1\ngovernance:\n  rules:\n    - {match: 'read_*', action: deny}\n    - {match: '*', action: forward}\n")
	expect("read_file", "DENY", "Refused by rule .thoughtgate.yaml:4 of the repository: the project's own file "+file+" denies it")
	expect("list_files", "FORWARD", "")
	expect("delete_file", "DENY", "nothing is deleted")
	expect("send_mail", "PENDING", "")

	// As long, as old, and in place: only what cannot be set tells them apart.
	was, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	put(t, file, "schema: 1\ngovernance:\n  rules:\n    - {match: 'list_*', action: deny}\n    - {match: '*', action: forward}\n")
	if err := os.Chtimes(file, time.Time{}, was.ModTime()); err != nil {
		t.Fatal(err)
	}
	expect("read_file", "FORWARD", "")
	expect("list_files", "DENY", ".thoughtgate.yaml:4")

	put(t, file, "schema: 1\nprofile: development\n")
	expect("list_files", "DENY", "the project's own file \\\""+file+"\\\" is not valid, line 2; `tgctl policy check` with its path says why")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	expect("list_files", "FORWARD", "")
	if err := os.Symlink("/etc/hostname", file); err != nil {
		t.Fatal(err)
	}
	expect("list_files", "DENY", "is not valid; `tgctl policy check`")
}

// What a project says is shown, recorded, and asked about before it is touched.
func TestProjectFileIsSeen(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	c := h.control(t)
	file, inside := repository(t)
	put(t, file, "schema: 1\ngovernance:\n  rules:\n    - {match: 'read_*', action: approve}\n")
	a := h.attachIn(t, inside)
	v := ask(t, a, 1, "read_file")
	if v.GetAction() != pb.Action_ACTION_PENDING {
		t.Fatalf("got %v", v)
	}
	q, err := c.GetApproval(t.Context(), v.GetApproval())
	if err != nil {
		t.Fatal(err)
	}
	if q.GetRule() != ".thoughtgate.yaml:4 of the repository" || q.GetReason() != "the project's own file "+file+" asks about it" || q.GetWorkflow() != "ops" {
		t.Errorf("the question does not say whose it is: %v", q)
	}

	st, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p := st.GetProjects(); len(p) != 1 || p[0].GetPath() != file || p[0].GetRules() != 1 || len(p[0].GetDigest()) != 64 || len(p[0].GetProblems()) != 0 {
		t.Errorf("status: got %v", p)
	}
	for r, err := range c.ReadAudit(t.Context(), &pb.AuditQuery{Kind: "call"}) {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(r.GetLine()), `"set":"`+st.GetSet().GetDigest()+"+") {
			t.Errorf("the record does not name what it was judged by: %s", r.GetLine())
		}
	}
	if v := askWith(t, a, 2, "list_files", `{"path":"`+file+`"}`); v.GetAction() != pb.Action_ACTION_PENDING {
		t.Errorf("a call that names the project's file: got %v", v)
	}

	put(t, file, "schema: 1\nnonsense: 1\n")
	if st, err = c.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := st.GetProjects(); len(p) != 1 || p[0].GetDigest() != "" || len(p[0].GetProblems()) != 1 || p[0].GetProblems()[0].GetLine() != 2 {
		t.Errorf("status of what is broken: got %v", p)
	}
	for path, want := range map[string]int{file: 1, filepath.Join(inside, "none", ".thoughtgate.yaml"): 1} {
		out, err := c.Validate(t.Context(), path)
		if err != nil || len(out.GetProblems()) != want || out.GetSet() != nil {
			t.Errorf("validate %s: got %v, %v", path, out, err)
		}
	}
	put(t, file, "schema: 1\n")
	if out, err := c.Validate(t.Context(), file); err != nil || !out.GetSet().GetProject() || len(out.GetProblems()) > 0 {
		t.Errorf("validate what is good: got %v, %v", out, err)
	}
	if path, problems, err := daemon.Check(file, func(string) string { return "/nowhere" }); err != nil || path != file || len(problems) > 0 {
		t.Errorf("check: %s, %v, %v", path, problems, err)
	}
}

// askWith is ask with arguments.
func askWith(t *testing.T, a *client.Attachment, seq uint64, tool, arguments string) *pb.Verdict {
	t.Helper()
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `}}`)
	err := a.Send(&pb.Up{Msg: &pb.Up_Submit{Submit: &pb.Submit{Seq: seq, Direction: pb.Direction_DIRECTION_AGENT_TO_SERVER, Line: line}}})
	if err != nil {
		t.Fatal(err)
	}
	return word(t, a)
}
