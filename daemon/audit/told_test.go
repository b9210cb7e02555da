package audit

import (
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// A record that only reports waits for nobody, and is on stable storage soon: by the sync
// of a later record, or by its own.
func TestAlwaysDoesNotWaitForWhatOnlyTells(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newLog(dir, Options{Sync: config.SyncAlways, Interval: 20 * time.Millisecond})
		var syncs atomic.Int32
		l.datasync = func(*os.File) error {
			time.Sleep(time.Millisecond)
			syncs.Add(1)
			return nil
		}
		if _, err := l.open(); err != nil {
			t.Fatal(err)
		}
		tell := func() {
			t.Helper()
			began := time.Now()
			if err := l.Record(gate.WithReportOnly(t.Context()), &record.Record{Kind: record.KindOutcome}, nil, nil); err != nil {
				t.Fatal(err)
			}
			if time.Since(began) > 0 {
				t.Error("it was waited for")
			}
		}
		for range 100 { // calls and their outcomes: one sync for each call, none for the outcomes
			put(t, l, "a", "")
			tell()
		}
		if n := syncs.Load(); n != 100 {
			t.Errorf("%d syncs for 100 calls", n)
		}
		time.Sleep(42 * time.Millisecond)
		synctest.Wait()
		if s := l.Standing(); s.Unsynced != 0 || syncs.Load() != 101 {
			t.Errorf("two intervals later: %d syncs, %+v", syncs.Load(), s)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if syncs.Load() != 101 {
			t.Errorf("after an hour without a record: %d syncs", syncs.Load())
		}
		closeLog(t, l)
	})
}

// If a record that only reports does not reach stable storage, the next record is
// refused.
func TestAlwaysFailsClosedAfterWhatOnlyTells(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		l := newLog(dir, Options{Sync: config.SyncAlways})
		var broken atomic.Bool
		l.datasync = func(f *os.File) error {
			if broken.Load() {
				return unix.EIO
			}
			return datasync(f)
		}
		if _, err := l.open(); err != nil {
			t.Fatal(err)
		}
		put(t, l, "a", "")
		broken.Store(true)
		if err := l.Record(gate.WithReportOnly(t.Context()), &record.Record{Kind: record.KindOutcome}, nil, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(42 * time.Millisecond)
		synctest.Wait()
		if err := l.Record(t.Context(), &record.Record{Kind: record.KindCall}, nil, nil); !errors.Is(err, gate.ErrUnrecorded) || !errors.Is(err, unix.EIO) {
			t.Errorf("got %v", err)
		}
		broken.Store(false)
		time.Sleep(retryAfter)
		put(t, l, "b", "")
		if gap := records(t, l, Query{Kind: record.KindGap}); len(gap) != 1 || !strings.Contains(gap[0].Reason, "records up to 3 may not be on stable storage") {
			t.Errorf("got %+v", gap)
		}
		closeLog(t, l)
	})
	verified(t, dir)
}
