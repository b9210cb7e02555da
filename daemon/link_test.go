package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// linkWorld returns a world without rules. It has a folder that belongs to ThoughtGate and another
// that is the project.
func linkWorld(t *testing.T) (w *world, project, ours string) {
	t.Helper()
	dir := t.TempDir()
	project, ours = filepath.Join(dir, "project"), filepath.Join(dir, "ours")
	for _, folder := range []string{project, ours} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w, err := newWorld(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	w.yaml, w.cedar = "schema: 1\ngovernance: {defaults: {action: forward}, rules: []}\n", ""
	if err := w.reload(); err != nil {
		t.Fatal(err)
	}
	w.gate.Facts = facts.New(facts.Options{Home: dir, Ours: func() []string { return []string{ours} }})
	w.gate.Open = new(gate.OpenCalls)
	w.shim.Project, w.shim.Cwd = project, project
	return w, project, ours
}

func toolCall(seq uint64, tool, arguments string) gate.Submission {
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, seq, tool, arguments)
	return gate.Submission{Seq: seq, Side: wire.FromAgent, Line: line}
}

// If one call makes a link and another call of the session writes through it, that is found, though
// both arrive before the first is executed.
//
//gotest:plain it is about what is decided, and not about when
func TestALinkMadeByACallThatIsOpen(t *testing.T) {
	for name, link := range map[string]string{
		"by name":        `{"target":"..","linkpath":"out"}`,
		"in a command":   `{"command":"ln -s .. out"}`,
		"in arguments":   `{"program":"ln","args":["-s","..","out"]}`,
		"in two members": `{"dir":"%s","name":"out","target":".."}`,
		"by a folder":    `{"archive":"a.tar","destination":"."}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, project, ours := linkWorld(t)
				if name == "in two members" {
					link = fmt.Sprintf(link, project)
				}
				first, made := w.attach(nil)
				defer func() { first.Close(true) }()
				w.shim.Attachment, w.shim.Server = "second", "files"
				second, written := w.attach(nil)
				defer func() { second.Close(true) }()
				first.Submit(toolCall(1, "make", link))
				if v := <-made; v.Move != gate.Forward {
					t.Fatalf("the first: %v %s", v.Move, v.Reason)
				}
				second.Submit(toolCall(1, "put", `{"path":"out/ours/new.yaml","content":"x"}`))
				if name != "in a command" && name != "in arguments" { // these may concern any folder, so no other call waits for them
					second.Submit(toolCall(2, "put", `{"path":"/elsewhere/new.yaml","content":"x"}`))
					if v := <-written; v.Seq != 2 || v.Move != gate.Forward {
						t.Fatalf("another folder: %d %v %s", v.Seq, v.Move, v.Reason)
					}
				}
				if err := os.Symlink(filepath.Dir(ours), filepath.Join(project, "out")); err != nil {
					t.Fatal(err)
				}
				first.RecordOutcome(t.Context(), 1, "ok")
				if v := <-written; v.Seq != 1 || v.Move != gate.Ask || v.Approval == "" {
					t.Errorf("it is written through the link: %d %v %s", v.Seq, v.Move, v.Reason)
				}
			})
		})
	}
}

// A person's approval does not bypass the rules: the call is judged again once the calls that
// arrived meanwhile are answered.
//
//gotest:plain it is about what is decided, and not about when
func TestALinkMadeBeforeAYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, project, ours := linkWorld(t)
		w.yaml = "schema: 1\ngovernance: {defaults: {action: forward}, rules: [{match: put, action: approve}]}\n"
		if err := w.reload(); err != nil {
			t.Fatal(err)
		}
		a, verdicts := w.attach(nil)
		defer a.Close(true)
		a.Submit(toolCall(1, "put", `{"path":"out/ours/new.yaml","content":"x"}`))
		if v := <-verdicts; v.Move != gate.Ask || v.Approval != "A-1" {
			t.Fatalf("got %v %s", v.Move, v.Reason)
		}
		a.Submit(toolCall(2, "make", `{"target":"..","linkpath":"out"}`))
		if v := <-verdicts; v.Move != gate.Forward {
			t.Fatalf("got %v %s", v.Move, v.Reason)
		}
		if err := w.decide(true); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Dir(ours), filepath.Join(project, "out")); err != nil {
			t.Fatal(err)
		}
		a.RecordOutcome(t.Context(), 2, "ok")
		if v := <-verdicts; v.Seq != 1 || v.Move != gate.Deny {
			t.Errorf("got %v %s", v.Move, v.Reason)
		} else {
			t.Log(v.Reason)
		}
	})
}

// A server that never answers does not block other calls forever: a call is denied if an unanswered
// call may well have made a link there, and otherwise judged again and forwarded.
//
//gotest:plain it is about what is decided, and not about when
func TestAnOpenCallThatIsNeverAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		tool, first string
		want        gate.Move
		waits       bool
	}{
		"a link":             {"put", `{"path":"out","target":".."}`, gate.Deny, true},
		"a link by its name": {"make_link", `{"path":"out"}`, gate.Deny, true},
		"unpacked":           {"extract_archive", `{"archive":"a.tar"}`, gate.Forward, false},
		"unpacked here":      {"extract_archive", `{"archive":"a.tar","folder":"."}`, gate.Deny, true},
		"the same new file":  {"put", `{"path":"out/new","content":"y"}`, gate.Forward, true},
		"below it":           {"put", `{"path":"out/new/deep.txt"}`, gate.Forward, true},
		"above it":           {"put", `{"path":"out"}`, gate.Forward, true},
		"a command":          {"make", `{"command":"npm run dev --open"}`, gate.Forward, true},
		"here":               {"put", `{"path":"."}`, gate.Forward, true},
		"read":               {"read_file", `{"path":"out/new"}`, gate.Forward, false},
		"searched":           {"search_files", `{"path":".","pattern":"a b"}`, gate.Forward, false},
		"of another folder":  {"copy_file", `{"from":"a/x","to":"b/x"}`, gate.Forward, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _, _ := linkWorld(t)
				a, verdicts := w.attach(nil)
				defer a.Close(true)
				a.Submit(toolCall(1, c.tool, c.first))
				if v := <-verdicts; v.Move != gate.Forward {
					t.Fatalf("the first: %v", v)
				}
				start := time.Now()
				a.Submit(toolCall(2, "put", `{"path":"out/new","content":"x"}`))
				v, took := <-verdicts, time.Since(start)
				if v.Move != c.want || took > 10*time.Second || took > time.Second != c.waits {
					t.Errorf("got %v %s, after %v", v.Move, v.Reason, took)
				}
				// After that, no call waits for one that was answered or denied.
				a.RecordOutcome(t.Context(), 1, "ok")
				a.RecordOutcome(t.Context(), 2, "ok")
				start = time.Now()
				a.Submit(toolCall(3, "put", `{"path":"out/new","content":"x"}`))
				if v := <-verdicts; v.Move != gate.Forward || time.Since(start) > time.Second {
					t.Errorf("then: %v %s, after %v", v.Move, v.Reason, time.Since(start))
				}
			})
		})
	}
}

// An unanswered link is not forgotten, whatever else is sent: a call that does not fit into the
// list of open calls may have made any link.
//
//gotest:plain it is about what is decided, and not about when
func TestALinkBehindManyOpenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := linkWorld(t)
		a, verdicts := w.attach(nil)
		defer a.Close(true)
		a.Submit(toolCall(1, "make", `{"target":"..","linkpath":"out"}`))
		<-verdicts
		for seq := range uint64(1100) {
			a.Submit(toolCall(seq+2, "read_file", `{"path":"."}`))
			if v := <-verdicts; v.Move != gate.Forward {
				t.Fatalf("%d: %v %s", v.Seq, v.Move, v.Reason)
			}
		}
		start := time.Now()
		a.Submit(toolCall(2000, "put", `{"path":"out/ours/new.yaml","content":"x"}`))
		if <-verdicts; time.Since(start) < time.Second {
			t.Error("it did not wait")
		}
	})
}

// A link that replaces an existing folder, even the project's own, is found like a new link.
//
//gotest:plain it is about what is decided, and not about when
func TestAFolderReplacedByALink(t *testing.T) {
	for name, path := range map[string]string{"a folder": "real/new.yaml", "the project": "new.yaml"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, project, ours := linkWorld(t)
				w.shim.Cwd = filepath.Dir(project)
				old := filepath.Join(project, filepath.Dir(path))
				if err := os.MkdirAll(old, 0o700); err != nil {
					t.Fatal(err)
				}
				file := filepath.Join(project, path)
				for _, f := range []string{file, filepath.Join(ours, "new.yaml")} {
					if err := os.WriteFile(f, nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				a, verdicts := w.attach(nil)
				defer a.Close(true)
				next := func(seq uint64, want gate.Move) {
					t.Helper()
					if v := <-verdicts; v.Seq != seq || v.Move != want {
						t.Fatalf("got %d %v %s, want %d %v", v.Seq, v.Move, v.Reason, seq, want)
					}
				}
				a.Submit(toolCall(1, "read_file", fmt.Sprintf(`{"path":%q}`, path))) // by now the location of the project is known
				next(1, gate.Forward)
				a.RecordOutcome(t.Context(), 1, "ok")
				a.Submit(toolCall(2, "move_file", fmt.Sprintf(`{"from":%q,"to":%q}`, old, old+".old")))
				next(2, gate.Forward)
				a.Submit(toolCall(3, "make_link", fmt.Sprintf(`{"path":%q,"target":"x"}`, old)))
				a.Submit(toolCall(4, "put", fmt.Sprintf(`{"path":%q,"content":"x"}`, path)))
				if err := os.Rename(old, old+".old"); err != nil {
					t.Fatal(err)
				}
				a.RecordOutcome(t.Context(), 2, "ok")
				next(3, gate.Forward)
				if err := os.Symlink(ours, old); err != nil {
					t.Fatal(err)
				}
				a.RecordOutcome(t.Context(), 3, "ok")
				next(4, gate.Ask)
			})
		})
	}
}

// Concurrent calls whose missing paths are unrelated do not wait for each other. Two calls with the
// same path take as long as the answers.
func TestNewFilesSideBySide(t *testing.T) {
	for name, calls := range map[string][2]string{
		"in one folder":    {`{"path":"a.txt","content":"some words, and/or ./more"}`, `{"path":"b.txt","content":"other words in ./a.txt"}`},
		"named whole":      {`{"file_path":"%s/a b.txt","data":"x y"}`, `{"file_path":"%s/c d.txt","data":"x y"}`},
		"edited":           {`{"path":"a.txt","edits":[{"oldText":"a b","newText":"b ../c"}]}`, `{"path":"b.txt","edits":[{"oldText":"a b","newText":"b ../c"}]}`},
		"in other folders": {`{"path":"new/a.txt","content":"x y"}`, `{"path":"other/a.txt","content":"x y"}`},
		"what is there":    {`{"path":"."}`, `{"path":"."}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, project, _ := linkWorld(t)
				a, verdicts := w.attach(nil)
				defer a.Close(true)
				for i, arguments := range calls {
					a.Submit(toolCall(uint64(i+1), "write_file", strings.ReplaceAll(arguments, "%s", project)))
					if v := <-verdicts; v.Seq != uint64(i+1) || v.Move != gate.Forward {
						t.Fatalf("call %d: %v %s", v.Seq, v.Move, v.Reason)
					}
				}
			})
		})
	}
}

