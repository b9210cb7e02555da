package record

import (
	"encoding/json"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)

// full returns a record with every field set, each to a different value.
func full() Record {
	var r Record
	v := reflect.ValueOf(&r).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch f := v.Field(i); f.Interface().(type) {
		case string, Kind:
			f.SetString("<" + name + ">")
		case []string:
			f.Set(reflect.ValueOf([]string{name + " 1", name + " 2"}))
		case bool:
			f.SetBool(true)
		case time.Time:
			f.Set(reflect.ValueOf(noon))
		case int, int64:
			f.SetInt(int64(i + 1))
		case uint64:
			f.SetUint(uint64(i + 1))
		case *Peer:
			f.Set(reflect.ValueOf(&Peer{1000, 4711, 99, true, "<exe>", "<tty>", "<foreground>", "<cgroup>", []string{"1 a", "2 b"}}))
		}
	}
	return r
}

func checksum(body []byte) uint32 { return crc32.Checksum(body, castagnoli) }

// unsealed removes the checksum from a line.
func unsealed(line []byte) string { return string(line[:len(line)-sealLen]) + "}" }

// Detects a field that the encoder or the parser forgot.
func TestAppendWritesEveryField(t *testing.T) {
	r := full()
	line := r.Append(nil)
	var want strings.Builder
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(want.String()), unsealed(line)); diff != "" {
		t.Errorf("line differs from the struct's tags in order (-want +got):\n%s", diff)
	}
	got, err := Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

func TestAppendLeavesOutWhatIsEmpty(t *testing.T) {
	r := Record{Seq: 1, Time: noon, Kind: KindStop}
	want := `{"v":1,"seq":1,"time":"2026-11-20T12:00:00.123456Z","prev":"","kind":"stop"}`
	if got := unsealed(r.Append(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestStrings(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"html", `<a href="x">&`, `"<a href=\"x\">&"`},
		{"control", "a\nb\rc\td\x00e\x7f", `"a\nb\rc\td\u0000e\u007f"`},
		{"line ends of Unicode", "a\u0085b\u2028c\u2029", `"a\u0085b\u2028c\u2029"`},
		{"invalid", "a\xffb\xc3", "\"a\ufffdb\ufffd\""},
		{"surrogate in UTF-8", "\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""},
		{"replacement character itself", "\ufffd", "\"\ufffd\""},
		{"other scripts", "é 日本 😀", "\"é 日本 😀\""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := string(AppendString(nil, test.in))
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			var back string
			if err := json.Unmarshal([]byte(got), &back); err != nil {
				t.Fatal(err)
			}
			if want := validText(test.in); back != want {
				t.Errorf("reads back as %q, want %q", back, want)
			}
		})
	}
}

// Text is decoded as it was, wherever it contains characters that must be escaped.
func TestAnyString(t *testing.T) {
	piece := rapid.OneOf(rapid.SampledFrom([]string{"plain text", "7", `"`, "\\", "\x7f", "\x00", "\u2028", "\u0085", "é", "\xff", "\xe2\x80"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "")
		got := AppendString([]byte("before"), text)
		var back string
		if err := json.Unmarshal(got[len("before"):], &back); err != nil || back != validText(text) {
			t.Fatalf("%q became %s: %v", text, got, err)
		}
		for _, b := range got {
			if b < ' ' || b == 0x7f {
				t.Fatalf("%q stands in %q", b, got)
			}
		}
	})
}

// Times are formatted as the standard library formats them.
func TestTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-1<<37, 1<<39).Draw(t, "seconds"), rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds"))
		want := at.UTC().Truncate(time.Microsecond).Format(timeLayout)
		if got := string(appendTime(nil, at.In(time.FixedZone("", 3600)))); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}

func TestLongStringsAreCutAndSaySo(t *testing.T) {
	r := Record{Tool: strings.Repeat("é", maxText)}
	got, err := Parse(r.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Tool) > maxText+64 || !strings.HasSuffix(got.Tool, "é… (16384 more bytes)") {
		t.Errorf("%d bytes, ending in %q", len(got.Tool), got.Tool[len(got.Tool)-40:])
	}
}

// genRecord generates records with anything that a hostile peer may put into strings.
func genRecord() *rapid.Generator[Record] {
	return rapid.Custom(func(t *rapid.T) Record {
		text := rapid.OneOf(rapid.StringN(0, 20, 60),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 12), func(b []byte) string { return string(b) }))
		r := full()
		v := reflect.ValueOf(&r).Elem()
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			switch f := v.Field(i); f.Interface().(type) {
			case string, Kind:
				f.SetString(text.Draw(t, name))
			case []string:
				f.Set(reflect.ValueOf(rapid.SliceOfN(text, 0, 3).Draw(t, name)))
			case bool:
				f.SetBool(rapid.Bool().Draw(t, name))
			case int64:
				f.SetInt(rapid.Int64().Draw(t, name))
			case uint64:
				f.SetUint(rapid.Uint64().Draw(t, name))
			case *Peer:
				if p := rapid.Ptr(genPeer(text), true).Draw(t, name); p != nil {
					f.Set(reflect.ValueOf(p))
				} else {
					f.SetZero()
				}
			}
		}
		return r
	})
}

