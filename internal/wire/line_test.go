package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// flow returns a description of a line: its content, then its flags.
func flow(l *Line) string {
	s := string(l.Data)
	if l.TooLong {
		s = fmt.Sprintf("too long id=%s answers=%v", l.ID, l.Answers)
	} else if l.Refusal != nil {
		s += " -> " + l.Refusal.Reason
	}
	if !l.Terminated {
		s += " (not terminated)"
	}
	return s
}

// readAll reads all messages of r.
func readAll(t *testing.T, r LineReader) (got []string, err error) {
	t.Helper()
	var l Line
	for {
		if err := r.Next(&l); err != nil {
			if err2 := r.Next(&l); err2 != err && !errors.Is(err, ErrFraming) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("after %v comes %v", err, err2)
			}
			return got, err
		}
		got = append(got, flow(&l))
	}
}

// chunked returns readers that deliver text in different chunks.
func chunked(text string) map[string]io.Reader {
	r := rand.New(rand.NewPCG(1, uint64(len(text))))
	var pieces []io.Reader
	for rest := text; len(rest) > 0; {
		n := min(1+r.IntN(7), len(rest))
		pieces = append(pieces, strings.NewReader(rest[:n]))
		rest = rest[n:]
	}
	return map[string]io.Reader{
		"at once":         strings.NewReader(text),
		"byte by byte":    iotest.OneByteReader(strings.NewReader(text)),
		"by halves":       iotest.HalfReader(strings.NewReader(text)),
		"end with data":   iotest.DataErrReader(strings.NewReader(text)),
		"in odd pieces":   io.MultiReader(pieces...),
		"reads of naught": &stutter{r: strings.NewReader(text)},
	}
}

// stutter is a reader whose every other Read returns nothing.
type stutter struct {
	r    io.Reader
	turn bool
}

func (s *stutter) Read(p []byte) (int, error) {
	if s.turn = !s.turn; s.turn || len(p) == 0 {
		return 0, nil
	}
	return s.r.Read(p[:1])
}