// Calls also wait for a waiting call, which may make a link once it is forwarded.
//
//gotest:plain it is about what is decided, and not about when
func TestALinkThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, project, ours := linkWorld(t)
		a, verdicts := w.attach(nil)
		defer a.Close(true)
		a.Submit(toolCall(1, "put", `{"path":"out"}`))
		if v := <-verdicts; v.Seq != 1 || v.Move != gate.Forward {
			t.Fatalf("got %d %v %s", v.Seq, v.Move, v.Reason)
		}
		a.Submit(toolCall(2, "make", `{"target":"..","linkpath":"out"}`))
		a.Submit(toolCall(3, "put", `{"path":"out/ours/new.yaml","content":"x"}`))
		a.RecordOutcome(t.Context(), 1, "tool_error")
		if v := <-verdicts; v.Seq != 2 || v.Move != gate.Forward {
			t.Fatalf("got %d %v %s", v.Seq, v.Move, v.Reason)
		}
		if err := os.Symlink(filepath.Dir(ours), filepath.Join(project, "out")); err != nil {
			t.Fatal(err)
		}
		a.RecordOutcome(t.Context(), 2, "ok")
		if v := <-verdicts; v.Seq != 3 || v.Move != gate.Ask || v.Approval == "" {
			t.Errorf("it is written through the link: %d %v %s", v.Seq, v.Move, v.Reason)
		}
	})
}

// Twenty new files in an existing folder are forwarded at once. Two writes of the same new file are
// forwarded one after the other, and neither is denied.
func TestManyNewFilesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := linkWorld(t)
		a, verdicts := w.attach(nil)
		defer a.Close(true)
		for i := range uint64(20) {
			a.Submit(toolCall(i+1, "write_file", fmt.Sprintf(`{"path":"new%d.txt","content":"the words of ../x and /etc/y\nof %d","encoding":"utf-8"}`, i, i)))
			if v := <-verdicts; v.Seq != i+1 || v.Move != gate.Forward {
				t.Fatalf("got %d %v %s", v.Seq, v.Move, v.Reason)
			}
		}
		start := time.Now()
		a.Submit(toolCall(21, "write_file", `{"path":"new0.txt","content":"again"}`))
		time.Sleep(time.Second)
		a.RecordOutcome(t.Context(), 1, "ok")
		if v := <-verdicts; v.Seq != 21 || v.Move != gate.Forward || time.Since(start) > time.Second {
			t.Errorf("got %d %v %s after %v", v.Seq, v.Move, v.Reason, time.Since(start))
		}
	})
}