func genPeer(text *rapid.Generator[string]) *rapid.Generator[Peer] {
	return rapid.Custom(func(t *rapid.T) Peer {
		return Peer{
			UID: rapid.Uint32().Draw(t, "uid"), PID: rapid.Int32().Draw(t, "pid"), Start: rapid.Uint64().Draw(t, "start"),
			Handle: rapid.Bool().Draw(t, "handle"), Exe: text.Draw(t, "exe"), TTY: text.Draw(t, "tty"),
			Foreground: text.Draw(t, "foreground"), Cgroup: text.Draw(t, "cgroup"), Above: rapid.SliceOfN(text, 0, 3).Draw(t, "above"),
		}
	})
}

// validText replaces each byte that is not UTF-8, as the conversion to runes does.
func validText(s string) string { return string([]rune(s)) }

// valid returns r as it is decoded after it was encoded.
func valid(r Record) Record {
	validStrings(reflect.ValueOf(&r).Elem())
	if r.Peer != nil {
		p := *r.Peer
		validStrings(reflect.ValueOf(&p).Elem())
		r.Peer = &p
	}
	return r
}

func validStrings(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); s := f.Interface().(type) {
		case string, Kind:
			f.SetString(validText(f.String()))
		case []string:
			list := []string(nil)
			for _, text := range s {
				list = append(list, validText(text))
			}
			f.Set(reflect.ValueOf(list))
		}
	}
}

func TestParseIsTheReverseOfAppend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genRecord().Draw(t, "record")
		line := r.Append(nil)
		if !utf8.Valid(line) || !json.Valid(line) {
			t.Fatalf("not valid: %q", line)
		}
		for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
			if strings.Contains(string(line), end) {
				t.Fatalf("%q stands in %q", end, line)
			}
		}
		got, err := Parse(line)
		if err != nil || !sound(line) {
			t.Fatalf("%v: %s", err, line)
		}
		if diff := cmp.Diff(valid(r), got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestParseSkipsWhatALaterVersionAdds(t *testing.T) {
	line := []byte(`{"v":1,"seq":9,"x":{"a":[1,"}",null]},"y":-1.5e3,"tool":"t"`)
	line = appendSeal(line, checksum(line))
	got, err := Parse(line)
	if err != nil || got.Seq != 9 || got.Tool != "t" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"empty", "", "is not a record"},
		{"values", `{"values":1,"arguments":{}}`, "is not a record"},
		{"checksum", `{"v":1,"seq":1,"crc":"00000000"}`, "checksum"},
		{"cut", `{"v":1,"seq":1`, "is not a record"},
	}
	for _, body := range []string{
		`{"v":1,"seq":"1"`, `{"v":1,"seq":01`, `{"v":1 ,"seq":1`, `{"v":1,"tool":3`, `{"v":1,"tool":"a`, `{"v":1,,"seq":1`,
		`{"v":1,"facts":["a"`, `{"v":1,"facts":["a" "b"]`, `{"v":1,"forwarded":1`, `{"v":1,"time":"yesterday"`, `{"v":1,"tool":"\q"`,
		`{"v":1,"x":{`, `{"v":1}{"a":1`, "{\"v\":1,\"tool\":\"\xff\"", "{\"v\":1,\"tool\":\"a\x01b\"", `{"v":1,"latency_us":1.5`, `{"v":1,"seq"1`,
	} {
		tests = append(tests, struct{ name, line, want string }{
			body, string(appendSeal([]byte(body), checksum([]byte(body)))), ""})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := Parse([]byte(test.line))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %+v, %v; want an error with %q", r, err, test.want)
			}
		})
	}
}

// FuzzParse compares what Parse accepts with the standard decoder.
func FuzzParse(f *testing.F) {
	r := full()
	f.Add(unsealed(r.Append(nil)))
	f.Add(`{"v":1,"seq":1,"x":[{}],"tool":"a\u00e9\ud83d\ude00"}`)
	f.Add(`{"v":1}`)
	f.Fuzz(func(t *testing.T, body string) {
		body = strings.TrimSuffix(body, "}")
		line := appendSeal([]byte(body), checksum([]byte(body)))
		if sealed(line) == nil && sound(line) && !jsontext.Value(line).IsValid() {
			t.Fatalf("sound accepts what jsontext does not: %q", line)
		}
		got, err := Parse(line)
		if err != nil {
			return
		}
		if !json.Valid(line) {
			t.Fatalf("Parse accepts what is not JSON: %q", line)
		}
		again, err := Parse(got.Append(nil))
		if err != nil {
			t.Fatalf("what was read can't be written and read again: %v", err)
		}
		if got.V == 0 {
			got.V = Version
		}
		if diff := cmp.Diff(got, again); diff != "" && len(body) < maxText {
			t.Fatalf("(-first +again):\n%s", diff)
		}
	})
}

// The search that examines eight bytes at once stops where a simple one does.
func TestSpecial(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\"\\\x00\x1f !#[]\x7f\x80\xa2\xdc\xff"))), 0, 40).Draw(t, "line")
		from := rapid.IntRange(0, len(line)).Draw(t, "from")
		want := from
		for want < len(line) && line[want] >= ' ' && line[want] != '"' && line[want] != '\\' {
			want++
		}
		if got := special(line, from); got != want {
			t.Fatalf("%d in %q from %d, want %d", got, line, from, want)
		}
	})
}
