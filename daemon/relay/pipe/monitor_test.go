package pipe

import (
	"testing"
	"time"
)

// Without messages the system calls end, and with the next message they begin again.
func TestMonitorMaySleep(t *testing.T) {
	awake.Store(true) // as if they were being made
	keepMonitorAwake()
	if !messages.Load() {
		t.Fatal("a message came, and it is not noted")
	}
	awake.Store(false)
	for range 2 {
		keepMonitorAwake()
		for limit := time.Now().Add(time.Minute); awake.Load(); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("system calls are still made")
			}
		}
		if messages.Load() {
			t.Fatal("a message was not seen")
		}
	}
}
