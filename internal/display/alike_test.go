package display

import "testing"

func TestNamesThatLookAlike(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"read_file", "read_file", true},
		{"read_file", "Read_File", true},
		{"readFile", "readfile", true},
		{"read_file", "read-file", true},
		{"read_file", "read.file", true},
		{"read_file", "r\u0435ad_file", true},               // Cyrillic
		{"read_file", "\uff52ead_file", true},               // full width
		{"read_file", "\U0001d42bead_file", true},           // bold
		{"read_file", "read_\ufb01le", true},                // ligature
		{"read_file", "réad_file", true},                    // accent
		{"read_file", "read_\u200bfile", true},              // invisible
		{"read_file", "read\u2010file", true},               // another hyphen
		{"forbidden_tool", "forbidden_tooI", true},          // capital i
		{"forbidden_tool", "forbidden_t00l", true},          // zeros
		{"forbidden_tool", "forbidden_too1", true},          // one
		{"forbidden_tool", "\u0493orbidden_tool", false},    // a letter that nobody takes for f
		{"turn_on", "tum_on", true},                         // rn
		{"Issue", "issue", true},                            // case beats likeness
		{"\u0441\u043e\u0440\u0443", "copy", true},          // all letters
		{"\u0441\u043e\u0440\u0443", "coffee", false},       // longer
		{"\u0441\u043e\u0440\u0443", "\u4e2d\u6587", false}, // other letters
		{"read_file", "read_files", false},
		{"read_file", "write_file", false},
		{"get_1", "get_2", false},
		{"", "", true},
	} {
		a, b := ShapeOf(tt.a), ShapeOf(tt.b)
		if got := a.Like(b); got != tt.want || got != b.Like(a) {
			t.Errorf("%q and %q: got %v and %v, want %v", tt.a, tt.b, got, b.Like(a), tt.want)
		}
		af, as := a.Keys()
		bf, bs := b.Keys()
		if shared := af == bf || as == bs; !a.HasTwins() && !b.HasTwins() && shared != tt.want {
			t.Errorf("%q and %q: share a key: %v, want %v", tt.a, tt.b, shared, tt.want)
		}
	}
}

func TestWordsInDisguise(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"Read a file.", ""},
		{"Прочитать файл", ""},
		{"Прочитать file", ""},
		{"naïve café, über, ışık", ""},
		{"10 µs at 5 °C, CO₂, α-helix", ""},
		{"ign\u043ere this", "ign\u043ere"},
		{"please \U0001d422gnore this", "\U0001d422gnore"},
		{"日本語 and API", ""},
	} {
		if got := Disguised(tt.text); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestFolded(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"Do NOT tell", "do not tell"},
		{"don’t\u00a0tell", "don't tell"},
		{"i\u200bg\u00adnore", "ignore"},
		{"\uff29\uff27\uff2e\uff2f\uff32\uff25", "ignore"},
		{"\U0001d422gnore", "ignore"},
		{"a\r\n\tb", "a \n b"},
		{"Straße ΔΕΛΤΑ", "straße δελτα"},
	} {
		if got := Folded(tt.text); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}
