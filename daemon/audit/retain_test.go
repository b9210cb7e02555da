package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// day is a clock that tests advance by days.
type day struct{ n atomic.Int64 }

func (d *day) now() time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).AddDate(0, 0, int(d.n.Load()))
}

// fill records calls until a new segment has begun.
func fill(t *testing.T, l *Log) {
	t.Helper()
	for before := l.number(); l.number() == before; {
		put(t, l, "query", `{"sql":"`+strings.Repeat("x", 400)+`"}`)
	}
}

func (l *Log) number() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segment
}

func segments(t *testing.T, dir string) []uint64 {
	t.Helper()
	numbers, err := record.Segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

func verifyFolder(t *testing.T, dir string, heads ...record.Head) record.Report {
	t.Helper()
	for tries := 3; ; tries-- {
		report, err := record.Verify([]string{dir}, record.VerifyOptions{Heads: heads})
		if errors.Is(err, fs.ErrNotExist) && tries > 0 {
			continue // the log may drop a segment while it is verified
		}
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
}

func TestRetention(t *testing.T) {
	dir := t.TempDir()
	var d day
	l := open(t, dir, Options{SegmentSize: 8 << 10, Retention: 90 * 24 * time.Hour, Now: d.now})
	for range 5 { // segments 1 to 5 end on days 0, 10, 20, 30 and 40
		fill(t, l)
		d.n.Add(10)
	}
	retain := func() {
		t.Helper()
		if err := l.retain(l.o.Now()); err != nil {
			t.Fatal(err)
		}
	}
	retain()
	if got := segments(t, dir); !slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6}) {
		t.Errorf("nothing is old, but these are left: %v", got)
	}
	d.n.Store(101) // the first two are older than 90 days
	retain()
	if got := segments(t, dir); !slices.Equal(got, []uint64{3, 4, 5, 6}) {
		t.Errorf("left: %v, want 3 to 6", got)
	}
	report := verifyFolder(t, dir)
	if report.Bad != nil || report.Retired == 0 || report.First != report.Retired+1 {
		t.Errorf("after the first two are gone: %+v", report)
	}
	d.n.Store(200)
	retain()
	if got := segments(t, dir); !slices.Equal(got, []uint64{6}) {
		t.Errorf("left: %v, want the current one", got)
	}
	if report := verifyFolder(t, dir); report.Bad != nil {
		t.Errorf("after all old ones are gone: %v", report.Bad)
	}
	dropped := records(t, l, Query{Kind: record.KindDropped})
	if len(dropped) != 2 || !strings.Contains(dropped[0].Reason, "2 segments") {
		t.Errorf("what was dropped: %+v", dropped)
	}
}

// Verify detects that more of the oldest segments were removed than the log says, or that
// the record that says so was removed.
func TestWhatWasNotDropped(t *testing.T) {
	build := func(t *testing.T) (string, *Log) {
		dir := t.TempDir()
		var d day
		l := open(t, dir, Options{SegmentSize: 8 << 10, Retention: 48 * time.Hour, Now: d.now})
		for range 4 {
			fill(t, l)
			d.n.Add(1)
		}
		if err := l.retain(d.now()); err != nil {
			t.Fatal(err)
		}
		if got := segments(t, dir); !slices.Equal(got, []uint64{3, 4, 5}) {
			t.Fatalf("left: %v", got)
		}
		return dir, l
	}
	t.Run("one more", func(t *testing.T) {
		dir, _ := build(t)
		if err := os.Remove(filepath.Join(dir, record.SegmentName(3))); err != nil {
			t.Fatal(err)
		}
		report := verifyFolder(t, dir)
		if report.Bad == nil || report.Bad.Seq != 1 || !strings.Contains(report.Bad.What, "is missing") {
			t.Errorf("%+v", report.Bad)
		}
	})
	t.Run("without a word", func(t *testing.T) {
		dir := t.TempDir()
		l := open(t, dir, Options{SegmentSize: 8 << 10})
		fill(t, l)
		if err := os.Remove(filepath.Join(dir, record.SegmentName(1))); err != nil {
			t.Fatal(err)
		}
		if report := verifyFolder(t, dir); report.Bad == nil || report.Bad.Seq != 1 {
			t.Errorf("%+v", report.Bad)
		}
	})
}

func TestMaxSize(t *testing.T) {
	for _, strict := range []bool{true, false} {
		t.Run(fmt.Sprintf("strict=%v", strict), func(t *testing.T) {
			dir := t.TempDir()
			var d day
			l := open(t, dir, Options{MaxSize: 64 << 10, Strict: strict, Now: d.now})
			full := false
			for range 400 {
				r := &record.Record{Kind: record.KindCall, Server: "db"}
				err := l.Record(context.Background(), r, []byte(`{"sql":"`+strings.Repeat("x", 400)+`"}`), nil)
				full = full || errors.Is(err, errFull) && errors.Is(err, gate.ErrUnrecorded)
				if err != nil && !errors.Is(err, errFull) {
					t.Fatal(err)
				}
			}
			if full != strict {
				t.Fatalf("400 records of 400 bytes in 64 KiB: refused %v", full)
			}
			if report := verifyFolder(t, dir); report.First != 1 || report.Bad != nil {
				t.Errorf("young records were dropped: %+v", report)
			}
			d.n.Store(8)
			if err := l.retain(l.o.Now()); err != nil {
				t.Fatal(err)
			}
			put(t, l, "query", "")
			if report := verifyFolder(t, dir); report.Retired == 0 || report.Bad != nil {
				t.Errorf("nothing was dropped after eight days: %+v", report)
			}
			if gaps := records(t, l, Query{Kind: record.KindGap}); (len(gaps) > 0) != strict {
				t.Errorf("the log says that it refused: %+v", gaps)
			}
		})
	}
}

