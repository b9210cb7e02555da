package display

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestJSON(t *testing.T) {
	for _, test := range []struct {
		what, in string
		columns  int
		want     string
	}{
		{"scalars", `{"a":1.50e400,"b":-0,"c":true,"d":null,"e":"x"}`, 0,
			"{\n  \"a\": 1.50e400,\n  \"b\": -0,\n  \"c\": true,\n  \"d\": null,\n  \"e\": \"x\"\n}"},
		{"order and nesting", `{"z":[1,{"y":[]},{}],"a":{}}`, 0,
			"{\n  \"z\": [\n    1,\n    {\n      \"y\": []\n    },\n    {}\n  ],\n  \"a\": {}\n}"},
		{"one scalar", ` "x" `, 0, `"x"`},
		{"escapes that hide letters", `{"cmd":"\u0072\u006d -rf \/"}`, 0, "{\n  \"cmd\": \"rm -rf /\"\n}"},
		{"escaped name", `{"p\u0061th":1}`, 0, "{\n  \"path\": 1\n}"},
		{"quotes and backslashes", `["\"},{\"x\":\"\\"]`, 0, "[\n  \"\\\"},{\\\"x\\\":\\\"\\\\\"\n]"},
		{"newlines", `{"text":"one\ntwo\r\n\tthree\n"}`, 0, "{\n  \"text\": \"one\\n\n  │ two\\r\\n\n  │ \\tthree\\n\"\n}"},
		{"a member made of a newline", `{"text":"x\n  \"safe\": true"}`, 0, "{\n  \"text\": \"x\\n\n  │   \\\"safe\\\": true\"\n}"},
		{"a long string", `{"text":"` + strings.Repeat("0123456789", 6) + `"}`, 32,
			"{\n  \"text\": \"0123456789012345678\n  │ 90123456789012345678901234\n  │ 567890123456789\"\n}"},
		{"what a terminal obeys", `["\u001b[2J","\u202e",` + "\"\u200b\"]", 0, "[\n  \"\\u{1b}[2J\",\n  \"\\u{202e}\",\n  \"\\u{200b}\"\n]"},
		{"emoji by surrogates", `["\ud83c\udf89"]`, 0, "[\n  \"🎉\"\n]"},
		{"duplicate name", `{"a":1,"a":2}`, 0, `(this is not valid JSON) {"a":1,"a":2}`},
		{"lone surrogate", `["\ud800"]`, 0, `(this is not valid JSON) ["\ud800"]`},
		{"invalid UTF-8", "[\"\xff\"]", 0, `(this is not valid JSON) ["\x{ff}"]`},
		{"two values", `1 2`, 0, `(this is not valid JSON) 1 2`},
		{"nothing", ``, 0, `(this is not valid JSON) `},
		{"cut off", `{"a":`, 0, `(this is not valid JSON) {"a":`},
		{"names in another case are two", `{"a":1,"A":2}`, 0, "{\n  \"a\": 1,\n  \"A\": 2\n}"},
	} {
		t.Run(test.what, func(t *testing.T) {
			if got := JSON([]byte(test.in), test.columns); string(got) != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}

// The sender controls the depth: it must cost neither stack nor screens of spaces.
func TestJSONOfGreatDepth(t *testing.T) {
	const depth = 5000
	deep := strings.Repeat("[", depth) + strings.Repeat("]", depth)
	got := string(JSON([]byte(deep), 80))
	if n := strings.Count(got, "["); n != depth {
		t.Errorf("%d of %d levels are shown", n, depth)
	}
	for line := range strings.SplitSeq(got, "\n") {
		if len(line) > 2*indentMost+2 {
			t.Fatalf("a line is %d long", len(line))
		}
	}
}

func TestJSONLine(t *testing.T) {
	const hint = "tgctl approvals show A-1"
	for _, test := range []struct {
		what, in string
		columns  int
		hint     Safe
		want     Safe
	}{
		{"fits", `{"a":[1,2,{}],"b":"x\ny","c":[]}`, 80, hint, `{"a": [1, 2, {}], "b": "x\ny", "c": []}`},
		{"a long string does not hide what follows", `{"content":"` + strings.Repeat("x", 1000) + `","mode":"append"}`, 80, hint,
			Safe(`{"content": "` + strings.Repeat("x", 40) + `"…+960, "mode": "append"}`)},
		{"no room for the hint either", `{"a":"1234567890","b":"1234567890","c":"1234567890","d":"1234567890","e":"1234567890","f":"12"}`, 80, hint,
			`{"a": "1234567890", "b": "1234567890", "c": "1234567890", "d": … 40 more bytes`},
		{"little room", `{"a":"1234567890","b":"1234567890","c":"1234567890"}`, 40, hint, `{"a": "1234567890", "b": … 31 more bytes`},
		{"room for the hint", `["` + strings.Repeat(`1234567890","`, 20) + `"]`, 90, hint, `["1234567890", "1234567890", "1234567890"… 225 more bytes; tgctl approvals show A-1`},
		{"no limit", `[` + strings.Repeat("1,", 100) + `1]`, 0, hint, Safe("[" + strings.Repeat("1, ", 100) + "1]")},
		{"right to left is written out beside other text", `["שלום"]`, 80, "", `["\u{5e9}\u{5dc}\u{5d5}\u{5dd}"]`},
		{"no JSON", `{"a":1,"a":2}`, 80, hint, `(this is not valid JSON) {"a":1,"a":2}`},
		{"long and no JSON", strings.Repeat("x", 200), 80, hint, Safe(`(this is not valid JSON) ` + strings.Repeat("x", 39) + `… 161 more bytes`)},
	} {
		t.Run(test.what, func(t *testing.T) {
			got := JSONLine([]byte(test.in), test.columns, test.hint)
			if got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
			if test.columns > 0 && Width(got) > test.columns {
				t.Errorf("takes %d columns of %d", Width(got), test.columns)
			}
		})
	}
}

func TestEscapeJSON(t *testing.T) {
	in := "{\"a\\\\b\":\"\u202e\U000e0041 é …\",\"n\":1.50}"
	want := Safe(`{"a\\b":"\u202e\udb40\udc41 é \u2026","n":1.50}`)
	if got := EscapeJSON([]byte(in)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range hostile {
		b, err := json.Marshal(map[string]string{"x": s})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"z":[1,{"y":[]},{}],"a":{"b":-1.5e3,"c":[true,false,null,""]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		shown := JSON(raw, 60)
		harmless(t, shown, true)
		line := JSONLine(raw, 60, "tgctl approvals show A-1")
		harmless(t, line, false)
		if Width(line) > 60 {
			t.Errorf("takes %d columns of 60: %s", Width(line), line)
		}
		if strings.HasPrefix(string(shown), "(this is not valid JSON)") {
			return
		}
		escaped := EscapeJSON(raw)
		harmless(t, Safe(strings.Join(strings.Fields(string(escaped)), " ")), false)
		mustEqualJSON(t, raw, []byte(escaped))
		mustEqualJSON(t, raw, unshow(t, JSON(raw, 0)))
	})
}

// unshow reverses JSON: the result is the same value.
func unshow(t *testing.T, shown Safe) []byte {
	var b bytes.Buffer
	for line := range strings.SplitSeq(string(shown), "\n") {
		if trimmed := strings.TrimLeft(line, " "); strings.HasPrefix(trimmed, continued) {
			line = strings.TrimPrefix(trimmed, continued)
		}
		for text := line; text != ""; {
			piece := text[:pieceLen(text)]
			// An escaped backslash before u{ belongs to the text.
			if strings.HasPrefix(text, `\\`) {
				piece = `\\`
			}
			text = text[len(piece):]
			var r rune
			if _, err := fmt.Sscanf(piece, `\u{%x}`, &r); err == nil && len(piece) > 3 {
				out, err := json.Marshal(string(r))
				if err != nil {
					t.Fatal(err)
				}
				piece = strings.Trim(string(out), `"`)
			}
			b.WriteString(piece)
		}
	}
	return b.Bytes()
}

// mustEqualJSON compares values, numbers by their text.
func mustEqualJSON(t *testing.T, want, got []byte) {
	t.Helper()
	var w, g any
	for _, side := range []struct {
		raw []byte
		to  *any
	}{{want, &w}, {got, &g}} {
		dec := json.NewDecoder(bytes.NewReader(side.raw))
		dec.UseNumber()
		if err := dec.Decode(side.to); err != nil {
			t.Fatalf("%v: %q", err, side.raw)
		}
	}
	if !reflect.DeepEqual(w, g) {
		t.Errorf("another value is shown:\n got %q\nwant %q", got, want)
	}
}
