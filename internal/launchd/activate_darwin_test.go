package launchd

import "testing"

// The tests were not started by launchd.
func TestSocketsOfAnOrdinaryProcess(t *testing.T) {
	if got, err := Sockets("control"); err != nil || len(got) > 0 {
		t.Errorf("got %v, %v, want no sockets", got, err)
	}
}
