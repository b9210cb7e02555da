package pipe

import (
	"testing"
	"time"
)

// Without messages the system calls end, and with the next message they begin again.
func TestMonitorMaySleep(t *testing.T) {
	for range 2 {
		keepMonitorAwake()
		keepMonitorAwake()
		if !awake.Load() {
			t.Fatal("a message came, and no system calls are made")
		}
		for limit := time.Now().Add(10 * time.Second); awake.Load(); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("system calls are still made")
			}
		}
	}
}
