package hook

import (
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // registers the driver

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/transcript"
)

// conversations is the database of opencode's, as it writes it.
type conversations struct {
	*sql.DB
	t            *testing.T
	folder, path string
	parts        int
	start        time.Time // of what is written
}

// The table as opencode 1.18.33 makes it.
const partTable = "CREATE TABLE `part` (\n          `id` text PRIMARY KEY,\n          `message_id` text NOT NULL,\n          `session_id` text NOT NULL,\n          `time_created` integer NOT NULL,\n" +
	"          `time_updated` integer NOT NULL,\n          `data` text NOT NULL,\n          CONSTRAINT `fk` FOREIGN KEY (`message_id`) REFERENCES `message`(`id`) ON DELETE CASCADE\n        )"

func newConversations(t *testing.T) *conversations {
	t.Helper()
	folder := filepath.Join(t.TempDir(), ".local", "share", "opencode")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "opencode.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	c := &conversations{DB: db, t: t, folder: folder, path: path, start: began}
	c.exec("PRAGMA journal_mode=WAL")
	c.exec("PRAGMA synchronous=OFF")
	c.exec(partTable)
	return c
}

func (c *conversations) exec(query string, args ...any) {
	c.t.Helper()
	if _, err := c.Exec(query, args...); err != nil {
		c.t.Fatalf("%s: %v", query, err)
	}
}

func (c *conversations) part(session, message, data string) {
	c.t.Helper()
	c.parts++
	at := c.start.Add(time.Duration(c.parts) * time.Second).UnixMilli()
	c.exec("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", fmt.Sprint("prt_", c.parts), message, session, at, at, data)
}

// ran has a model use the shell in a message of its own.
func (c *conversations) ran(session, id, command string) {
	c.t.Helper()
	c.part(session, "msg_"+id, `{"snapshot":"4b825d","type":"step-start"}`)
	c.part(session, "msg_"+id, shellPart(id, command, "completed", c.start.Add(time.Minute)))
	c.part(session, "msg_"+id, `{"reason":"tool-calls","type":"step-finish"}`)
}

func shellPart(id, command, status string, at time.Time) string {
	return fmt.Sprintf(`{"type":"tool","tool":"bash","callID":%q,"state":{"status":%q,"input":{"command":%q,"description":"x"},"time":{"start":%d}}}`, id, status, command, at.UnixMilli())
}

// ledger returns one for an agent that has reported calls of the conversation ses_1.
func (c *conversations) ledger(kind *known, reported ...string) *ledger {
	l := newLedger(agenthook.Of("opencode"), c.folder, began, kind)
	for _, id := range reported {
		l.note(&agenthook.Event{Kind: agenthook.Before, ID: id, Session: "ses_1"})
	}
	return l
}

// replace has something else stand in the place of a file.
func (c *conversations) replace(path string, with func(path string) error) {
	c.t.Helper()
	if err := os.Rename(path, path+".moved"); err != nil {
		c.t.Fatal(err)
	}
	if err := with(path); err != nil {
		c.t.Fatal(err)
	}
}

func pipeAt(path string) error { return syscall.Mkfifo(path, 0o600) }
func linkAt(path string) error { return os.Symlink(path+".moved", path) }

