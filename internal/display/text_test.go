package display

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/internal/test/golden"
)

func TestNameAndText(t *testing.T) {
	for _, test := range []struct {
		what, in   string
		name, text Safe
	}{
		{"plain", "read_file", "read_file", "read_file"},
		{"empty", "", "", ""},
		{"escape sequence", "\x1b[31mred", `\u{1b}[31mred`, `\u{1b}[31mred`},
		{"C1 control", "a\u009bb", `a\u{9b}b`, `a\u{9b}b`},
		{"delete, bell, null", "\x7f\x07\x00", `\u{7f}\u{7}\u{0}`, `\u{7f}\u{7}\u{0}`},
		{"newline and tab", "a\nb\tc\r", `a\u{a}b\u{9}c\u{d}`, `a\u{a}b\u{9}c\u{d}`},
		{"line and paragraph separator", "a\u2028b\u2029c", `a\u{2028}b\u{2029}c`, `a\u{2028}b\u{2029}c`},
		{"right-to-left override", "a\u202eb", `a\u{202e}b`, `a\u{202e}b`},
		{"isolates and marks", "\u2066a\u2069\u200f\u061c", `\u{2066}a\u{2069}\u{200f}\u{61c}`, `\u{2066}a\u{2069}\u{200f}\u{61c}`},
		{"zero width", "a\u200bb\u200cc\u200dd\ufeff\u2060", `a\u{200b}b\u{200c}c\u{200d}d\u{feff}\u{2060}`, `a\u{200b}b\u{200c}c\u{200d}d\u{feff}\u{2060}`},
		{"soft hyphen", "a\u00adb", `a\u{ad}b`, `a\u{ad}b`},
		{"tag characters", "a\U000e0041", `a\u{e0041}`, `a\u{e0041}`},
		{"variation selector", "a\ufe0f\U000e0100", `a\u{fe0f}\u{e0100}`, `a\u{fe0f}\u{e0100}`},
		{"fillers", "\u3164\u115f\u2800\uffa0", `\u{3164}\u{115f}\u{2800}\u{ffa0}`, `\u{3164}\u{115f}\u{2800}\u{ffa0}`},
		{"private use", "\ue000\U000f0000", `\u{e000}\u{f0000}`, `\u{e000}\u{f0000}`},
		{"unassigned", "\u0378", `\u{378}`, `\u{378}`},
		{"spaces that are none", "a\u00a0b\u2003c\u3000", `a\u{a0}b\u{2003}c\u{3000}`, `a\u{a0}b\u{2003}c\u{3000}`},
		{"invalid UTF-8", "a\xffb\xc3", `a\x{ff}b\x{c3}`, `a\x{ff}b\x{c3}`},
		{"surrogate in UTF-8", "\xed\xa0\x80", `\x{ed}\x{a0}\x{80}`, `\x{ed}\x{a0}\x{80}`},
		{"replacement character", "\ufffd", `\u{fffd}`, `\u{fffd}`},
		{"backslash", `C:\new`, `C:\new`, `C:\new`},
		{"forged escape", `\u{202e}\x{ff}`, `\u{5c}u{202e}\u{5c}x{ff}`, `\u{5c}u{202e}\u{5c}x{ff}`},
		{"our ellipsis", "read…", `read\u{2026}`, `read\u{2026}`},

		{"accents", "naïve café", "naïve café", "naïve café"},
		{"combining accent", "e\u0301", `e\u{301}`, "e\u0301"},
		{"accent on nothing", "\u0301 \u0301", `\u{301} \u{301}`, `\u{301} \u{301}`},
		{"accent on an escape", "\u200b\u0301", `\u{200b}\u{301}`, `\u{200b}\u{301}`},
		{"stroke through a letter", "o\u0338", `o\u{338}`, `o\u{338}`},
		{"a tower of accents", "a\u0301\u0301\u0301", `a\u{301}\u{301}\u{301}`, "a\u0301\u0301" + `\u{301}`},
		{"enclosing mark", "a\u20dd", `a\u{20dd}`, `a\u{20dd}`},

		{"one Cyrillic letter", "p\u0430ypal", `p\u{430}ypal`, `p\u{430}ypal`},
		{"all Cyrillic lookalikes", "сор", `\u{441}\u{43e}\u{440}`, `\u{441}\u{43e}\u{440}`},
		{"Russian", "Привет, мир", `П\u{440}и\u{432}\u{435}\u{442}, \u{43c}и\u{440}`, "Привет, мир"},
		{"Russian with one mixed word", "Привет, pаypal", `П\u{440}и\u{432}\u{435}\u{442}, p\u{430}ypal`, `Привет, p\u{430}ypal`},
		{"Greek letter in English", "α-helix", `\u{3b1}-helix`, `\u{3b1}-helix`},
		{"Greek", "καλημέρα", `\u{3ba}\u{3b1}λ\u{3b7}μέ\u{3c1}\u{3b1}`, "καλημέρα"},
		{"Turkish", "ışık", `\u{131}ş\u{131}k`, "ışık"},
		{"IPA letters", "ɡoogle", `\u{261}oogle`, `\u{261}oogle`},
		{"full width", "ｒｍ －ｒｆ", `\u{ff52}\u{ff4d} \u{ff0d}\u{ff52}\u{ff46}`, `\u{ff52}\u{ff4d} \u{ff0d}\u{ff52}\u{ff46}`},
		{"mathematical", "𝐫𝐦", `\u{1d42b}\u{1d426}`, `\u{1d42b}\u{1d426}`},
		{"ligature, long s, Kelvin", "\ufb01 \u017f \u212a", `\u{fb01} \u{17f} \u{212a}`, `\u{fb01} \u{17f} \u{212a}`},
		{"raised", "m² 1º", "m² 1º", "m² 1º"},
		{"other digits", "१२ x१", `\u{967}\u{968} x\u{967}`, `१२ x\u{967}`},
		{"bold Greek", "𝛂𝛃", `\u{1d6c2}\u{1d6c3}`, `\u{1d6c2}\u{1d6c3}`},
		{"a mark that looks like an o", "g\u0d02\u0d02gle", `g\u{d02}\u{d02}gle`, `g\u{d02}\u{d02}gle`},
		{"the mark in its own script", "കം", "കം", "കം"},
		{"Lisu", "ꓯꓐ", `\u{a4ef}\u{a4d0}`, `\u{a4ef}\u{a4d0}`},

		{"slashes", "a∕b⁄c⧸d", `a\u{2215}b\u{2044}c\u{29f8}d`, `a\u{2215}b\u{2044}c\u{29f8}d`},
		{"dots", "evil․com", `evil\u{2024}com`, `evil\u{2024}com`},
		{"hyphens", "a‐b−c", `a\u{2010}b\u{2212}c`, `a\u{2010}b\u{2212}c`},
		{"quotes", "“x”", `\u{201c}x\u{201d}`, `\u{201c}x\u{201d}`},
		{"prose", "don’t — stop", `don\u{2019}t \u{2014} stop`, "don’t — stop"},
		{"Chinese", "你好，世界", `你好\u{ff0c}世界`, "你好，世界"},
		{"Japanese", "ファイル", "ファイル", "ファイル"},
		{"Hebrew alone", "שלום", `\u{5e9}\u{5dc}\u{5d5}\u{5dd}`, "שלום"},
		{"Hebrew beside digits", "שלום 1", `\u{5e9}\u{5dc}\u{5d5}\u{5dd} 1`, `\u{5e9}\u{5dc}\u{5d5}\u{5dd} 1`},
		{"Arabic beside a path", "/etc/حذف", `/etc/\u{62d}\u{630}\u{641}`, `/etc/\u{62d}\u{630}\u{641}`},
		{"Hindi", "नमस्ते", "नमस्ते", "नमस्ते"},
		{"emoji", "🎉", "🎉", "🎉"},
		{"joined emoji", "👨\u200d👩", `👨\u{200d}👩`, `👨\u{200d}👩`},
	} {
		t.Run(test.what, func(t *testing.T) {
			if got := Name(test.in); got != test.name {
				t.Errorf("Name(%q) = %s, want %s", test.in, got, test.name)
			}
			if got := Text(test.in); got != test.text {
				t.Errorf("Text(%q) = %s, want %s", test.in, got, test.text)
			}
		})
	}
}

