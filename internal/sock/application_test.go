package sock

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestSameApplication(t *testing.T) {
	const plugin = "/Applications/Cursor.app/Contents/Frameworks/Cursor Helper (Plugin).app/Contents/MacOS/Cursor Helper (Plugin)"
	for _, test := range []struct {
		a, b string
		want bool
	}{
		{"/usr/share/code/code", "/usr/share/code/code", true},
		{"/usr/share/code/code", "/usr/bin/bash", false},
		{"", "", false},
		{plugin, "/Applications/Cursor.app/Contents/MacOS/Cursor", true},
		{plugin, "/Applications/Zed.app/Contents/MacOS/zed", false},
	} {
		if got := SameApplication(test.a, test.b); got != test.want {
			t.Errorf("%q and %q: %v", test.a, test.b, got)
		}
	}
}

func TestBelow(t *testing.T) {
	all := []Process{{PID: 1}, {PID: 2, PPID: 1}, {PID: 5, PPID: 2}, {PID: 6, PPID: 5}, {PID: 7, PPID: 1}, {PID: 8, PPID: 9}, {PID: 9, PPID: 8}}
	var got []int32
	for _, p := range Below(all, 2) {
		got = append(got, p.PID)
	}
	if !slices.Equal(got, []int32{5, 6}) {
		t.Errorf("below 2: %v", got)
	}
}

// A child that has just been started is seen, and began after we did and before now.
func TestProcesses(t *testing.T) {
	cmd := exec.Command("sh", "-c", "read line")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = cmd.Wait()
	}()
	all, err := Processes()
	if err != nil {
		t.Fatal(err)
	}
	us, err := ProcessOf(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Below(all, us.PID) {
		if p.PID == int32(cmd.Process.Pid) {
			if p.Start < us.Start || p.Start > Now() {
				t.Errorf("it began at %d, we at %d, and now is %d", p.Start, us.Start, Now())
			}
			return
		}
	}
	t.Error("it is not among them")
}
