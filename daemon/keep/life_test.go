package keep

import (
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

// Daemons that crash repeatedly are restarted with a growing delay, whether they were ready or
// not. A daemon that was killed, or has run for a while, is restarted at once.
func TestPause(t *testing.T) {
	crashed, killed, aborted := child.State{Code: 1}, child.State{Signal: syscall.SIGKILL}, child.State{Signal: syscall.SIGABRT}
	for _, test := range []struct {
		name   string
		ready  bool
		last   time.Duration
		lived  time.Duration
		status child.State
		want   time.Duration
	}{
		{"first crash", true, 0, 50 * time.Millisecond, crashed, minPause},
		{"next crash", true, minPause, 50 * time.Millisecond, crashed, 2 * minPause},
		{"many crashes", true, maxPause, 50 * time.Millisecond, aborted, maxPause},
		{"never ready", false, minPause, 50 * time.Millisecond, crashed, 2 * minPause},
		{"killed before it was ready", false, minPause, 50 * time.Millisecond, killed, 2 * minPause},
		{"killed", true, maxPause, 50 * time.Millisecond, killed, 0},
		{"crash after a while", true, maxPause, soon, crashed, 0},
	} {
		l := &daemonRun{ready: test.ready}
		if got := l.pause(test.last, test.lived, test.status); got != test.want {
			t.Errorf("%s: a pause of %v, want %v", test.name, got, test.want)
		}
	}
}

// A keeper keeps no more descriptors than it may have open.
func TestKeeperLimit(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before) }()
	for _, test := range []struct{ may, want int }{{1024, 960}, {10, 0}, {int(min(before.Max, 20000)), min(maxByKeeper, int(min(before.Max, 20000))-reservedByKeeper)}} {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(test.may), Max: before.Max}); err != nil {
			t.Fatal(err)
		}
		if got := keeperLimit(); got != test.want {
			t.Errorf("of %d open files: %d, want %d", test.may, got, test.want)
		}
	}
}
