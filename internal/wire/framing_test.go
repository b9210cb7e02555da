package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
)

func TestContentLength(t *testing.T) {
	long := `{"id":3,"method":"m","params":{"v":"` + strings.Repeat("x", 90) + `"} } `
	headers := strings.Repeat("X-Padding: y\r\n", headerLines+1)
	tests := []struct {
		name  string
		input string
		want  []string
		end   error
	}{
		{"nothing", "", nil, io.EOF},
		{"two", "Content-Length: 2\r\n\r\n{}Content-Length: 7\r\n\r\n{\"a\":1}", []string{"{}", `{"a":1}`}, io.EOF},
		{"case and blanks", "cONTENT-lENGTH \t:\t 2 \r\n\r\n{}", []string{"{}"}, io.EOF},
		{"other headers", "Content-Type: application/json\r\nContent-Length: 2\r\nX: : y\r\n\r\n{}", []string{"{}"}, io.EOF},
		{"LF only", "Content-Length: 2\n\n{}", []string{"{}"}, io.EOF},
		{"line breaks in the body", "Content-Length: 6\r\n\r\n{\r\n\r\n}", []string{"{\r\n\r\n}"}, io.EOF},
		{"empty body", "Content-Length: 0\r\n\r\nContent-Length: 2\r\n\r\n{}", []string{"", "{}"}, io.EOF},
		{"as long as may be", "Content-Length: 100\r\n\r\n" + strings.Repeat("z", 100), []string{strings.Repeat("z", 100)}, io.EOF},
		{"too long", fmt.Sprintf("Content-Length: %d\r\n\r\n%sContent-Length: 2\r\n\r\n{}", len(long), long), nil, ErrFraming},

		{"no length", "Content-Type: x\r\n\r\n{}", nil, ErrFraming},
		{"no header", "\r\n{}", nil, ErrFraming},
		{"two lengths", "Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}", nil, ErrFraming},
		{"no number", "Content-Length: two\r\n\r\n{}", nil, ErrFraming},
		{"negative", "Content-Length: -2\r\n\r\n{}", nil, ErrFraming},
		{"signed", "Content-Length: +2\r\n\r\n{}", nil, ErrFraming},
		{"empty", "Content-Length:\r\n\r\n{}", nil, ErrFraming},
		{"beyond 64 bits", "Content-Length: 99999999999999999999\r\n\r\n{}", nil, ErrFraming},
		{"absurd", "Content-Length: 1073741825\r\n\r\n{}", nil, ErrFraming},
		{"a line of JSON", "{}\nContent-Length: 2\r\n\r\n{}", nil, ErrFraming},
		{"a line that is too long", "Content-Length: 2\r\nX: " + strings.Repeat("y", headerLine) + "\r\n\r\n{}", nil, ErrFraming},
		{"too many lines", headers + "Content-Length: 2\r\n\r\n{}", nil, ErrFraming},
		{"end in a header", "Content-Length: 2\r\n", nil, io.ErrUnexpectedEOF},
		{"end in a header line", "Content-Le", nil, io.ErrUnexpectedEOF},
		{"end in the body", "Content-Length: 2\r\n\r\n{}Content-Length: 5\r\n\r\n{}", []string{"{}"}, io.ErrUnexpectedEOF},
		{"end in a body that is too long", "Content-Length: 500\r\n\r\n{}", nil, ErrFraming},
	}
	for _, test := range tests {
		for way, input := range chunked(test.input) {
			t.Run(test.name+"/"+way, func(t *testing.T) {
				got, err := readAll(t, ContentLength{}.NewReader(input, 100))
				checkStream(t, got, test.want, err, test.end)
			})
		}
	}
}

func TestLength32(t *testing.T) {
	tests := []struct {
		name  string
		input string
		want  []string
		end   error
	}{
		{"nothing", "", nil, io.EOF},
		{"two", "\x00\x00\x00\x02{}\x00\x00\x00\x03abc", []string{"{}", "abc"}, io.EOF},
		{"empty body", "\x00\x00\x00\x00\x00\x00\x00\x01x", []string{"", "x"}, io.EOF},
		{"any bytes", "\x00\x00\x00\x04\x00\n\r\xff", []string{"\x00\n\r\xff"}, io.EOF},
		{"too long", "\x00\x00\x01\x2c" + strings.Repeat("y", 300) + "\x00\x00\x00\x01x", nil, ErrFraming},
		{"absurd", "PRI * HTTP/2.0\r\n", nil, ErrFraming},
		{"end in the length", "\x00\x00", nil, io.ErrUnexpectedEOF},
		{"end in the body", "\x00\x00\x00\x05abc", nil, io.ErrUnexpectedEOF},
	}
	for _, test := range tests {
		for way, input := range chunked(test.input) {
			t.Run(test.name+"/"+way, func(t *testing.T) {
				got, err := readAll(t, Length32{}.NewReader(input, 100))
				checkStream(t, got, test.want, err, test.end)
			})
		}
	}
}