func TestLines(t *testing.T) {
	if got, want := Lines("one\n\x1b[1mtwo\r\n\nthree\n"), Safe("one\n\\u{1b}[1mtwo\\u{d}\n\nthree"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBytes(t *testing.T) {
	if got, want := Bytes([]byte{'a', 0xff, 0}), Safe(`a\x{ff}\u{0}`); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Different texts must not look alike: the original can be restored from what is shown.
func TestTextCanBeReadBack(t *testing.T) {
	for _, s := range hostile {
		for _, shown := range []Safe{Name(s), Text(s)} {
			if got := readBack(t, shown); got != s {
				t.Errorf("%q is shown as %s, which reads back as %q", s, shown, got)
			}
		}
	}
}

// readBack decodes escaped characters.
func readBack(t testing.TB, s Safe) string {
	t.Helper()
	var b []byte
	for text := string(s); text != ""; {
		piece := text[:pieceLen(text)]
		text = text[len(piece):]
		var n rune
		switch {
		case strings.HasPrefix(piece, `\u{`) && strings.HasSuffix(piece, "}"):
			if _, err := fmt.Sscanf(piece, `\u{%x}`, &n); err != nil {
				t.Fatalf("%s: %v", piece, err)
			}
			b = utf8.AppendRune(b, n)
		case strings.HasPrefix(piece, `\x{`) && strings.HasSuffix(piece, "}"):
			if _, err := fmt.Sscanf(piece, `\x{%x}`, &n); err != nil {
				t.Fatalf("%s: %v", piece, err)
			}
			b = append(b, byte(n))
		default:
			b = append(b, piece...)
		}
	}
	return string(b)
}

// hostile are deceptive texts, for golden files and as seeds.
var hostile = []string{
	"\x1b]0;title\x07\x1b[2J\x1b[1;1Hall clear",
	"invoice_\u202efdp.exe",
	"read_file\u200b",
	"rеad_file",
	"/home/ana/..∕..∕etc∕passwd",
	"https://gооgle․com⁄login",
	"ok\nA-2  approved  nothing to see",
	"\\u{202e} is what it says",
	"… 9 more bytes",
	"\xf0\x28\x8c\x28 broken",
	"z\u0300\u0301\u0302\u0303\u0304\u0305algo",
	"\u2067שלום\u2069 rm -rf /",
	"\U000e0072\U000e006d hidden in tags",
	"a\ufeff\u2060\u180e\u034fb",
}

func TestHostileGolden(t *testing.T) {
	var b strings.Builder
	for _, s := range hostile {
		asJSON, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%+q\n  name %s\n  text %s\n  json %s\n", s, Name(s), Text(s), strings.ReplaceAll(string(JSON(asJSON, 60)), "\n", "\n       "))
	}
	golden.Compare(t, filepath.Join("testdata", "hostile.txt"), b.String())
}

// harmless fails if s contains anything that a terminal executes, hides or reorders.
func harmless(t testing.TB, s Safe, lines bool) {
	t.Helper()
	if !utf8.ValidString(string(s)) {
		t.Errorf("not UTF-8: %q", s)
	}
	for _, r := range string(s) {
		switch {
		case r == '\n' && lines:
		case !unicode.IsGraphic(r), r != ' ' && unicode.IsSpace(r), unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Bidi_Control, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			t.Errorf("%U is shown in %q", r, s)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, shown := range []Safe{Name(s), Text(s)} {
			harmless(t, shown, false)
			if got := readBack(t, shown); got != s {
				t.Errorf("%q is shown as %s, which reads back as %q", s, shown, got)
			}
		}
		harmless(t, Lines(s), true)
		for _, columns := range []int{1, 10, 33, 80} {
			for _, shown := range []Safe{Fit(Name(s), columns), Clip(s, max(columns, 24), "tgctl approvals show A-1")} {
				harmless(t, shown, false)
			}
			if w := Width(Fit(Text(s), columns)); w > columns {
				t.Errorf("Fit(%q, %d) takes %d columns", s, columns, w)
			}
			for _, line := range Wrap(Text(s), max(columns, 10)) {
				if w := Width(line); w > max(columns, 10) {
					t.Errorf("a line of %q takes %d columns: %s", s, w, line)
				}
			}
		}
	})
}

// Each character alone: none that a terminal executes is shown, and one that can be
// recognized only by its number is escaped.
func TestEveryCharacter(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		switch { // only some of the thousands of similar ones
		case !utf8.ValidRune(r):
			continue
		case unicode.In(r, unicode.Han, unicode.Hangul), unicode.Is(unicode.Co, r), r >= 0x323b0 && r < 0xe0000, r >= 0xe01f0:
			r += 96
		}
		s := "x" + string(r) + "x"
		for _, shown := range []Safe{Name(s), Text(s)} {
			harmless(t, shown, false)
			if unicode.Is(unicode.Mn, r) && cells(string(shown)) == 2 && (r < 0x300 || r > 0x36f) {
				t.Errorf("%U vanishes on an ASCII letter: %q", r, shown)
			}
		}
		if t.Failed() {
			break
		}
	}
}
