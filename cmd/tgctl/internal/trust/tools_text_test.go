package trust

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestLongLines checks that the omitted part of a long line is counted, that characters are not
// split, and that differences are never omitted.
func TestLongLines(t *testing.T) {
	a := &app{newConsole("").Pipe().App}
	words := strings.Repeat("wörter ", 60)
	for _, test := range []struct{ old, now string }{
		{"", "x"}, {"x", ""}, {"same", "same but longer"}, {words + "old" + words, words + "new" + words},
		{words, words + words}, {words + "ö", words + "ä"}, {strings.Repeat("ö", 300), strings.Repeat("ö", 299) + "ä" + "ö"},
		{"a\nb\nc", "a\nc"}, {"a\nb", "a\nb\nc"},
	} {
		var b strings.Builder
		a.writeTexts(&b, test.old, test.now)
		shown := b.String()
		if !utf8.ValidString(shown) || strings.Contains(shown, `\x{`) {
			t.Errorf("%.20q, %.20q: a character is cut:\n%s", test.old, test.now, shown)
		}
		if !strings.Contains(shown, "  - ") && !strings.Contains(shown, "  + ") && !strings.Contains(shown, "  -\n") {
			t.Errorf("%.20q, %.20q: nothing is shown:\n%s", test.old, test.now, shown)
		}
		if len(test.old) > 400 && len(test.now) <= len(test.old) && len(shown) > len(test.old) {
			t.Errorf("%.20q, %.20q: all of it is shown", test.old, test.now)
		}
	}
	for at := range 40 {
		if got := atWord("one ö"+strings.Repeat("ö", 15), at); got > at {
			t.Errorf("atWord(%d) = %d", at, got)
		}
	}
}