func checkStream(t *testing.T, got, want []string, err, end error) {
	t.Helper()
	if !errors.Is(err, end) {
		t.Errorf("ended with %v, want %v", err, end)
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An announced length allocates nothing until bytes arrive.
func TestAnnouncedLengthIsNotAllocated(t *testing.T) {
	r := Length32{}.NewReader(strings.NewReader("\x00\x9f\xff\xff{}"), 0).(*lengthReader)
	var l Line
	if err := r.Next(&l); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if cap(r.buf) > smallBuffer {
		t.Errorf("%d bytes were allocated", cap(r.buf))
	}
}

// recorder records each write, and fails after some of them.
type recorder struct {
	writes []string
	fail   int
}

var errPipe = errors.New("broken pipe")

func (r *recorder) Write(p []byte) (int, error) {
	if r.fail > 0 && len(r.writes) >= r.fail {
		return 0, errPipe
	}
	r.writes = append(r.writes, string(p))
	return len(p), nil
}

func TestWriter(t *testing.T) {
	frames := map[Framing][2]string{
		NDJSON{}:        {"", "\n"},
		ContentLength{}: {"Content-Length: 7\r\n\r\n", ""},
		Length32{}:      {"\x00\x00\x00\x07", ""},
	}
	for framing, around := range frames {
		var r recorder
		w := NewWriter(&r, framing)
		if err := w.Write([]byte(`{"a":1}`)); err != nil {
			t.Fatal(err)
		}
		if want := around[0] + `{"a":1}` + around[1]; len(r.writes) != 1 || r.writes[0] != want {
			t.Errorf("%T: wrote %q, want %q in one write", framing, r.writes, want)
		}

		large := []byte(`{"v":"` + strings.Repeat("v", 1<<20) + `"}`)
		r.writes = nil
		if err := w.Write(large); err != nil {
			t.Fatal(err)
		}
		want, _ := appendFrame(framing, nil, large)
		if strings.Join(r.writes, "") != string(want) {
			t.Errorf("%T: a large message came out changed", framing)
		}
		if cap(w.buf) > 2*keptBuffer {
			t.Errorf("%T: a buffer of %d bytes is kept", framing, cap(w.buf))
		}
	}
}

// appendFrame appends body as one frame to dst.
func appendFrame(f Framing, dst, body []byte) ([]byte, error) {
	head, tail, err := f.around(nil, body)
	return append(append(append(dst, head...), body...), tail...), err
}

func TestWriterRefuses(t *testing.T) {
	var r recorder
	w := NewWriter(&r, NDJSON{})
	for _, body := range []string{"", " \t", "{\n}", "{}\n", "{}\r"} {
		if err := w.Write([]byte(body)); err == nil {
			t.Errorf("%q was framed", body)
		}
	}
	if err := w.Write([]byte("{}")); err != nil || len(r.writes) != 1 {
		t.Errorf("after a refusal: %v, %q", err, r.writes)
	}
}

func TestWriterFails(t *testing.T) {
	r := recorder{fail: 1}
	w := NewWriter(&r, ContentLength{})
	large := bytes.Repeat([]byte("x"), keptBuffer+1)
	if err := w.Write(large); !errors.Is(err, errPipe) {
		t.Fatalf("got %v", err)
	}
	r.fail = 0
	if err := w.Write([]byte("{}")); !errors.Is(err, errPipe) || len(r.writes) != 1 {
		t.Errorf("after half a frame: %v, and %d writes", err, len(r.writes))
	}
}

func TestWriterConcurrent(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, ContentLength{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			body := bytes.Repeat([]byte{byte('a' + i)}, 1<<uint(3*i)) // up to 2 MiB
			for range 3 {
				if err := w.Write(body); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	r := ContentLength{}.NewReader(&out, 0)
	var l Line
	n := 0
	for r.Next(&l) == nil {
		if n++; len(bytes.Trim(l.Data, string(l.Data[:1]))) > 0 {
			t.Error("two messages were mixed")
		}
	}
	if n != 24 {
		t.Errorf("%d messages came out", n)
	}
}

// A message that is too long ends the stream as soon as its length is read.
func TestAnnouncedTooLong(t *testing.T) {
	for _, test := range []struct {
		framing Framing
		stream  string
	}{
		{ContentLength{}, "Content-Length: 2\r\n\r\n{}Content-Length: 11\r\n\r\n{"},
		{Length32{}, "\x00\x00\x00\x02{}\x00\x00\x00\x0b{"},
	} {
		r := test.framing.NewReader(bytes.NewReader([]byte(test.stream)), 10)
		var l Line
		if err := r.Next(&l); err != nil || string(l.Data) != "{}" {
			t.Errorf("%T: %q, %v", test.framing, l.Data, err)
		}
		if err := r.Next(&l); !errors.Is(err, ErrFraming) || !strings.Contains(err.Error(), "11 bytes") {
			t.Errorf("%T: %v, want ErrFraming", test.framing, err)
		}
	}
}