func TestReader(t *testing.T) {
	const in = " -> inside a string that an earlier line began"
	long := strings.Repeat("x", 90)
	tests := []struct {
		name  string
		input string
		want  []string
	}{
		{"nothing", "", nil},
		{"lines", "{\"a\":1}\n{\"b\":2}\n", []string{`{"a":1}`, `{"b":2}`}},
		{"CRLF", "{\"a\":1}\r\n{\"b\":2}\r\n", []string{`{"a":1}`, `{"b":2}`}},
		{"a CR too many stays", "{\"a\":1}\r\r\n", []string{"{\"a\":1}\r"}},
		{"CR without LF stays", "{\"a\":1}\r{\"b\":2}\n", []string{"{\"a\":1}\r{\"b\":2}"}},
		{"blank lines", "\n \t\n\r\n{\"a\":1}\n\n  \r\n", []string{`{"a":1}`}},
		{"outer blanks stay", " {\"a\":1}\t\n", []string{" {\"a\":1}\t"}},
		{"form feed is not blank", "\f\n", []string{"\f"}},
		{"not terminated (EC-STDIO-027)", "{\"a\":1}\n{\"b\":", []string{`{"a":1}`, `{"b": (not terminated)`}},
		{"not terminated, after it was moved", "0\n0001", []string{"0", "0001 (not terminated)"}},
		{"not terminated, whole", "{\"a\":1}", []string{`{"a":1} (not terminated)`}},
		{"not terminated, CR", "{\"a\":1}\r", []string{"{\"a\":1}\r (not terminated)"}},
		{"not terminated, blank", "{\"a\":1}\n \t", []string{`{"a":1}`}},

		{"as long as may be", strings.Repeat("y", 100) + "\n" + strings.Repeat("z", 100) + "\r\n", []string{strings.Repeat("y", 100), strings.Repeat("z", 100)}},
		{"one byte more", strings.Repeat("y", 101) + "\n{}\n", []string{"too long id= answers=false", "{}"}},
		{"too long, id before (EC-STDIO-014)", `{"jsonrpc":"2.0","id":34,"method":"m","params":{"v":"` + long + "\"}}\n{}\n", []string{"too long id=34 answers=false", "{}"}},
		{"too long, id after", `{"method":"m","params":{"v":"` + long + `"},"jsonrpc":"2.0","id" : "a\u0041" }` + "\n{}\n", []string{`too long id="a\u0041" answers=false`, "{}"}},
		{"too long, id only inside", `{"method":"m","params":{"id":9,"v":"` + long + `"},"jsonrpc":"2.0"}` + "\n{}\n", []string{"too long id= answers=false", "{}"}},
		{"too long, an id in a string", `{"method":"m","params":{"v":"\",\"id\":9,\"` + long + `"},"jsonrpc":"2.0"}` + "\n{}\n", []string{"too long id= answers=false", "{}"}},
		{"too long, two ids", `{"id":1,"method":"m","params":{"v":"` + long + `"},"id":2}` + "\n{}\n", []string{"too long id= answers=false", "{}"}},
		{"too long, an answer", `{"result":{"v":"` + long + `"},"jsonrpc":"2.0","id":8}` + "\n{}\n", []string{"too long id=8 answers=true", "{}"}},
		{"too long, an error", `{"id":8,"error":{"code":1,"message":"` + long + "\"}}\n{}\n", []string{"too long id=8 answers=true", "{}"}},
		{"too long, a batch", `[{"id":8,"method":"` + long + "\"}]\n{}\n", []string{"too long id= answers=false", "{}"}},
		{"too long, brackets in strings", `{"id":"}]","method":"m","params":{"v":"}}}[[` + long + "\"}}\n{}\n", []string{`too long id="}]" answers=false`, "{}"}},
		{"too long, garbage", long + long + `{"id":8,"method":"m"}` + "\n{}\n", []string{"too long id= answers=false", "{}"}},
		{"too long, not terminated", `{"id":5,"method":"m","params":{"v":"` + long + long, []string{"too long id=5 answers=false (not terminated)"}},
		{"too long, id cut", `{"method":"m","params":{"v":"` + long + `"},"id":12`, []string{"too long id= answers=false (not terminated)"}},

		{"a message in a string (EC-STDIO-018)", "{\"id\":1,\"result\":{\"t\":\"say\n{\"id\":2,\"result\":{\"t\":\"evil\"}}\nso\"}}\n{}\n",
			[]string{`{"id":1,"result":{"t":"say`, `{"id":2,"result":{"t":"evil"}}` + in, `so"}}` + in, "{}"}},
		{"many messages in a string", "{\"id\":1,\"result\":{\"t\":\"\n{\"id\":2}\n{\"id\":3}\n{\"id\":4}\n\"}}\n{}\n",
			[]string{`{"id":1,"result":{"t":"`, `{"id":2}` + in, `{"id":3}` + in, `{"id":4}` + in, `"}}` + in, "{}"}},
		{"a quotation in the string", "{\"id\":1,\"result\":{\"t\":\"\nhe said \"go\" and\n{\"id\":2}\n\"}}\n{}\n",
			[]string{`{"id":1,"result":{"t":"`, `he said "go" and` + in, `{"id":2}` + in, `"}}` + in, "{}"}},
		{"a stray quote in the string", "{\"id\":1,\"result\":{\"t\":\"\n5\" wide\n\"}}\n{}\n",
			[]string{`{"id":1,"result":{"t":"`, `5" wide` + in, `"}}` + in, "{}"}},
		{"more members after the string", "{\"id\":1,\"result\":{\"t\":\"a\nb\",\"u\":[1]}}\n{}\n",
			[]string{`{"id":1,"result":{"t":"a`, `b","u":[1]}}` + in, "{}"}},
		{"ends in a backslash", "{\"id\":1,\"v\":\"a\\\n\"}\n{}\n", []string{`{"id":1,"v":"a\`, `"}` + in, "{}"}},
		{"escaped quotes", "{\"v\":\"a\\\"\"}\n{\"v\":\"a\\\\\"}\n{}\n", []string{`{"v":"a\""}`, `{"v":"a\\"}`, "{}"}},
		{"a stray quote in a log line", "it is 5\" wide\n[x] 5\"\n{}\n", []string{`it is 5" wide`, `[x] 5"`, "{}"}},
		{"the end of something that was not there", "\"}]}}\n{}\n", []string{`"}]}}`, "{}"}},
		{"a batch in a string", "[{\"id\":1,\"v\":\"a\n{\"id\":2}\n\"}]\n{}\n", []string{`[{"id":1,"v":"a`, `{"id":2}` + in, `"}]` + in, "{}"}},
		{"what the text closes is not all that is open", "{\"id\":1,\"result\":{\"c\":[{\"t\":\"say\n\"}\n{\"id\":2}\n]}\n{\"id\":3}\n}\n{}\n",
			[]string{`{"id":1,"result":{"c":[{"t":"say`, `"}` + in, `{"id":2}` + in, `]}` + in, `{"id":3}` + in, `}` + in, "{}"}},
		{"everything was closed before the string", "{\"v\":1}\"cut\n{\"id\":2}\n{\"id\":3}\n\"}\n{}\n",
			[]string{`{"v":1}"cut`, `{"id":2}` + in, `{"id":3}` + in, `"}` + in, "{}"}},
		{"backslashes before the quote", "{\"v\":\"a\\\\\"}\n{\"v\":\"a\\\\\\\"}\n{\"id\":2}\n\"}\n{}\n",
			[]string{`{"v":"a\\"}`, `{"v":"a\\\"}`, `{"id":2}` + in, `"}` + in, "{}"}},
		{"too long, and what the text closes is not all", `{"id":1,"result":{"c":[{"t":"` + long + "\n\"}\n{\"id\":2}\n]}}\n{}\n",
			[]string{"too long id=1 answers=true", `"}` + in, `{"id":2}` + in, `]}}` + in, "{}"}},
		{"too long, and no message before a quote", "it is 5\" wide" + long + "\n{\"id\":2}\n", []string{"too long id= answers=false", `{"id":2}`}},
		{"too long and ends in a string", `{"id":1,"v":"` + long + "\n{\"id\":2}\n\"}\n{}\n", []string{"too long id= answers=false", `{"id":2}` + in, `"}` + in, "{}"}},
	}
	for _, test := range tests {
		for way, input := range chunked(test.input) {
			t.Run(test.name+"/"+way, func(t *testing.T) {
				got, err := readAll(t, NewReader(input, 100))
				if err != io.EOF {
					t.Errorf("ended with %v", err)
				}
				if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
					t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(test.want, "\n\t"))
				}
			})
		}
	}
}

