package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// mostOfTest is the maximum length of the output of a failed test that is printed, in bytes:
// half from its beginning and half from its end.
const mostOfTest = 64 << 10

// event is a line of `go test -json`, see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
}

// report prints the results of tests and remembers which were skipped. It is safe for concurrent
// use.
type report struct {
	mu      sync.Mutex // held while something is printed, and guards skipped and spent
	to      io.Writer
	skipped map[string][]string // tests by reason
	spent   []spent
}

func newReport(to io.Writer) *report { return &report{to: to, skipped: map[string][]string{}} }

// outputs is what the tests of one run of go test have printed that have not ended, by package and
// test.
type outputs map[string]map[string]*text

// read handles the output of `go test -json`. A line that is no event, for example from a tool
// that go test runs, is printed unchanged.
func (r *report) read(from io.Reader) error {
	in, printed := bufio.NewReader(from), outputs{}
	for {
		line, err := in.ReadBytes('\n')
		var e event
		switch {
		case len(line) > 0 && json.Unmarshal(line, &e) == nil && e.Action != "":
			r.take(printed, e)
		default:
			r.print(string(line))
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read what go test prints: %w", err)
		}
	}
}

// print writes all of what it is given at once: nothing of another run gets between.
func (r *report) print(all ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprint(r.to, all...)
}

func (r *report) take(printed outputs, e event) {
	tests := printed[e.Package]
	switch {
	case e.Action == "build-output":
		r.print(e.Output)
	case e.Action == "output" && measured.MatchString(e.Output):
		r.addTests(e.Package, e.Output)
	case e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" {
			r.print(e.Output)
		}
	case e.Action == "output":
		if tests == nil {
			tests = map[string]*text{}
			printed[e.Package] = tests
		}
		if tests[e.Test] == nil {
			tests[e.Test] = &text{}
		}
		tests[e.Test].add(e.Output)
	case e.Action == "fail" && e.Test == "":
		for _, name := range slices.Sorted(maps.Keys(tests)) { // these never ended
			r.print(tests[name])
		}
		delete(printed, e.Package)
	case e.Action == "fail":
		r.print(tests[e.Test])
		delete(tests, e.Test)
	case e.Action == "skip" && e.Test != "":
		why := reason(tests[e.Test].String())
		r.mu.Lock()
		r.skipped[why] = append(r.skipped[why], e.Package+"."+e.Test)
		r.mu.Unlock()
		delete(tests, e.Test)
	case e.Action == "pass" || e.Action == "skip":
		delete(tests, e.Test)
		if e.Test == "" {
			delete(printed, e.Package)
		}
	}
}

// logged matches the start of a test's log message: the position in its file.
var logged = regexp.MustCompile(`(?m)^ *[^ :\n]+\.go:[0-9]+: `)

// reason returns the last message of a skipped test.
func reason(printed string) string {
	at := logged.FindAllStringIndex(printed, -1)
	if len(at) == 0 {
		return "no reason given"
	}
	said, _, _ := strings.Cut(printed[at[len(at)-1][1]:], "\n--- ")
	said, _, _ = strings.Cut(said, "\n    --- ")
	return strings.Join(strings.Fields(said), " ")
}

// printSkips lists the reasons for skips, each with its tests.
func (r *report) printSkips() {
	if len(r.skipped) == 0 {
		return
	}
	fmt.Fprintln(r.to, "\nSkipped:")
	for _, why := range slices.Sorted(maps.Keys(r.skipped)) {
		tests := r.skipped[why]
		slices.Sort(tests)
		const most = 3
		more := ""
		if n := len(tests); n > most {
			tests, more = tests[:most], fmt.Sprintf(" and %d more", n-most)
		}
		fmt.Fprintf(r.to, "  %.300s\n      %s%s\n", why, strings.Join(tests, ", "), more)
	}
}

// text is the output of a test, without its middle if it is long.
type text struct {
	head, tail []byte
	lost       int
}

func (t *text) add(s string) {
	if room := mostOfTest/2 - len(t.head); room > 0 && len(t.tail) == 0 {
		n := min(room, len(s))
		t.head, s = append(t.head, s[:n]...), s[n:]
	}
	t.tail = append(t.tail, s...)
	if over := len(t.tail) - mostOfTest/2; over > mostOfTest { // rarely, since it copies
		t.tail, t.lost = append([]byte(nil), t.tail[over:]...), t.lost+over
	}
}

func (t *text) String() string {
	if t == nil {
		return ""
	}
	over := max(0, len(t.tail)-mostOfTest/2)
	if lost := t.lost + over; lost > 0 {
		return fmt.Sprintf("%s\n[%d bytes are left out here]\n%s", t.head, lost, t.tail[over:])
	}
	return string(t.head) + string(t.tail)
}
