package session

import "testing"

func TestIsSameApplication(t *testing.T) {
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
		if got := isSameApplication(test.a, test.b); got != test.want {
			t.Errorf("%q and %q: %v", test.a, test.b, got)
		}
	}
}