// A peer with one line that was cut inside a string is not cut off for good.
func TestReaderRecovers(t *testing.T) {
	input := "{\"id\":1,\"v\":\"cut\n" + strings.Repeat("{\"id\":2,\"v\":\"whole\"}\n", 3*mostTornLines)
	got, _ := readAll(t, NewReader(strings.NewReader(input), 0))
	if len(got) != 3*mostTornLines+1 {
		t.Fatalf("%d lines", len(got))
	}
	if last := got[len(got)-1]; last != `{"id":2,"v":"whole"}` {
		t.Errorf("the last line is refused still: %s", last)
	}
}

func TestReaderError(t *testing.T) {
	broken := errors.New("broken pipe")
	r := NewReader(io.MultiReader(strings.NewReader("{}\n{\"half"), iotest.ErrReader(broken)), 0)
	var l Line
	if err := r.Next(&l); err != nil || string(l.Data) != "{}" {
		t.Fatalf("%q, %v", l.Data, err)
	}
	if err := r.Next(&l); err != broken {
		t.Errorf("got %v, want %v", err, broken)
	}
	if err := NewReader(still{}, 0).Next(&l); err != io.ErrNoProgress {
		t.Errorf("a source that gives nothing: %v", err)
	}
}

type still struct{}

func (still) Read([]byte) (int, error) { return 0, nil }

// forever is an endless reader that repeats the same bytes and counts them.
type forever struct {
	unit string
	left int
	at   int
}

func (f *forever) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) && f.left > 0 {
		rest := f.unit[f.at:]
		c := copy(p[n:], rest[:min(len(rest), f.left)])
		f.at = (f.at + c) % len(f.unit)
		n, f.left = n+c, f.left-c
	}
	return n, nil
}

