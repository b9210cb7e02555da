package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

func openIndex(t testing.TB, dir string) *store.Index {
	t.Helper()
	x, err := store.OpenIndex(filepath.Join(dir, "index.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// awaitIndex waits until every complete block of the log is indexed.
func awaitIndex(t testing.TB, l *Log) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		at := place{}
		if n := len(l.blocks); n > 0 {
			at = place{l.blocks[n-1].Segment, l.blocks[n-1].To}
		}
		current, size := l.segment, l.size
		l.mu.Unlock()
		done := at.segment == current && size-at.offset < l.block
		if at.segment == current-1 && size < l.block {
			past, err := l.sizeOf(at.segment)
			done = err == nil && at.offset == past
		}
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("indexed up to %+v only", at)
		}
	}
}

// many records calls of many tools, one of which is rare.
func many(t testing.TB, l *Log, n int) {
	t.Helper()
	for i := range n {
		tool := fmt.Sprintf("tool_%d", i%50)
		if i%1000 == 17 {
			tool = "rare"
		}
		r := &record.Record{Kind: record.KindCall, Server: "db", Tool: tool, Verdict: "forward", Reason: strings.Repeat("y", 100)}
		if err := l.Record(context.Background(), r, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// An indexed query reads only where the index points to.
func TestIndexIsUsed(t *testing.T) {
	dir := t.TempDir()
	l := newLog(dir, Options{SegmentSize: 256 << 10, Index: openIndex(t, dir)})
	l.block = 64 << 10
	if _, err := l.open(); err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, l)
	many(t, l, 5000)
	awaitIndex(t, l)
	f, err := Query{Tool: "rare"}.filter()
	if err != nil {
		t.Fatal(err)
	}
	end, _, _ := l.end()
	numbers, err := l.numbers(end)
	if err != nil {
		t.Fatal(err)
	}
	regions, err := l.regions(t.Context(), f, numbers, end)
	if err != nil {
		t.Fatal(err)
	}
	places, whole := 0, int64(0)
	for _, r := range regions {
		places += len(r.at)
		if !r.only {
			whole += r.to - r.from
		}
	}
	if places > 5 || whole >= l.block+1024 {
		t.Errorf("for five records, %d places and %d bytes are looked at", places, whole)
	}
	if got := read(t, l, Query{Tool: "rare"}); len(got) != 5 {
		t.Errorf("found %d of five", len(got))
	}
	if got := read(t, l, Query{Tool: "rare", Last: 2}); len(got) != 2 || got[1].seq < 4000 {
		t.Errorf("the last two: %v", got)
	}
}

// An index that is missing, corrupt, of another log, or behind or ahead of the log
// changes no result, and is complete again after a while.
func TestIndexIsMadeAnew(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, log, index string){
		"gone": func(t *testing.T, _, index string) {
			if err := os.Remove(index); err != nil {
				t.Fatal(err)
			}
		},
		"no database": func(t *testing.T, _, index string) {
			if err := os.WriteFile(index, []byte(strings.Repeat("garbage ", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"of another log": func(t *testing.T, log, _ string) {
			if err := os.RemoveAll(log); err != nil {
				t.Fatal(err)
			}
			other := open(t, log, Options{SegmentSize: 64 << 10})
			many(t, other, 3000)
			closeLog(t, other)
		},
		"ahead of the log": func(t *testing.T, log, _ string) {
			numbers := segments(t, log)
			if err := os.Truncate(filepath.Join(log, record.SegmentName(numbers[len(numbers)-1])), 100); err != nil {
				t.Fatal(err)
			}
		},
		"as it was": func(*testing.T, string, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			log, index := filepath.Join(t.TempDir(), "audit"), t.TempDir()
			begin := func() (*Log, *store.Index) {
				x := openIndex(t, index)
				l := newLog(log, Options{SegmentSize: 64 << 10, Index: x})
				l.block = 32 << 10
				if _, err := l.open(); err != nil {
					t.Fatal(err)
				}
				return l, x
			}
			l, x := begin()
			many(t, l, 3000)
			awaitIndex(t, l)
			closeLog(t, l)
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			spoil(t, log, filepath.Join(index, "index.db"))
			plain := open(t, log, Options{SegmentSize: 64 << 10})
			want := read(t, plain, Query{Tool: "rare"})
			closeLog(t, plain)

			l, _ = begin()
			defer closeLog(t, l)
			many(t, l, 100) // so that there is something to index
			for _, when := range []string{"at once", "later"} {
				got := read(t, l, Query{Tool: "rare"})
				if len(got) != len(want)+1 || len(want) > 0 && got[0].text != want[0].text {
					t.Errorf("%s: found %d records, want %d and one", when, len(got), len(want))
				}
				awaitIndex(t, l)
			}
		})
	}
}

// Dropped segments are removed from the index too.
func TestIndexForgetsWhatIsDropped(t *testing.T) {
	dir := t.TempDir()
	var d day
	x := openIndex(t, t.TempDir())
	l := newLog(dir, Options{SegmentSize: 32 << 10, Retention: 24 * time.Hour, Now: d.now, Index: x})
	l.block = 4 << 10
	if _, err := l.open(); err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, l)
	fill(t, l)
	awaitIndex(t, l)
	d.n.Store(3)
	if err := l.retain(d.now()); err != nil {
		t.Fatal(err)
	}
	fill(t, l) // the index is updated afterwards
	awaitIndex(t, l)
	blocks, err := x.Blocks(l.id)
	if err != nil || len(blocks) == 0 || blocks[0].Segment != 2 {
		t.Errorf("%v, %+v", err, blocks)
	}
}

func BenchmarkQueryOfAMillion(b *testing.B) {
	dir := b.TempDir()
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	l := newLog(dir, Options{Sync: config.SyncNever, Index: openIndex(b, dir), Now: func() time.Time { return now }})
	if _, err := l.open(); err != nil {
		b.Fatal(err)
	}
	defer closeLog(b, l)
	for range 1000 {
		now = now.Add(time.Minute)
		many(b, l, 1000)
	}
	awaitIndex(b, l)
	b.ResetTimer()
	for b.Loop() {
		n := 0
		err := l.Read(b.Context(), Query{Tool: "tool_7", Since: now.Add(-2 * time.Hour), Until: now.Add(-time.Hour)}, func(uint64, []byte, []byte) error { n++; return nil })
		if err != nil || n == 0 {
			b.Fatal(n, err)
		}
	}
}