// What is in a database that all conversations share is compared with what agents have reported: an agent's own
// conversations when it has ended, all others by the daemon, without regard to who writes meanwhile.
func TestDatabase(t *testing.T) {
	for name, tt := range map[string]struct {
		arrange func(*conversations)
		// calls are those that are found of an agent that has reported "seen" in ses_1, and silent
		// those that are found of all that run no hooks: after a while without a write, and beside that agent.
		calls, problem, silent, beside string
	}{
		"all reported": {func(c *conversations) { c.ran("ses_1", "seen", "ls") }, "", "", "", ""},
		"one was not": {func(c *conversations) { c.ran("ses_1", "seen", "ls"); c.ran("ses_1", "a", "npm test") },
			"npm test", "", "npm test", ""},
		"another conversation": {func(c *conversations) {
			c.ran("ses_1", "seen", "ls")
			c.ran("ses_2", "a", "npm test")
			c.ran("ses_2", "b", "npm start")
		}, "", "", "npm test,npm start", "npm test,npm start"},
		"one that has not ended": {func(c *conversations) {
			c.ran("ses_1", "seen", "ls")
			c.part("ses_2", "m", `{"type":"step-start"}`)
			c.part("ses_2", "m", shellPart("a", "npm test", "running", began))
		}, "", "", "npm test", ""},
		"one that is being written": {func(c *conversations) {
			c.ran("ses_1", "seen", "ls")
			c.part("ses_2", "m", `{"type":"step-start"}`)
			c.part("ses_2", "m", `{"type":"tool","tool":"bash","callID":"a","state":{"status":"pending","input":{},"raw":"{\"comm"}}`)
			c.part("ses_2", "m", `{"type":"tool","tool":"bash","callID":"b","state":{"status":"error","input":{},"error":"Tool execution aborted"}}`)
		}, "", "", "", ""},
		"one that failed": {func(c *conversations) {
			c.ran("ses_1", "seen", "ls")
			c.part("ses_1", "m", `{"type":"step-start"}`)
			c.part("ses_1", "m", shellPart("a", "npm test", "error", began))
		}, "npm test", "", "npm test", ""},
		"by a person": {func(c *conversations) {
			c.ran("ses_1", "seen", "ls")
			c.part("ses_1", "m", shellPart("01KB7", "npm test", "completed", began))
		}, "", "", "", ""},
		"of a tool that is not known": {func(c *conversations) {
			c.ran("ses_1", "seen", "ls")
			c.part("ses_1", "m", `{"type":"step-start"}`)
			c.part("ses_1", "m", `{"type":"tool","tool":"invalid","callID":"a","state":{"status":"completed","input":{"tool":"nonsense"}}}`)
		}, "", "", "", ""},
		"a copy of an old conversation": {func(c *conversations) {
			c.ran("ses_1", "seen", "ls")
			c.part("ses_1", "m", `{"type":"step-start"}`)
			c.part("ses_1", "m", shellPart("a", "npm test", "completed", began.Add(-time.Hour)))
		}, "", "", "", ""},
		"rows from before": {func(c *conversations) {
			c.ran("ses_1", "seen", "ls")
			c.ran("ses_1", "a", "npm test")
			c.exec("UPDATE part SET time_created = ? WHERE message_id = 'msg_a'", began.Add(-time.Hour).UnixMilli())
		}, "", "", "", ""},
		"hidden behind rows from before": {func(c *conversations) {
			c.ran("ses_1", "seen", "ls")
			c.ran("ses_1", "a", "npm test")
			for i := range maxOlder - 1 {
				c.exec("INSERT INTO part VALUES (?, 'm', 'ses_1', 1, 1, '{}')", fmt.Sprint("prt_old", i))
			}
		}, "npm test", "", "npm test", ""},
		"garbage": {func(c *conversations) {
			c.ran("ses_1", "seen", "ls")
			c.part("ses_1", "m", `{"type":`)
			c.part("ses_1", "m", strings.Repeat("x", transcript.MaxLine+1))
			c.ran("ses_1", "a", "npm test")
		}, "npm test", "2 lines of the transcript not understood: calls", "npm test", ""},
		"a trigger and a view": {func(c *conversations) {
			c.ran("ses_1", "seen", "ls")
			c.ran("ses_1", "a", "npm test")
			c.exec("CREATE TRIGGER part AFTER INSERT ON part BEGIN DELETE FROM part; END")
			c.exec("CREATE VIEW message AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n")
		}, "npm test", "", "npm test", ""},
		"a view in its place": {func(c *conversations) {
			c.exec("DROP TABLE part")
			c.exec("CREATE VIEW part AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n")
		}, "", "transcript not read (the database has no such table)", "", ""},
		"nothing of the conversation": {func(c *conversations) { c.ran("ses_2", "a", "npm test") }, "", "transcript not found: calls", "npm test", "npm test"},
		"no database":                 {func(c *conversations) { c.replace(c.path, func(string) error { return nil }) }, "", "transcript not found: calls", "", ""},
		"a link":                      {func(c *conversations) { c.ran("ses_1", "a", "ls"); c.replace(c.path, linkAt) }, "", "transcript not read (", "", ""},
		"a named pipe":                {func(c *conversations) { c.replace(c.path, pipeAt) }, "", "transcript not read (is not a regular file)", "", ""},
		"a log by a link":             {func(c *conversations) { c.ran("ses_1", "a", "ls"); c.replace(c.path+"-wal", linkAt) }, "", "transcript not read (", "", ""},
		"a log that is a named pipe":  {func(c *conversations) { c.replace(c.path+"-wal", pipeAt) }, "", "transcript not read (is not a regular file)", "", ""},
		"text": {func(c *conversations) {
			c.replace(c.path, func(p string) error { return os.WriteFile(p, []byte("text"), 0o600) })
			c.replace(c.path+"-wal", func(string) error { return nil })
		}, "", "transcript not read (the database is damaged)", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConversations(t)
			tt.arrange(c)
			before := c.listed()
			l := c.ledger(newKnown(), "seen")
			for _, want := range [][2]string{{tt.calls, tt.problem}, {"", ""}} { // nothing is said twice
				calls, problem := l.compare(t.Context(), func(string) bool { return false })
				if got := whats(calls); got != want[0] || !strings.HasPrefix(problem, want[1]) || want[1] == "" && problem != "" {
					t.Errorf("calls %q, problem %q; want %q", got, problem, want)
				}
			}
			for _, beside := range []bool{false, true} {
				records := &recorded{}
				r := New(Options{Recorder: records, Logger: slog.New(slog.DiscardHandler), Redact: strings.Clone})
				defer r.Close()
				kind := r.kinds["opencode"]
				kind.add(digestOf("seen"))
				want := tt.silent
				if r.scanning = 0; beside {
					want, r.scanning = tt.beside, time.Hour // somebody has written just now
					r.agents[key{}] = &agent{contract: l.contract, ledger: c.ledger(kind, "seen")}
				}
				s := &silent{Protection{ID: "p-1", Agent: "opencode"}, newLedger(l.contract, c.folder, began, kind), map[string]time.Time{}}
				r.scan(s)
				r.scan(s)
				var got []string
				for _, u := range r.Unseen() {
					got = append(got, u.Calls...)
				}
				if all := strings.Join(got, ","); all != want || len(*records) > 1 {
					t.Errorf("beside an agent with hooks: %v: %q is found, want %q", beside, all, want)
				}
			}
			if after := c.listed(); !slices.Equal(before, after) {
				t.Errorf("the folder has %q, and had %q", after, before)
			}
		})
	}
}

