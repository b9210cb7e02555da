package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

var ctx = context.Background()

func open(t testing.TB, path string) *DB {
	t.Helper()
	db, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDB(t, db) })
	return db
}

func closeDB(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func question(seq uint64) *Question {
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	q := &Question{
		State: StateOpen, Created: at, Expires: at.Add(time.Minute), Boot: "boot", Deadline: 90 * time.Second,
		Attachment: "att", Seq: seq, Call: "c-1", Session: "s", Agent: "claude-code", Project: "/p", Server: "db", Launch: "l",
		Direction: "agent_to_server", Method: "tools/call", Tool: "drop\x00'\"", Profile: "production",
		Params: []byte(`{"name":"drop"}`), Reason: "r", Rule: "u", Workflow: "ops",
		Facts: []string{"acts: it drops"}, Extent: gate.Extent{"files": 2}, Grain: &gate.Grain{Program: "git", Verb: "push", Folder: "/p"}, Surfaces: []string{"terminal"},
	}
	q.Subject[0], q.Subject[31] = 1, 255
	return q
}

func add(t testing.TB, db *DB, q *Question) *Question {
	t.Helper()
	if err := db.AddQuestion(ctx, q); err != nil {
		t.Fatal(err)
	}
	return q
}

func end(t testing.TB, db *DB, q *Question) {
	t.Helper()
	q.State, q.Decided, q.Decider, q.Surface, q.Note = StateApproved, q.Created.Add(time.Second), "uid 1", "terminal", "fine"
	if err := db.EndQuestion(ctx, q); err != nil {
		t.Fatal(err)
	}
}

func TestQuestionsComeBackAsTheyWere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "state.db")
	db := open(t, path)
	first, second := add(t, db, question(1<<64-1)), add(t, db, question(2))
	second.Params, second.Facts, second.Surfaces = nil, nil, nil
	third := add(t, db, &Question{State: StateOpen, Attachment: "other"})
	end(t, db, second)
	closeDB(t, db)

	db = open(t, path)
	var got []Question
	if err := db.EachOpen(ctx, func(q Question) { got = append(got, q) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Question{*first, *third}, got); diff != "" {
		t.Errorf("open (-want +got):\n%s", diff)
	}
	got, err := db.EndedQuestions(ctx, 10)
	if err != nil || len(got) != 1 {
		t.Fatalf("%d ended, %v", len(got), err)
	}
	second.Facts, second.Surfaces = question(2).Facts, question(2).Surfaces // EndQuestion does not change these
	if diff := cmp.Diff(*second, got[0]); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
	asker, err := db.AskerOf(ctx, "att", 1<<64-1)
	if err != nil || asker.Question != first.ID || asker.State != AskerWaits || !asker.Since.Equal(first.Created) {
		t.Errorf("of the call: %+v, %v", asker, err)
	}
	one, err := db.Question(ctx, second.ID)
	if err != nil || one.Note != "fine" {
		t.Errorf("by id: %+v, %v", one, err)
	}
}

func TestQuestionsThatAreNotThere(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "state.db"))
	for _, id := range []string{"A-1", "", "1", "A-01", "a-1", "A--1", "A-99999999999999999999"} {
		if _, err := db.Question(ctx, id); !errors.Is(err, gate.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := db.AskerOf(ctx, "att", 1); !errors.Is(err, gate.ErrNotFound) {
		t.Error(err)
	}
	if err := db.EndQuestion(ctx, &Question{ID: "A-1", State: StateExpired}); !errors.Is(err, gate.ErrDecided) {
		t.Error(err)
	}
}

func TestAQuestionEndsOnce(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "state.db"))
	q := add(t, db, question(1))
	end(t, db, q)
	q.State = StateRejected
	if err := db.EndQuestion(ctx, q); !errors.Is(err, gate.ErrDecided) {
		t.Errorf("got %v", err)
	}
	if got, err := db.Question(ctx, q.ID); err != nil || got.State != StateApproved {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := db.AddQuestion(ctx, question(1)); err == nil {
		t.Error("a second question about one call was filed")
	}
}

// An id is never reused, even if its question was pruned and the daemon restarted.
func TestIDsAreNeverUsedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	seen := map[string]bool{}
	for seq := range uint64(6) {
		db := open(t, path)
		q := add(t, db, question(seq))
		if seen[q.ID] {
			t.Errorf("%s twice", q.ID)
		}
		seen[q.ID] = true
		end(t, db, q)
		if err := db.PruneQuestions(ctx, 0); err != nil {
			t.Fatal(err)
		}
		if left, err := db.EndedQuestions(ctx, 10); err != nil || len(left) != 0 {
			t.Errorf("%d left, %v", len(left), err)
		}
		closeDB(t, db)
	}
}

