package wire

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// fillings are the contents of long strings, valid and invalid.
var fillings = []string{
	"x", "text with blanks ", `a line\n`, `\"quoted\" `, `\\`, `\/\b\f\r\t`, "é", "日本語", "😀", `\u00e9`, `\ud83d\ude00`, `{"id":1},[`, "\u2028", "\x7f",
	`\ud83d`, `\ude00\ud83d`, `\ud83d\ud83d\ude00`, `\ud83dx`, `\x`, `\u12g4`, "\x01", "\t", "\r", "\n", "\xff", "\xed\xa0\x80", "\xf0\x9f\x98", "\"",
}

// rightFillings is the number of fillings at the start that are valid from both sides.
const rightFillings = 14

// swollen returns line with long texts inserted, most of them valid and inside strings.
func swollen(r *rand.Rand, line []byte) []byte {
	for range 1 + r.IntN(3) {
		at := r.IntN(len(line) + 1)
		if texts := beginnings(line); len(texts) > 0 && r.IntN(8) > 0 {
			at = texts[len(texts)-1-r.IntN((len(texts)+1)/2)]
		}
		wrong := r.IntN(8) == 0
		var text []byte
		for size := shortest/2 + r.IntN(1<<(6+r.IntN(10))); len(text) < size; {
			filling := fillings[r.IntN(rightFillings)]
			if wrong && r.IntN(20) == 0 {
				filling = fillings[r.IntN(len(fillings))]
			}
			text = append(text, strings.Repeat(filling, 1+r.IntN(40))...)
		}
		line = slices.Insert(bytes.Clone(line), at, text...)
	}
	return line
}

// beginnings returns the offsets of the texts in line.
func beginnings(line []byte) (all []int) {
	for at := 0; ; {
		i := bytes.IndexByte(line[at:], '"')
		if i < 0 {
			return all
		}
		at += i + 1
		all = append(all, at)
		at += stringLength(line[at:])
	}
}

// sameReading checks that a line that arrives in chunks of random sizes is read as Read
// does. It reports whether the skeleton was used.
func sameReading(t *testing.T, r *rand.Rand, line []byte) (skimmed bool) {
	t.Helper()
	var s skim
	for at := 0; at < len(line); at += 1 + r.IntN(1<<uint(1+r.IntN(17))) {
		s.feed(line[:at])
	}
	finished := s.finish(line)
	if _, torn := tears(line); finished && torn {
		t.Fatalf("%.2000q ends inside a string", line)
	}
	for _, from := range []Side{FromAgent, FromServer} {
		var got, want Envelope
		err := Read(line, from, &want)
		if !finished || !s.read(line, from, &got) {
			continue
		}
		skimmed = skimmed || len(s.cuts) > 0
		if err != nil || got != want {
			t.Fatalf("%.2000q\ngot  %+v\nwant %+v, %v", line, got, want, err)
		}
	}
	return skimmed
}

// A long line is accepted or refused like a short one.
//
//gotest:plain one goroutine reads megabytes
func TestLongLinesAreReadAlike(t *testing.T) {
	r := newRand(11)
	var lines [][]byte
	for _, c := range readCases {
		if len(c.line) < 4<<10 {
			lines = append(lines, []byte(c.line))
		}
	}
	for range 150 {
		line := randomMessage(r)
		long := []byte(call(`{"a":` + randomText(r) + `,"b":[` + randomText(r) + `, ` + randomText(r) + ` ] , "c":"" }`))
		lines = append(lines, line, mutated(r, line), long, mutated(r, long))
	}
	skimmed := 0
	for range 3 {
		for _, line := range lines {
			if sameReading(t, r, swollen(r, line)) {
				skimmed++
			}
		}
	}
	if skimmed < len(lines)/10 {
		t.Errorf("of %d lines %d were read by their skeleton", 3*len(lines), skimmed)
	}
}

// FuzzSkim is the same test with generated lines. A capital letter stands for a long
// text.
func FuzzSkim(f *testing.F) {
	for _, c := range readCases {
		if len(c.line) < 4<<10 {
			f.Add([]byte(c.line), uint64(len(c.line)))
		}
	}
	for i := range fillings {
		f.Add([]byte(call(`{"v":"`+string(rune('A'+i%26))+`"}`)), uint64(i))
	}
	f.Fuzz(func(t *testing.T, line []byte, seed uint64) {
		var long []byte
		for _, c := range line {
			if i := int(c) - 'A'; i >= 0 && i < 26 && len(long) < 1<<20 {
				long = append(long, strings.Repeat(fillings[(i+int(seed%64))%len(fillings)], 2*shortest)...)
			} else {
				long = append(long, c)
			}
		}
		sameReading(t, newRand(seed), long)
	})
}