// Of a database with more than is read, the latest rows are.
//
//gotest:plain 64 MB are read, by one goroutine
func TestLargeDatabase(t *testing.T) {
	c := newConversations(t)
	c.ran("ses_1", "a", "npm test")
	for range transcript.MaxTail/transcript.MaxLine + 1 {
		c.part("ses_1", "m", `{"type":"text","text":"`+strings.Repeat("x", transcript.MaxLine-100)+`"}`)
	}
	c.ran("ses_1", "b", "npm start")
	calls, problem := c.ledger(newKnown(), "seen").compare(t.Context(), func(string) bool { return false })
	if got := whats(calls); got != "npm start" || !strings.HasPrefix(problem, "only the last 64 MB of the transcript read") {
		t.Errorf("calls %q, problem %q", got, problem)
	}
}

func whats(calls []agenthook.Use) string {
	var all []string
	for _, c := range calls {
		all = append(all, c.What)
	}
	return strings.Join(all, ",")
}

// listed returns what is in the folder, with sizes and times.
func (c *conversations) listed() (all []string) {
	c.t.Helper()
	entries, err := os.ReadDir(c.folder)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, fmt.Sprint(e.Name(), info.Size(), info.ModTime()))
	}
	return all
}

// A database that was compared is read again when it was written to, and only where something may have
// changed: from some time before the last scan on.
func TestDatabaseIsReadAgain(t *testing.T) {
	c := newConversations(t)
	c.ran("ses_1", "a", "ls")
	r := New(Options{Recorder: &recorded{}, Logger: slog.New(slog.DiscardHandler), Redact: strings.Clone})
	defer r.Close()
	r.scanning = 0
	s := &silent{Protection{ID: "p-1", Agent: "opencode"}, c.ledger(r.kinds["opencode"]), map[string]time.Time{}}
	before := time.Now().Add(-time.Hour)
	c.start = before
	for _, path := range []string{c.path, c.path + "-wal"} {
		if err := os.Chtimes(path, before, before); err != nil {
			t.Fatal(err)
		}
	}
	for want := 1; want <= 2; want++ {
		r.scan(s)
		if n := len(r.Unseen()); n != want {
			t.Errorf("%d warnings, want %d", n, want)
		}
		c.ran("ses_1", fmt.Sprint("later", want), "ls") // which is in the log alone
	}
	if ago := time.Since(s.ledger.since); ago < longestUse || ago > longestUse+time.Hour {
		t.Errorf("the next scan reads what is %v old", ago)
	}
}