func TestPruneKeepsTheNewest(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "state.db"))
	for seq := range uint64(6) {
		if q := add(t, db, question(seq)); seq > 0 {
			end(t, db, q)
		}
	}
	if err := db.PruneQuestions(ctx, 2); err != nil {
		t.Fatal(err)
	}
	ended, err := db.EndedQuestions(ctx, 10)
	if err != nil || len(ended) != 2 || ended[0].ID != "A-6" || ended[1].ID != "A-5" {
		t.Errorf("got %v, %v", ended, err)
	}
	left := 0
	if err := db.EachOpen(ctx, func(Question) { left++ }); err != nil || left != 1 {
		t.Errorf("%d open, %v", left, err)
	}
}

// A truncated digest is not taken for another one.
func TestDigestsThatAreCut(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "state.db"))
	q := add(t, db, question(1))
	for _, column := range []string{"subject", "definition", "basis"} {
		if _, err := db.sql.Exec("UPDATE questions SET subject = zeroblob(32), definition = NULL, basis = NULL"); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Question(ctx, q.ID); err != nil {
			t.Errorf("without damage: %v", err)
		}
		if _, err := db.sql.Exec("UPDATE questions SET " + column + " = x'0102'"); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Question(ctx, q.ID); !errors.Is(err, gate.ErrInvalid) {
			t.Errorf("a cut %s: got %v, want that it is invalid", column, err)
		}
	}
}

