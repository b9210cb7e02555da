package child

import (
	"fmt"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = " 12 34 56 0 -1 4194304 100 0 0 0 0 0 0 0 20 0 1 0 117869 3133440"
	for _, test := range []struct {
		stat string
		ok   bool
		want proc
	}{
		{"7 (cat) S" + rest, true, proc{pid: 7, ppid: 12, pgid: 34, sid: 56, start: 117869}},
		{"7 (cat) Z" + rest, true, proc{pid: 7, ppid: 12, pgid: 34, sid: 56, start: 117869, zombie: true}},
		{"7 (x) Z 1 1 1 (y) S" + rest, true, proc{pid: 7, ppid: 12, pgid: 34, sid: 56, start: 117869}},
		{"7 (a\nb) R" + rest, true, proc{pid: 7, ppid: 12, pgid: 34, sid: 56, start: 117869}},
		{"7 (cat) S 12 34", false, proc{}},
		{"7 cat S" + rest, false, proc{}},
		{"", false, proc{}},
	} {
		got, ok := parseStat(7, []byte(test.stat))
		if ok != test.ok || (ok && fmt.Sprint(got) != fmt.Sprint(test.want)) {
			t.Errorf("%q: %+v, %v; want %+v, %v", test.stat, got, ok, test.want, test.ok)
		}
	}
}
