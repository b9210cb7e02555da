package main

import (
	"strings"
	"testing"
)

// On a terminal messages are wrapped between words. In a pipe a line stays one line, so that it
// can be searched for.
func TestTalkFitsTheTerminal(t *testing.T) {
	long := "thoughtgated is not running: there is no socket at /run/user/1000/thoughtgate/control.sock;\n  start it"
	for _, test := range []struct {
		columns int
		want    string
	}{
		{0, long + "\n"},
		{40, "thoughtgated is not running: there is no\nsocket at\n/run/user/1000/thoughtgate/control.sock;\n  start it\n"},
	} {
		var out strings.Builder
		a := &app{err: &out, errTerminal: true, errColumns: test.columns}
		a.printMessage("%s", long)
		if got := out.String(); got != test.want {
			t.Errorf("%d columns: got\n%s\nwant\n%s", test.columns, got, test.want)
		}
	}
}
