package display

import (
	"slices"
	"strings"
	"testing"
)

func TestBreak(t *testing.T) {
	for _, test := range []struct {
		text    Safe
		columns int
		want    []Safe
	}{
		{"", 4, []Safe{""}},
		{"abcd", 4, []Safe{"abcd"}},
		{"abcdefghi", 4, []Safe{"abcd", "efgh", "i"}},
		{"ab  cd", 3, []Safe{"ab ", " cd"}}, // no blank is lost
		{"日本語", 5, []Safe{"日本", "語"}},
		{`ab\u{202e}c`, 9, []Safe{"ab", `\u{202e}c`}}, // an escaped character is not broken
		{"abcdef", 0, []Safe{"abcdef"}},
		{"語", 1, []Safe{"語"}},
	} {
		got := Break(test.text, test.columns)
		if !slices.Equal(got, test.want) {
			t.Errorf("Break(%q, %d) = %q, want %q", test.text, test.columns, got, test.want)
		}
		var whole strings.Builder
		for _, line := range got {
			whole.WriteString(string(line))
		}
		if whole.String() != string(test.text) {
			t.Errorf("Break(%q, %d) lost something: %q", test.text, test.columns, got)
		}
	}
}