// grep returns the files of the folder that contain text.
func grep(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), text) {
			found = append(found, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// What a question shows is stored while it is waiting and in no file afterwards, while
// the daemon still runs.
func TestEndingErases(t *testing.T) {
	const secret = "sk-live-0123456789abcdef"
	for _, size := range []int{10, 3000, 200_000} { // within the row, and on pages of its own
		dir := t.TempDir()
		db := open(t, filepath.Join(dir, "state.db"))
		for seq := range uint64(5) {
			add(t, db, question(100+seq))
		}
		q := question(1)
		q.Params = []byte(strings.Repeat("x", size) + secret + strings.Repeat("y", size) + secret)
		add(t, db, q)
		if len(grep(t, dir, secret)) == 0 {
			t.Fatal("the secret of an open question is nowhere: this test would prove nothing")
		}
		end(t, db, q)
		if left := grep(t, dir, secret); len(left) > 0 {
			t.Errorf("size %d: the secret is still in %q", size, left)
		}
	}
}

func TestSessions(t *testing.T) {
	const secret = "journal-0123456789abcdef"
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	db := open(t, path)
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	one := &Session{
		ID: "one", Agent: "claude-code", Command: []string{"claude", "-p"}, Project: "/p", Profile: "production",
		Wrap: Process{PID: 17, Start: 1 << 63}, Opened: at, State: "open",
		Files: []File{{"/b", []byte(secret)}, {"/a", []byte{}}},
	}
	two := &Session{ID: "two", Opened: at.Add(-time.Second), Keep: true}
	for _, s := range []*Session{one, two, one} {
		if err := db.PutSession(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	one.Files, one.State = one.Files[:1], "closing"
	if err := db.PutSession(ctx, one); err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	db = open(t, path)
	got, err := db.Sessions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Session{*two, *one}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, id := range []string{"one", "one", "never"} {
		if err := db.DeleteSession(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if got, err := db.Sessions(ctx); err != nil || len(got) != 1 || got[0].ID != "two" {
		t.Errorf("left %+v, %v", got, err)
	}
	if left := grep(t, dir, secret); len(left) > 0 {
		t.Errorf("the journal is still in %q", left)
	}
}

func TestOnlyTheOwnerMayRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a ?#%20dir")
	db := open(t, filepath.Join(dir, "state.db"))
	add(t, db, question(1))
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		files++
		return err
	})
	if err != nil || files != 4 { // the folder, the file, its log and its index
		t.Errorf("%d files, %v", files, err)
	}

	loose := filepath.Join(t.TempDir(), "loose.db")
	if err := os.WriteFile(loose, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	closeDB(t, open(t, loose))
	if info, err := os.Stat(loose); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(loose, link); err != nil {
		t.Fatal(err)
	}
	if db, err := Open(link); err == nil {
		closeDB(t, db)
		t.Error("a link is followed")
	}
}

func TestFilesThatCannotBeOpened(t *testing.T) {
	newer := filepath.Join(t.TempDir(), "newer.db")
	db := open(t, newer)
	if _, err := db.sql.Exec(fmt.Sprintf("PRAGMA user_version = %d", len(migrations)+1)); err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	if _, err := Open(newer); !errors.Is(err, gate.ErrVersion) {
		t.Errorf("a newer version: %v", err)
	}
	garbage := filepath.Join(t.TempDir(), "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("this is no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(garbage); err == nil || !strings.Contains(err.Error(), garbage) {
		t.Errorf("garbage: %v", err)
	}
	if _, err := Open(filepath.Join(garbage, "state.db")); err == nil {
		t.Error("opened below a file")
	}
}

// A canceled context must not leave it unknown whether a statement took effect.
func TestWritesAreNotCutShort(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "state.db"))
	gone, cancel := context.WithCancel(ctx)
	cancel()
	q := question(1)
	if err := db.AddQuestion(gone, q); err != nil {
		t.Error(err)
	}
	if err := db.EndQuestion(gone, &Question{ID: q.ID, State: StateExpired}); err != nil {
		t.Error(err)
	}
	if err := db.PutSession(gone, &Session{ID: "s"}); err != nil {
		t.Error(err)
	}
}

func TestMain(m *testing.M) {
	if path := os.Getenv("STORE_TEST_CHILD"); path != "" {
		if err := fileUntilKilled(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// fileUntilKilled prints the id of each question that was stored, and the id of every
// second one again when it has ended.
func fileUntilKilled(path string) error {
	db, err := Open(path)
	if err != nil {
		return err
	}
	for seq := uint64(0); ; seq++ {
		q := question(seq)
		q.Attachment = fmt.Sprint(os.Getpid())
		if err := db.AddQuestion(ctx, q); err != nil {
			return err
		}
		fmt.Println(q.ID, StateOpen)
		if err := db.PutHeld(ctx, &Held{Name: q.ID, About: []byte("a server")}); err != nil {
			return err
		}
		fmt.Println(q.ID, isHeld)
		if seq%2 == 0 {
			q.State = StateApproved
			if err := db.EndQuestion(ctx, q); err != nil {
				return err
			}
			fmt.Println(q.ID, StateApproved)
		}
	}
}

const isHeld = "held"

// Whenever a daemon dies, everything that a method reported as written is stored.
func TestNothingIsLostWithTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	want, held := map[string]State{}, map[string]bool{}
	for round := range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), "STORE_TEST_CHILD="+path), os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			id, state, _ := strings.Cut(lines.Text(), " ")
			if state == isHeld {
				held[id] = true
			} else {
				want[id] = State(state)
			}
			if n == 11+3*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the child ended by itself")
		}
	}
	db := open(t, path)
	for id, state := range want {
		q, err := db.Question(ctx, id)
		if err != nil || state != StateOpen && q.State != state || q.State != StateOpen && q.Params != nil {
			t.Errorf("%s was %s: now %s, %q, %v", id, state, q.State, q.Params, err)
		}
	}
	all, err := db.Held(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		delete(held, h.Name)
	}
	if len(held) > 0 || len(all) == 0 {
		t.Errorf("of %d attachments, these are lost: %v", len(all), held)
	}
}

// Attachments are replaced and removed, and what is written after them is on stable storage.
func TestHeld(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "state.db"))
	synced := func() {
		t.Helper()
		var level int
		if err := db.sql.QueryRow("PRAGMA synchronous").Scan(&level); err != nil || level != 2 {
			t.Errorf("synchronous is %d, %v; want 2, FULL", level, err)
		}
	}
	synced()
	for _, h := range []Held{{"b", []byte("1")}, {"a", []byte("2")}, {"b", []byte("3")}} {
		if err := db.PutHeld(ctx, &h); err != nil {
			t.Fatal(err)
		}
		synced()
	}
	if err := db.DeleteHeld(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	synced()
	if err := db.execUnsynced(ctx, "fail", write("DELETE FROM nowhere")); err == nil {
		t.Error("a statement that fails is no error")
	}
	synced()
	got, err := db.Held(ctx)
	if diff := cmp.Diff([]Held{{"b", []byte("3")}}, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
}

func BenchmarkQuestion(b *testing.B) {
	db := open(b, filepath.Join(b.TempDir(), "state.db"))
	for seq := uint64(0); b.Loop(); seq++ {
		q := add(b, db, question(seq))
		end(b, db, q)
	}
}
