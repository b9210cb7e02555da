package proc

import (
	"bufio"
	"os/exec"
	"testing"
)

// Processes that a shell has started count with it; a process that has ended is unknown.
func TestMemoryOf(t *testing.T) {
	const large = 4_000_000
	pair := waiting(t, "(x=$(head -c 4000000 /dev/zero | tr '\\0' a); echo ready; read line; exit ${#x}); exit 0")
	ended := exec.Command("sh", "-c", "exit 0")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	all := MemoryOf(pair, int32(ended.Process.Pid))
	if all[0].Bytes < large || all[1].Bytes != 0 {
		t.Errorf("%+v: want at least %d of the first, nothing of the second", all, large)
	}
	if one, shared := memoryOf(pair); one == 0 || one >= large || shared != all[0].Twice {
		t.Errorf("the shell alone takes %d, %v, and with the other %+v", one, shared, all[0])
	}
}

// waiting starts a shell that reports when it is ready, and returns its pid.
func waiting(t *testing.T, script string) int32 {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // a shell whose input ends may return another exit code
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return int32(cmd.Process.Pid)
}

func TestParseMemory(t *testing.T) {
	const rollup = "55d0-7ffc ---p 00000000 00:00 0 [rollup]\nRss:                2048 kB\nPss:                1234 kB\nPss_Anon: 99 kB\n"
	for text, want := range map[string]uint64{rollup: 1234 << 10, "": 0, "Pss: x kB\n": 0, "Pss: 12\n": 0} {
		if got, ok := parsePSS([]byte(text)); got != want || ok != (want > 0) {
			t.Errorf("%q: %d %v, want %d", text, got, ok, want)
		}
	}
	for text, want := range map[string]uint64{"700 123 45 1 0 90 0\n": 123, "700": 0, "": 0, "700 x": 0} {
		if got := parseRSS([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
