package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// No way always follows the same one, or is first more often than others.
func TestOrders(t *testing.T) {
	for n := 2; n <= 7; n++ {
		all := orders(n)
		follows, first := map[[2]int]int{}, map[int]int{}
		for _, order := range all {
			if sorted := slices.Sorted(slices.Values(order)); sorted[0] != 0 || sorted[n-1] != n-1 || len(slices.Compact(sorted)) != n {
				t.Errorf("one order of %d ways is %v", n, order)
			}
			first[order[0]]++
			for i := 1; i < n; i++ {
				follows[[2]int{order[i-1], order[i]}]++
			}
		}
		for one := range n {
			if first[one] != len(all)/n {
				t.Errorf("of %d ways the way %d begins %d times in %d", n, one, first[one], len(all))
			}
			for next := range n {
				if got := follows[[2]int{one, next}]; one != next && got != len(all)/n {
					t.Errorf("of %d ways %d follows %d %d times, want %d", n, next, one, got, len(all)/n)
				}
			}
		}
	}
}

func TestInTurns(t *testing.T) {
	taken, errFailed := map[int]int{}, errors.New("it failed")
	c := &contest{failed: map[int]error{}, entered: []int{direct, ours, others}, ways: make([]way, others+1)}
	err := c.inTurns(6, func(place int) error {
		if taken[place]++; place == others && taken[place] == 2 {
			return errFailed
		}
		return nil
	})
	if err != nil || taken[direct] != 6 || taken[ours] != 6 || taken[others] != 2 {
		t.Errorf("another way fails in its second turn: %v turns, %v", taken, err)
	}
	c.ways[others].name = "another"
	if r := c.row(compared{direct: {1}, ours: {2}, others: {3}}); len(r.Others) != 1 || r.Others[0] != (other{Name: "another", Failed: "it failed"}) {
		t.Errorf("the report says %+v", r.Others)
	}
	c = &contest{failed: map[int]error{}, entered: []int{direct, ours}, ways: []way{ours: {name: "ours"}}}
	err = c.inTurns(1, func(place int) error {
		if place == ours {
			return errFailed
		}
		return nil
	})
	if !errors.Is(err, errFailed) || !strings.HasPrefix(err.Error(), "ours: ") {
		t.Errorf("ours fails: %v", err)
	}
}

// refuseLarge is a peer that answers itself and ends at a line of 100,000 bytes. It writes its
// home to a file.
func refuseLarge() int {
	if os.WriteFile("home", []byte(os.Getenv("HOME")), 0o600) != nil {
		return 1
	}
	in, out := io.Pipe()
	go func() { // ends with the agent's end of the pipe, or with the process
		for agent := bufio.NewReaderSize(os.Stdin, 100_000); ; {
			line, err := agent.ReadSlice('\n')
			if errors.Is(err, bufio.ErrBufferFull) {
				os.Stderr.WriteString("it starts\na line is too long\n")
				os.Exit(1)
			}
			if err != nil {
				out.Close()
				return
			}
			out.Write(line)
		}
	}()
	serve(in, os.Stdout)
	return 0
}

// A session of a peer runs in an empty folder of its own, which is removed afterwards; the
// report includes its error output if it failed.
func TestPeerSession(t *testing.T) {
	dir := t.TempDir()
	w := way{name: "picky", command: []string{self(t), "picky"}, env: os.Environ(), folders: dir}
	var homes []string
	for range 2 {
		s, err := w.start()
		if err != nil {
			t.Fatal(err)
		}
		if took, err := s.pipeline(governed.method, governed.tool, 200, 8); err != nil || len(took) != 200 {
			t.Errorf("%d answers, %v", len(took), err)
		}
		home := readFile(filepath.Join(s.folder, "home"))
		if home != s.folder || filepath.Dir(home) != dir {
			t.Errorf("its home is %q, want a folder of its own in %s", home, dir)
		}
		homes = append(homes, home)
		if len(homes) == 2 {
			err := s.call(governed.method, governed.tool, strings.Repeat("y", 150_000))
			if err == nil || !strings.HasSuffix(err.Error(), "on stderr it said last: a line is too long") || strings.Contains(err.Error(), "\n") {
				t.Errorf("a call that it can't take: %v", err)
			}
		}
		pid := s.pid()
		if err := s.close(); err != nil {
			t.Error(err)
		}
		if cpu(pid) != 0 {
			t.Error("its process is left")
		}
	}
	if homes[0] == homes[1] {
		t.Error("two sessions had the same folder")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A missing or silent peer is reported before anything is measured.
func TestPeerThatFails(t *testing.T) {
	for name, command := range map[string][]string{"not there": {"/nowhere/to/be/found"}, "no gate": {"/bin/false"}} {
		h := &fixture{dir: t.TempDir(), self: self(t), env: os.Environ(), peers: []peer{{"wrong", command}}}
		c := h.contest().without(func(place int) bool { return place == ours })
		sessions, err := c.open()
		if err == nil || !strings.HasPrefix(err.Error(), "wrong: ") {
			t.Errorf("%s: %v, %v", name, sessions, err)
		}
	}
}