// Memory stays bounded if a peer writes without a newline forever, and shrinks after a
// large message.
//
//gotest:plain one goroutine reads a hundred megabytes
func TestReaderMemory(t *testing.T) {
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for _, unit := range []string{"x", `{"id":1,"params":{"a`, `"`, `[`, `\"`, `{"id":"`} {
		before := heap()
		r := NewReader(io.MultiReader(&forever{unit: strings.Repeat(unit, 1000), left: MaxMessage + 1<<20}, strings.NewReader("\n\"}{}\n{}\n")), 0)
		var l Line
		if err := r.Next(&l); err != nil || !l.TooLong {
			t.Fatalf("%q: %v, too long %v", unit, err, l.TooLong)
		}
		if grown := heap() - before; grown > 256<<10 {
			t.Errorf("%q: %d bytes are held after a line that is too long", unit, grown)
		}
		if cap(r.window.(*window).buf) > keptBuffer {
			t.Errorf("%q: a buffer of %d bytes is kept", unit, cap(r.window.(*window).buf))
		}
	}

	before := heap()
	r := NewReader(io.MultiReader(&forever{unit: strings.Repeat("x", 1000), left: MaxMessage}, strings.NewReader("\n{}\n")), 0)
	var l Line
	if err := r.Next(&l); err != nil || len(l.Data) != MaxMessage {
		t.Fatalf("%d bytes, %v", len(l.Data), err)
	}
	if err := r.Next(&l); err != nil || string(l.Data) != "{}" {
		t.Fatalf("%q, %v", l.Data, err)
	}
	if grown := heap() - before; grown > 256<<10 {
		t.Errorf("%d bytes are held after a large message", grown)
	}
	runtime.KeepAlive(r)
}

// Any message is read as it was written, whatever the chunks it arrives in.
func TestReaderRoundTrip(t *testing.T) {
	r := newRand(7)
	var want [][]byte
	var input bytes.Buffer
	for size := 1; size < 3<<20; size = size*3 + r.IntN(9) {
		text := call(`{"v":"` + strings.Repeat("é\\n", size/4) + `"}`)
		want = append(want, []byte(text))
		input.WriteString(text + "\n")
	}
	reader := NewReader(&pieces{r: r, from: input.Bytes()}, 0)
	var l Line
	for i, w := range want {
		if err := reader.Next(&l); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(l.Data, w) {
			t.Fatalf("message %d of %d bytes came out changed", i, len(w))
		}
	}
}

// pieces is a reader that delivers bytes in chunks of random sizes.
type pieces struct {
	r    *rand.Rand
	from []byte
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.from) == 0 {
		return 0, io.EOF
	}
	n := copy(to, p.from[:min(len(p.from), 1+p.r.IntN(1<<uint(p.r.IntN(18))))])
	p.from = p.from[n:]
	return n, nil
}

func TestPredicates(t *testing.T) {
	if !IsHTTP2Preface([]byte("PRI * HTTP/2.0")) || IsHTTP2Preface([]byte("GET / HTTP/1.1")) {
		t.Error("IsHTTP2Preface")
	}
	for line, want := range map[string]bool{
		"Content-Length: 12": true, "content-length:12": true, "CONTENT-TYPE: x": true,
		"Content-Length": false, `{"Content-Length: 12"}`: false, "": false,
	} {
		if IsHeader([]byte(line)) != want {
			t.Errorf("IsHeader(%q) is %v", line, !want)
		}
	}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }

func BenchmarkReader(b *testing.B) {
	for name, line := range map[string]string{
		"1KB": call(`{"path":"` + strings.Repeat("p", 900) + `"}`),
		"8MB": `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"blob","data":"` + strings.Repeat("QUJD", 2<<20) + `"}]}}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(line)) + 1)
			b.ReportAllocs()
			r := NewReader(&forever{unit: line + "\n", left: b.N * (len(line) + 1)}, 0)
			var l Line
			var e Envelope
			for r.Next(&l) == nil {
				if err := Read(l.Data, FromServer, &e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