// Records that the fleet has not got are kept although the log is full, if the fleet's policy says
// so, but no longer than the retention. A courier that lies about what was sent makes the log
// neither drop what it would keep without a fleet nor keep it for ever.
func TestUnsent(t *testing.T) {
	for name, c := range map[string]struct {
		sending        Sending
		drops, refuses bool // when the log is full of records that are eight days old
		warns          string
		says           string // in the record of what was dropped for its size
	}{
		"no fleet":                   {Sending{}, true, false, "", ""},
		"not sent, kept":             {Sending{Sends: true}, false, true, "production denies calls", ""},
		"not sent, dropped":          {Sending{Sends: true, Drops: true}, true, false, "the oldest are dropped", "has not got those after record 0"},
		"sent, or so it says":        {Sending{Sends: true, Through: 1 << 40}, true, false, "", ""},
		"sent, and would be dropped": {Sending{Sends: true, Through: 1 << 40, Drops: true}, true, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var d day
			l := open(t, dir, Options{MaxSize: 64 << 10, Strict: true, Retention: 30 * 24 * time.Hour, Now: d.now})
			l.KeepUnsent(func(log string) Sending {
				if log != l.Head().Log {
					t.Errorf("asked of the log %q", log)
				}
				return c.sending
			})
			try := func() error {
				return l.Record(context.Background(), &record.Record{Kind: record.KindCall, Server: "db"}, []byte(`{"sql":"`+strings.Repeat("x", 400)+`"}`), nil)
			}
			retain := func() {
				t.Helper()
				if err := l.retain(d.now()); err != nil {
					t.Fatal(err)
				}
			}
			for try() == nil {
			}
			retain() // which the log does by itself when it has time
			if warned := strings.Join(l.Unsent(), ""); (warned != "") != (c.warns != "") || !strings.Contains(warned, c.warns) {
				t.Errorf("warned %q", warned)
			}
			d.n.Store(8)
			retain()
			report := verifyFolder(t, dir)
			if (report.Retired > 0) != c.drops || report.Bad != nil {
				t.Errorf("dropped: %+v", report)
			}
			err := try()
			// The log's own look for what to drop may have begun before those eight days, and end now. A log that
			// has failed looks again only later.
			for ; errors.Is(err, errFull) && c.refuses && d.n.Load() < 20; err = try() {
				d.n.Add(1)
				retain()
			}
			if errors.Is(err, errUnsent) != c.refuses || (err == nil) == c.refuses {
				t.Errorf("the next record: %v", err)
			}
			for _, r := range records(t, l, Query{Kind: record.KindDropped}) {
				if strings.Contains(r.Reason, "has not got") != (c.says != "") || !strings.Contains(r.Reason, c.says) {
					t.Errorf("recorded %q", r.Reason)
				}
			}
			d.n.Store(60)
			retain()
			if report := verifyFolder(t, dir); report.Bad != nil || len(segments(t, dir)) != 1 {
				t.Errorf("after the retention: %v, %v", segments(t, dir), report.Bad)
			}
		})
	}
}

// The heads stored elsewhere reveal that a log was rewritten.
func TestHeadsElsewhere(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "heads")
	for range 2 {
		l := open(t, dir, Options{SegmentSize: 8 << 10, Heads: elsewhere})
		fill(t, l)
		closeLog(t, l)
	}
	content, err := os.ReadFile(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	heads, err := record.ParseHeads(content)
	if err != nil || len(heads) != 4 { // of two ended segments, and of two closed logs
		t.Fatalf("%d heads, %v:\n%s", len(heads), err, content)
	}
	if report := verifyFolder(t, dir, heads...); report.Bad != nil {
		t.Errorf("the log as it was written: %v", report.Bad)
	}
	forged := heads[1]
	forged.Sum = strings.Repeat("0", len(forged.Sum))
	if report := verifyFolder(t, dir, heads[0], forged); report.Bad == nil || report.Bad.Seq != forged.Seq {
		t.Errorf("a log whose record %d is another one: %+v", forged.Seq, report.Bad)
	}
	if err := os.WriteFile(elsewhere, []byte("my diary\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, dir, Options{Heads: elsewhere})
	closeLog(t, l)
	if content, _ := os.ReadFile(elsewhere); string(content) != "my diary\n" {
		t.Errorf("a file that holds something else became %q", content)
	}
}
