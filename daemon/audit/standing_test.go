package audit

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// The log reports how long the oldest record has been waiting for stable storage.
func TestStanding(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		l := newLog(dir, Options{Interval: 20 * time.Millisecond})
		l.datasync = func(*os.File) error { <-slow; return nil }
		if _, err := l.open(); err != nil {
			t.Fatal(err)
		}
		defer closeLog(t, l)
		put(t, l, "a", "")
		time.Sleep(20 * time.Millisecond)
		synctest.Wait() // the sync was requested
		time.Sleep(3 * time.Second)
		put(t, l, "b", "")
		if s := l.Standing(); !s.Synced || s.Unsynced != 2 || s.Lag != 3020*time.Millisecond || s.Bytes != l.size || s.Unindexed != s.Bytes || s.Failing {
			t.Errorf("while the disk is slow: %+v", s)
		}
		time.Sleep(time.Second)
		slow <- struct{}{}
		synctest.Wait()
		if s := l.Standing(); s.Unsynced != 1 || s.Lag != time.Second {
			t.Errorf("the second came while the first was written: %+v", s)
		}
		close(slow)
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if s := l.Standing(); s.Unsynced != 0 || s.Lag != 0 {
			t.Errorf("afterwards: %+v", s)
		}
	})
}

func TestStandingWithoutSync(t *testing.T) {
	l := open(t, t.TempDir(), Options{Sync: config.SyncNever})
	put(t, l, "a", "")
	if s := l.Standing(); s.Synced || s.Unsynced != 0 || s.Lag != 0 {
		t.Errorf("got %+v", s)
	}
}
