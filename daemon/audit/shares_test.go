package audit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// said records a call of a server in a session.
func said(l *Log, session, server string) (*record.Record, error) {
	r := &record.Record{Kind: record.KindCall, Attachment: "0123456789abcdef", Session: session, Server: server, Tool: "query", Verdict: "forward"}
	return r, l.Record(context.Background(), r, []byte(`{"sql":"`+strings.Repeat("x", 400)+`"}`), nil)
}

// keptOf returns the number of records of calls that have values, by server. The others
// have only length and HMAC.
func keptOf(t *testing.T, l *Log) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, line := range read(t, l, Query{Kind: record.KindCall}) {
		r, err := record.Parse([]byte(line.text))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line.values, `"arguments":`) {
			n[r.Server]++
		} else if !strings.Contains(line.values, `"bytes":410,"hmac":`) {
			t.Fatalf("values: %s", line.values)
		}
	}
	return n
}

// A holder that fills its share of the log is refused, and all others continue. Before
// that, its records are written without values.
func TestSharesOfALog(t *testing.T) {
	dir := t.TempDir()
	o := Options{MaxSize: 1 << 20, SegmentSize: 64 << 10, Strict: true, Values: config.ValuesFull}
	l := open(t, dir, o)
	fill := func(session string, server func(i int) string) (n int, err error) {
		t.Helper()
		for i := 0; ; i++ {
			if _, err := said(l, session, server(i)); err != nil {
				return i, err
			}
			if i > 10_000 {
				t.Fatal("no end")
			}
		}
	}
	evil := func(int) string { return "evil" }
	n, err := fill("s-1", evil)
	if !strings.Contains(err.Error(), `server "evil" has filled its share of audit.max_size`) {
		t.Errorf("refused: %v", err)
	}
	if kept := keptOf(t, l)["evil"]; kept == 0 || kept > n/2 {
		t.Errorf("%d of %d records have values", kept, n)
	}
	if l.Failure() != nil {
		t.Errorf("the log has failed: %v", l.Failure())
	}
	// Another session with the same server is refused too, and so is that session with
	// other servers; a third session is not.
	if _, err := said(l, "s-2", "evil"); err == nil || !strings.Contains(err.Error(), `server "evil"`) {
		t.Errorf("the same server in another session: %v", err)
	}
	if _, err := said(l, "s-1", "other"); err == nil || !strings.Contains(err.Error(), "session s-1 has filled its share") {
		t.Errorf("another server in the same session: %v", err)
	}
	if _, err := said(l, "s-2", "other"); err != nil {
		t.Errorf("another server in another session: %v", err)
	}
	// Outcomes and answers to questions are still recorded.
	for _, kind := range []record.Kind{record.KindOutcome, record.KindDetach, record.KindDecision} {
		if err := l.Record(context.Background(), &record.Record{Kind: kind, Attachment: "0123456789abcdef", Session: "s-1", Server: "evil"}, nil, nil); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	// One session with many server ids has one share.
	_, err = fill("s-3", func(i int) string { return fmt.Sprint("server-", i) })
	if !strings.Contains(err.Error(), "session s-3 has filled its share") {
		t.Errorf("many servers in one session: %v", err)
	}
	// After a third one, only the part reserved for those who hold little is left.
	_, err = fill("s-4", func(int) string { return "third" })
	if !strings.Contains(err.Error(), "is reserved for those that use little") && !strings.Contains(err.Error(), "has filled its share") {
		t.Errorf("a third: %v", err)
	}
	for i := range 3 {
		if _, err := said(l, fmt.Sprint("s-other-", i), "other"); err != nil {
			t.Errorf("somebody who holds little: %v", err)
		}
	}
	who := strings.Join(l.Shares(), "\n")
	for _, want := range []string{`calls of server "evil" are denied`, "calls of session s-1 are denied", "calls of session s-3 are denied"} {
		if !strings.Contains(who, want) {
			t.Errorf("nothing of %q in:\n%s", want, who)
		}
	}
	if strings.Contains(who, `"other"`) || strings.Contains(who, "server-1") {
		t.Errorf("somebody who holds little is named:\n%s", who)
	}
	verified(t, dir)

	// The next daemon counts the existing records.
	closeLog(t, l)
	l = open(t, dir, o)
	eventually(t, func() bool { return strings.Join(l.Shares(), "\n") == who }, func() string { return strings.Join(l.Shares(), "\n") + "\nwant\n" + who })
	if _, err := said(l, "s-1", "evil"); err == nil {
		t.Error("the next daemon gives another share")
	}
}

func eventually(t *testing.T, is func() bool, say func() string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(say())
		}
	}
}

// Records old enough to be dropped count for nobody, and in development nobody is
// refused.
func TestSharesOfWhatIsYoung(t *testing.T) {
	dir := t.TempDir()
	var d day
	l := open(t, dir, Options{MaxSize: 4 << 20, SegmentSize: 16 << 10, Strict: true, Now: d.now})
	fill := func() (err error) {
		for range 3000 {
			if _, err := said(l, "s-1", "busy"); err != nil {
				return err
			}
		}
		return nil
	}
	if err := fill(); err == nil {
		t.Fatal("nothing was refused")
	}
	l.Apply(Options{MaxSize: 4 << 20, SegmentSize: 16 << 10, Now: d.now})
	if _, err := said(l, "s-1", "busy"); err != nil {
		t.Errorf("in development: %v", err)
	}
	l.Apply(Options{MaxSize: 4 << 20, SegmentSize: 16 << 10, Strict: true, Now: d.now})
	d.n.Add(8)
	if err := l.retain(d.now()); err != nil {
		t.Fatal(err)
	}
	if _, err := said(l, "s-1", "busy"); err != nil {
		t.Errorf("eight days later: %v", err)
	}
	if got := l.Shares(); len(got) > 0 {
		t.Errorf("eight days later: %q", got)
	}
}

// Records that a previous daemon wrote some days ago count like new ones, as long as they
// are not old enough to be dropped.
func TestSharesOfAnEarlierDaemon(t *testing.T) {
	dir := t.TempDir()
	var d day
	o := Options{MaxSize: 1 << 20, SegmentSize: 16 << 10, Strict: true, Now: d.now}
	l := open(t, dir, o)
	for {
		if _, err := said(l, "s-1", "busy"); err != nil {
			break
		}
	}
	closeLog(t, l)
	d.n.Add(6)
	l = open(t, dir, o)
	shares := func() string { return strings.Join(l.Shares(), "\n") }
	eventually(t, func() bool { return strings.Contains(shares(), `calls of server "busy" are denied`) }, func() string { return "six days later another share is given: " + shares() })
	if _, err := said(l, "s-1", "busy"); err == nil {
		t.Error("six days later another share is given")
	}
}
