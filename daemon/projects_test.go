package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
	"github.com/thoughtgate/thoughtgated/daemon"
)

// repository returns the project file of a folder with a .git, and a folder inside.
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

// A project's file is in force as it is on disk, from the next call on.
func TestProjectFile(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	file, inside := repository(t)
	a := h.join(t, attach.Hello{Cwd: inside}, nil)
	a.expect("forward", "", "read_file")

	put(t, file, "schema: 1\ngovernance:\n  rules:\n    - {match: 'read_*', action: deny}\n    - {match: '*', action: forward}\n")
	a.expect("deny", "Denied by rule .thoughtgate.yaml:4 of the repository: the project's own file "+file+" denies it", "read_file")
	a.expect("forward", "", "list_files")
	a.expect("deny", "nothing is deleted", "delete_file")
	a.expect("ask", "", "send_mail")

	// The new file has the same size, modification time and inode. Only the time that can't be set
	// differs.
	was, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	put(t, file, "schema: 1\ngovernance:\n  rules:\n    - {match: 'list_*', action: deny}\n    - {match: '*', action: forward}\n")
	if err := os.Chtimes(file, time.Time{}, was.ModTime()); err != nil {
		t.Fatal(err)
	}
	a.expect("forward", "", "read_file")
	a.expect("deny", ".thoughtgate.yaml:4", "list_files")

	put(t, file, "schema: 1\nprofile: development\n")
	a.expect("deny", "the project's own file \""+file+"\" is invalid, line 2; `tgctl policy check` with its path says why", "list_files")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	a.expect("forward", "", "list_files")
	if err := os.Symlink("/etc/hostname", file); err != nil {
		t.Fatal(err)
	}
	a.expect("deny", "is invalid; `tgctl policy check`", "list_files")
}

// A project's file is listed and recorded, and a person is asked before a call touches it.
func TestProjectFileIsSeen(t *testing.T) {
	h := newHome(t, someRules)
	h.start(t)
	c := h.control(t)
	file, inside := repository(t)
	put(t, file, "schema: 1\ngovernance:\n  rules:\n    - {match: 'read_*', action: approve}\n")
	a := h.join(t, attach.Hello{Cwd: inside}, nil)
	q := a.expect("ask", "", "read_file").question
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
	for _, r := range h.records(t, "call") {
		if !strings.Contains(string(r.GetLine()), `"set":"`+st.GetSet().GetDigest()+"+") {
			t.Errorf("the record does not name what it was judged by: %s", r.GetLine())
		}
	}
	a.expect("ask", "", "list_files", `{"path":"`+file+`"}`)

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
