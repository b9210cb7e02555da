package gate

import "testing"

func TestShellWords(t *testing.T) {
	for in, want := range map[string]string{
		"files/echo": "files/echo", "a b": "'a b'", "x/$(rm -rf ~)": "'x/$(rm -rf ~)'", "it's": `'it'\''s'`, "é": "'é'", "": "''",
	} {
		if got := ShellWord(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}
