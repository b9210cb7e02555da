package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

func open(t testing.TB, dir string, o Options) *Log {
	t.Helper()
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog(t, l) })
	return l
}

func closeLog(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// put records one call and returns its record.
func put(t testing.TB, l *Log, tool string, values string) *record.Record {
	t.Helper()
	r := &record.Record{Kind: record.KindCall, Server: "db", Tool: tool, Verdict: "forward"}
	if err := l.Record(context.Background(), r, []byte(values), nil); err != nil {
		t.Fatal(err)
	}
	return r
}

type line struct {
	seq          uint64
	text, values string
}

func read(t testing.TB, l *Log, q Query) []line {
	t.Helper()
	var lines []line
	err := l.Read(context.Background(), q, func(seq uint64, text, values []byte) error {
		lines = append(lines, line{seq, string(text), string(values)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// records returns the parsed records that q selects.
func records(t testing.TB, l *Log, q Query) []record.Record {
	t.Helper()
	var all []record.Record
	for _, line := range read(t, l, q) {
		r, err := record.Parse([]byte(line.text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// verified checks that the log in dir is valid.
func verified(t testing.TB, dir string) record.Report {
	t.Helper()
	report, err := record.Verify([]string{dir}, record.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if report.Bad != nil {
		t.Fatal(report.Bad)
	}
	return report
}

func TestANewLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "audit")
	now := time.Date(2026, 11, 20, 13, 0, 0, 123456789, time.FixedZone("", 3600))
	l := open(t, dir, Options{Now: func() time.Time { return now }})
	r := put(t, l, "query", `{"a":1}`)
	if r.Seq != 2 || r.Prev == "" || r.Values == "" || !r.Time.Equal(now.Truncate(time.Microsecond)) || l.Seq() != 2 {
		t.Errorf("the log filled in %+v", r)
	}
	closeLog(t, l)

	all := records(t, l, Query{})
	if len(all) != 2 || all[0].Kind != record.KindLog || len(all[0].Log) < 16 || all[0].Prev != "" {
		t.Fatalf("the log holds %+v", all)
	}
	if report := verified(t, dir); !report.Headed || report.Last.Seq != 2 || report.Log != all[0].Log {
		t.Errorf("verified %+v", report)
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestReopeningGoesOn(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		l := open(t, dir, Options{})
		put(t, l, fmt.Sprint("tool", i), `{}`)
		closeLog(t, l)
	}
	if report := verified(t, dir); report.Records != 6 || report.Gaps != 0 {
		t.Errorf("verified %+v", report)
	}
}

// Wherever a crash cuts the last write, the complete records stay, the rest is moved
// aside, and the log continues and reports that.
func TestReopeningAfterATornWrite(t *testing.T) {
	origin := t.TempDir()
	l := open(t, origin, Options{Values: config.ValuesFull})
	put(t, l, "first", `{"a":1}`)
	put(t, l, "second", "")
	whole := l.size
	put(t, l, "third", `{"b":2}`)
	closeLog(t, l)
	content, err := os.ReadFile(filepath.Join(origin, record.SegmentName(1)))
	if err != nil {
		t.Fatal(err)
	}
	values := bytes.LastIndex(content, []byte(`{"values"`))

	for cut := int(whole) + 1; cut < len(content); cut++ {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, record.SegmentName(1)), content[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		l := open(t, dir, Options{})
		put(t, l, "after", `{}`)
		closeLog(t, l)
		from, seq := int(whole), uint64(3)
		if cut >= values {
			from, seq = values, 4
		}
		report := verified(t, dir)
		if report.Last.Seq != seq+2 { // the gap, and the record after it
			t.Fatalf("cut at %d: %+v", cut, report)
		}
		torn, err := filepath.Glob(filepath.Join(dir, "torn-*"))
		if err != nil {
			t.Fatal(err)
		}
		if cut == values {
			if len(torn) > 0 {
				t.Fatalf("cut between two lines: %q", torn)
			}
			continue
		}
		if len(torn) != 1 {
			t.Fatalf("cut at %d: %q", cut, torn)
		}
		if kept, err := os.ReadFile(torn[0]); err != nil || !bytes.Equal(kept, content[from:cut]) {
			t.Fatalf("cut at %d: kept %q, %v", cut, kept, err)
		}
		gap := records(t, l, Query{Kind: record.KindGap})
		if len(gap) != 1 || !strings.Contains(gap[0].Reason, filepath.Base(torn[0])) {
			t.Fatalf("cut at %d: %+v", cut, gap)
		}
	}
}

// Zeros are what some file systems leave after a power failure.
func TestReopeningOverGarbage(t *testing.T) {
	for _, test := range []struct{ name, garbage string }{
		{"zeros", strings.Repeat("\x00", 4096)},
		{"zeros and a newline", strings.Repeat("\x00", 300<<10) + "\n"},
		{"lines that are no records", "{}\nhello\n\n"},
		{"a damaged record", `{"v":1,"seq":3,"kind":"call","crc":"00000000"}` + "\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, Options{})
			put(t, l, "first", `{"a":1}`)
			closeLog(t, l)
			f, err := os.OpenFile(filepath.Join(dir, record.SegmentName(1)), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(test.garbage); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			l = open(t, dir, Options{})
			put(t, l, "second", `{}`)
			closeLog(t, l)
			if report := verified(t, dir); report.Gaps != 1 || report.Last.Seq != 4 {
				t.Errorf("verified %+v", report)
			}
		})
	}
}

// Missing records at the end are reported in the log itself.
func TestReopeningAfterTheEndWasRemoved(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	put(t, l, "first", "")
	size := l.size
	put(t, l, "second", "")
	put(t, l, "third", "")
	closeLog(t, l)
	if err := os.Truncate(filepath.Join(dir, record.SegmentName(1)), size); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, Options{})
	put(t, l, "after", "")
	gap := records(t, l, Query{Kind: record.KindGap})
	if len(gap) != 1 || !strings.Contains(gap[0].Reason, "records 3 to 4, which the head file names, are missing") {
		t.Errorf("got %+v", gap)
	}
}

func TestSegments(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{SegmentSize: 2000})
	for i := range 40 {
		put(t, l, fmt.Sprint("tool", i), `{"a":1}`)
		if i%10 == 9 {
			closeLog(t, l)
			l = open(t, dir, Options{SegmentSize: 2000})
		}
	}
	closeLog(t, l)
	report := verified(t, dir)
	if report.Segments < 5 || report.Gaps != 0 {
		t.Errorf("verified %+v", report)
	}
	calls := records(t, l, Query{Kind: record.KindCall})
	if len(calls) != 40 || calls[39].Tool != "tool39" {
		t.Errorf("%d calls", len(calls))
	}
}

func TestOneWriterALog(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, Options{})
	if _, err := Open(dir, Options{}); !errors.Is(err, gate.ErrLocked) {
		t.Errorf("a second writer: %v", err)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(elsewhere, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{record.SegmentName(1), keyFile} {
		dir := t.TempDir()
		if err := os.Symlink(elsewhere, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if l, err := Open(dir, Options{}); err == nil {
			closeLog(t, l)
			t.Errorf("a link for %s is followed", name)
		}
	}
	dir := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), dir); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(dir, Options{}); err == nil {
		closeLog(t, l)
		t.Error("a link for the folder is followed")
	}
	if content, err := os.ReadFile(elsewhere); err != nil || len(content) > 0 {
		t.Errorf("written elsewhere: %q, %v", content, err)
	}
}

func TestAccessIsTakenFromOthers(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	closeLog(t, l)
	for _, name := range []string{"", record.SegmentName(1), keyFile, record.HeadFile} {
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir, Options{})
	for _, name := range []string{"", record.SegmentName(1), keyFile, record.HeadFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%q: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestRecordAfterClose(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	closeLog(t, l)
	err := l.Record(context.Background(), &record.Record{Kind: record.KindCall}, nil, nil)
	if !errors.Is(err, gate.ErrUnrecorded) || !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
}

// Concurrent records while segments rotate, with readers and a follower.
func TestConcurrentRecords(t *testing.T) {
	for _, mode := range []config.Sync{config.SyncNever, config.SyncInterval, config.SyncAlways} {
		t.Run(string(mode), func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir, Options{Sync: mode, Interval: time.Millisecond, SegmentSize: 20_000})
			const writers, each = 8, 50
			var followed []uint64
			ctx, cancel := context.WithCancel(context.Background())
			var follower, all sync.WaitGroup
			follower.Go(func() {
				err := l.Read(ctx, Query{Follow: true, Kind: record.KindCall}, func(seq uint64, _, _ []byte) error {
					followed = append(followed, seq)
					if len(followed) == writers*each {
						cancel()
					}
					return nil
				})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("follow: %v", err)
				}
			})
			for w := range writers {
				all.Go(func() {
					for i := range each {
						r := &record.Record{Kind: record.KindCall, Tool: fmt.Sprint(w, " ", i)}
						if err := l.Record(context.Background(), r, []byte(`{"x":1}`), nil); err != nil {
							t.Error(err)
						}
						if i%20 == 0 {
							got := read(t, l, Query{From: r.Seq, Last: 1 << 20})
							if len(got) == 0 || got[0].seq != r.Seq {
								t.Errorf("a record that was returned is not there: %d", r.Seq)
							}
						}
					}
				})
			}
			all.Wait()
			follower.Wait()
			if !slices.IsSorted(followed) || len(slices.Compact(followed)) != writers*each {
				t.Errorf("followed %d", len(followed))
			}
			closeLog(t, l)
			verified(t, dir)
		})
	}
}

// With interval, a record and then the head are on stable storage after the interval and
// not before; nothing runs while nothing is written.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := newLog(dir, Options{Interval: 20 * time.Millisecond})
		var syncs atomic.Int32
		l.datasync = func(*os.File) error { syncs.Add(1); return nil }
		if _, err := l.open(); err != nil {
			t.Fatal(err)
		}
		put(t, l, "a", "")
		put(t, l, "b", "")
		head := func() uint64 {
			h, err := record.ReadHead(dir)
			if err != nil {
				t.Fatal(err)
			}
			return h.Seq
		}
		time.Sleep(19 * time.Millisecond)
		synctest.Wait()
		if syncs.Load() != 0 || head() != 1 {
			t.Errorf("after 19 ms: %d syncs, head %d", syncs.Load(), head())
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if syncs.Load() != 1 || head() != 3 {
			t.Errorf("after 21 ms: %d syncs, head %d", syncs.Load(), head())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if syncs.Load() != 1 {
			t.Errorf("after an hour without a record: %d syncs", syncs.Load())
		}
		closeLog(t, l)
	})
}

// All callers that arrive during a sync share the next one.
func TestGroupCommit(t *testing.T) {
	l := newLog(t.TempDir(), Options{Sync: config.SyncAlways})
	started, release := make(chan struct{}, 100), make(chan struct{})
	l.datasync = func(*os.File) error {
		started <- struct{}{}
		<-release
		return nil
	}
	if _, err := l.open(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() { put(t, l, "first", "") })
	<-started
	const waiters = 32
	for range waiters {
		all.Go(func() { put(t, l, "later", "") })
	}
	for deadline := time.Now().Add(time.Minute); l.Seq() < waiters+2; {
		if time.Now().After(deadline) {
			t.Fatalf("only %d are written while a sync is under way", l.Seq())
		}
		time.Sleep(time.Millisecond)
	}
	close(release)
	all.Wait()
	if syncs := 1 + len(started); syncs != 2 {
		t.Errorf("%d syncs for 33 records, want 2", syncs)
	}
	closeLog(t, l)
}

// Record must not return before the sync that covers it; ctx ends only the wait.
func TestAlwaysWaits(t *testing.T) {
	l := newLog(t.TempDir(), Options{Sync: config.SyncAlways})
	started, release := make(chan struct{}, 8), make(chan struct{})
	l.datasync = func(*os.File) error { started <- struct{}{}; <-release; return nil }
	if _, err := l.open(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		put(t, l, "first", "")
	}()
	<-started // so that the next record does not begin the sync itself
	for l.Seq() < 2 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	err := l.Record(ctx, &record.Record{Kind: record.KindCall}, nil, nil)
	if !errors.Is(err, gate.ErrUnrecorded) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	select {
	case <-done:
		t.Error("returned before the sync")
	default:
	}
	close(release)
	<-done
	closeLog(t, l)
}

// After a failed sync the segment is abandoned: the kernel may have discarded what it
// could not write, and would report success for a second sync.
func TestAFailedSync(t *testing.T) {
	for _, mode := range []config.Sync{config.SyncInterval, config.SyncAlways} {
		t.Run(string(mode), func(t *testing.T) {
			dir := t.TempDir()
			now := time.Now()
			var said bytes.Buffer
			l := newLog(dir, Options{Sync: mode, Interval: time.Millisecond, Now: func() time.Time { return now },
				Logger: slog.New(slog.NewTextHandler(&said, nil))})
			broken := true
			l.datasync = func(f *os.File) error {
				if broken {
					return unix.EIO
				}
				return datasync(f)
			}
			if _, err := l.open(); err != nil {
				t.Fatal(err)
			}
			err := l.Record(context.Background(), &record.Record{Kind: record.KindCall, Tool: "lost?"}, nil, nil)
			if mode == config.SyncAlways && (!errors.Is(err, gate.ErrUnrecorded) || !errors.Is(err, unix.EIO)) {
				t.Errorf("got %v", err)
			}
			for l.Failure() == nil {
				time.Sleep(time.Millisecond)
			}
			if err := l.Record(context.Background(), &record.Record{Kind: record.KindCall}, nil, nil); !errors.Is(err, unix.EIO) {
				t.Errorf("while it lasts: %v", err)
			}
			l.mu.Lock()
			broken = false
			now = now.Add(time.Second)
			l.mu.Unlock()
			put(t, l, "after", "")
			if l.Failure() != nil || l.segment != 2 {
				t.Errorf("segment %d, %v", l.segment, l.Failure())
			}
			gap := records(t, l, Query{Kind: record.KindGap})
			if len(gap) != 1 || !strings.Contains(gap[0].Reason, "records up to 2 may not be on stable storage") {
				t.Errorf("got %+v", gap)
			}
			closeLog(t, l)
			verified(t, dir)
			if n := strings.Count(said.String(), "level=ERROR"); n != 1 {
				t.Errorf("said %d times:\n%s", n, said.String())
			}
		})
	}
}
