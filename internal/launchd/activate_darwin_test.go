package launchd

import "testing"

// Nobody started the tests by way of launchd.
func TestSocketsOfAnOrdinaryProcess(t *testing.T) {
	if got, err := Sockets("control"); err != nil || len(got) > 0 {
		t.Errorf("got %v, %v, want no sockets", got, err)
	}
}
