package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// runReader says what of the process of its first argument can be read.
func runReader() int {
	for _, name := range []string{"environ", "mem", "exe"} {
		f, err := os.Open("/proc/" + os.Args[1] + "/" + name)
		if err == nil && name == "environ" { // it is looked at when it is read
			_, err = f.Read(make([]byte, 1))
		}
		if err == nil {
			fmt.Println(name)
			f.Close()
		}
	}
	return 0
}

// asAnyone runs f so that what it starts itself may do no more than any user's
// processes, also where root runs the tests.
func asAnyone(f func()) {
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread() // which is given up with the goroutine
		for right := range uintptr(unix.CAP_LAST_CAP + 1) {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, right, 0, 0, 0) // who has none loses none
		}
		f()
	})
	done.Wait()
}

// What the daemon holds is not for others of its user: neither its memory nor its
// environment, and a crash leaves no core. The shim must be looked at by the
// daemon, so it leaves no core and no more.
func TestNobodyReadsTheDaemon(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.rules(forwardRules)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	var a *agent
	asAnyone(func() {
		h.startDaemon()
		a = h.wrap(config)
	})
	if a == nil {
		return // and why has been said
	}
	shims := h.pidsOf("tg-shim")
	if len(shims) != 1 {
		t.Fatalf("shims %v", shims)
	}
	for pid, want := range map[int]string{h.daemon.pid(): "", shims[0]: "environ mem exe"} {
		cmd := exec.Command(testBinary(t), fmt.Sprint(pid))
		cmd.Env = append(os.Environ(), roleVar+"=reader")
		var out []byte
		var err error
		asAnyone(func() { out, err = cmd.CombinedOutput() })
		if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want {
			t.Errorf("of process %d (the daemon is %d) others read %q, %v; want %q", pid, h.daemon.pid(), got, err, want)
		}
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		if err != nil || !regexp.MustCompile(`(?m)^Max core file size +0 `).Match(limits) {
			t.Errorf("process %d may leave a core: %v\n%s", pid, err, limits)
		}
	}
	a.leave()
}