// Every span of an envelope is moved to its place in the message.
func TestSpans(t *testing.T) {
	var e Envelope
	all := map[*Span]bool{}
	for _, s := range e.spans() {
		all[s] = true
	}
	v := reflect.ValueOf(&e).Elem()
	spans := 0
	for i := range v.NumField() {
		if s, ok := v.Field(i).Addr().Interface().(*Span); ok {
			if spans++; !all[s] {
				t.Errorf("%s is not among the spans", v.Type().Field(i).Name)
			}
		}
	}
	if spans != len(all) {
		t.Errorf("%d spans, want %d", len(all), spans)
	}
}

// longFlow returns a stream of many long lines, valid and invalid.
func longFlow(r *rand.Rand) []byte {
	text := func(n int) string { return strings.Repeat(`some \"text\" é\n`, n/16) }
	result := func(id, n int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%s"}]}}`, id, text(n))
	}
	lines := []string{
		result(1, 300<<10), `{"jsonrpc":"2.0","id":2,"result":{}}`, result(3, 70<<10) + "\r", "", result(4, 900<<10),
		`{"id":5,"result":{"t":"` + text(200<<10), text(100<<10) + `"}}`, result(6, 100<<10), // torn
		`{"jsonrpc":"2.0","result":{"t":"` + text(1200<<10) + `"},"id":7}`, // too long
		strings.Repeat(" ", 100<<10), result(8, 100<<10) + "\r ", strings.Repeat("[", 100<<10), strings.Repeat(`\"`, 100<<10),
		`{"jsonrpc":"2.0","id":9,"params":{"name":"` + text(100<<10) + `","name":""},"method":"tools/call"}`, `"` + text(100<<10),
		`{"jsonrpc":"2.0","id":"` + text(100<<10) + `","method":"tools/call"}`, result(10, 100<<10) + "{}", "log " + text(100<<10),
	}
	r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	flow := strings.Join(lines, "\n") + "\n"
	return []byte(flow[:len(flow)-r.IntN(2)*r.IntN(200<<10)]) // sometimes cut at the end
}

// A reader of long lines finds the same lines as any other reader.
//
//gotest:plain one goroutine reads megabytes byte by byte
func TestLongReader(t *testing.T) {
	const most = 1 << 20
	r := newRand(3)
	for range 5 {
		input := longFlow(r)
		plain := NewReader(bytes.NewReader(input), most)
		w := newWindow(&pieces{r: r, from: bytes.Clone(input)}, most)
		long := NewReaderOf(&w, most)
		skimmed := 0
		for n := 0; ; n++ {
			var want, got Line
			wantErr, err := plain.Next(&want), long.Next(&got)
			if err != wantErr {
				t.Fatalf("line %d: %v, want %v", n, err, wantErr)
			}
			if err == io.EOF {
				break
			}
			if got.skim != nil {
				skimmed++
			}
			got.skim, want.skim = nil, nil
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("line %d: %.200s, %+v\nwant %.200s, %+v", n, got.Data, got.Refusal, want.Data, want.Refusal)
			}
		}
		if skimmed == 0 {
			t.Error("no line has a skeleton")
		}
		long.Close()
		if w.buf != nil {
			t.Error("memory is held after Close")
		}
	}
}

func BenchmarkLongReader(b *testing.B) {
	for name, text := range map[string]string{
		"plain": strings.Repeat("x", 64), "lines": strings.Repeat("y", 40) + `\n`, "quotes": `some \"text\" and more of it `, "accents": "déjà vu, ça alors ", "CJK": "日本語の文章",
	} {
		b.Run(name, func(b *testing.B) {
			line := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat(text, 8<<20/len(text)) + `"}]}}` + "\n"
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			w := newWindow(&forever{unit: line, left: b.N * len(line)}, 0)
			r := NewReaderOf(&w, 0)
			defer r.Close()
			var l Line
			var e Envelope
			for r.Next(&l) == nil {
				if err := l.Read(FromServer, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
