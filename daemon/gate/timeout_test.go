package gate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Each context ends judgeTimeout after it began, whatever happened to those before it, and none
// once it is not used any more.
func TestTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all timeouts
		begin := func() (context.Context, func(), time.Time) {
			ctx, timeout := all.context(t.Context())
			return ctx, timeout.end, time.Now()
		}
		ends := func(name string, ctx context.Context, began time.Time) {
			t.Helper()
			<-ctx.Done()
			if took := time.Since(began); took != judgeTimeout || context.Cause(ctx) != errTooLong {
				t.Errorf("%s: after %v, %v", name, took, context.Cause(ctx))
			}
		}
		first, doneFirst, began := begin()
		ends("the only one", first, began)
		doneFirst()

		used, done, _ := begin()
		time.Sleep(time.Second)
		second, doneSecond, secondBegan := begin()
		time.Sleep(time.Second)
		third, doneThird, thirdBegan := begin()
		done() // the timer was set for it
		ends("the second", second, secondBegan)
		ends("the third, while the second is still used", third, thirdBegan)
		if context.Cause(used) == errTooLong {
			t.Error("one that was not used any more was ended")
		}
		doneThird()
		doneSecond()
		synctest.Wait()
		if len(all.pending) > 0 || all.set {
			t.Errorf("%d are left, and the timer is set: %v", len(all.pending), all.set)
		}

		long := time.Now()
		for time.Since(long) < 3*judgeTimeout { // one after the other: one timer for many
			_, done, _ := begin()
			time.Sleep(judgeTimeout / 1000)
			done()
		}
		last, doneLast, lastBegan := begin()
		ends("the last", last, lastBegan)
		doneLast()

		ctx, cancel := context.WithCancel(t.Context())
		within, timeout := all.context(ctx)
		cancel()
		<-within.Done()
		timeout.end()
	})
}
