package pipe

import (
	"testing"
	"time"
)

// Without messages the system calls end, and with the next message they begin again.
func TestMonitorMaySleep(t *testing.T) {
	for range 2 {
		awake.Store(true) // so that nothing ends meanwhile
		keepMonitorAwake()
		awake.Store(false)
		if keepMonitorAwake(); !messages.Load() {
			t.Fatal("a message came, and it is not noted")
		}
		for limit := time.Now().Add(10 * time.Second); awake.Load(); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("system calls are still made")
			}
		}
	}
}
