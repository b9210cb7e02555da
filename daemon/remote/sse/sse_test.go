package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// all returns every event of a stream as text, and what the reader has learned besides.
func all(t testing.TB, r io.Reader, max int) (events []string, last string, retry time.Duration) {
	t.Helper()
	reader := NewReader(r, max)
	for {
		var e Event
		if err := reader.Next(&e); err == io.EOF {
			return events, reader.LastID(), reader.Retry()
		} else if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%s|%s|%q", e.Name, e.ID, e.Data)
		if e.TooLong {
			text += " too long"
		}
		events = append(events, text)
	}
}

func TestReader(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		want   []string
		last   string
		retry  time.Duration
	}{
		"line feeds":                 {stream: "data: a\n\ndata: b\n\n", want: []string{`||"a"`, `||"b"`}},
		"carriage returns":           {stream: "data: a\r\rdata: b\r\r", want: []string{`||"a"`, `||"b"`}},
		"both":                       {stream: "data: a\r\n\r\ndata: b\r\n\r\n", want: []string{`||"a"`, `||"b"`}},
		"mixed":                      {stream: "data: a\n\rdata: b\r\n\ndata: c\r\n\r", want: []string{`||"a"`, `||"b"`, `||"c"`}},
		"byte order mark":            {stream: "\ufeffdata: a\n\n", want: []string{`||"a"`}},
		"second byte order mark":     {stream: "\ufeff\ufeffdata: a\n\ndata: b\n\n", want: []string{`||"b"`}},
		"byte order mark in a line":  {stream: "data: a\n\n\ufeffdata: b\n\n", want: []string{`||"a"`}},
		"several lines":              {stream: "data: a\ndata:\ndata:  b\n\n", want: []string{`||"a\n\n b"`}},
		"no colon":                   {stream: "data\n\n", want: []string{`||""`}},
		"comments":                   {stream: ": keep\n:\ndata: a\n: data: b\n\n", want: []string{`||"a"`}},
		"unknown fields":             {stream: "Data: a\n data: b\nfoo: c\nid2: d\ndata: e\n\n", want: []string{`||"e"`}},
		"half a line":                {stream: "data: a\n\ndata: b", want: []string{`||"a"`}},
		"half an event":              {stream: "id: 1\ndata: a\n\nid: 2\ndata: b\n", want: []string{`|1|"a"`}, last: "1"},
		"names":                      {stream: "event: endpoint\ndata: /m\n\ndata: a\n\n", want: []string{`endpoint||"/m"`, `||"a"`}},
		"name of an event with none": {stream: "event: x\n\ndata: a\n\n", want: []string{`||"a"`}},
		"id without data":            {stream: "id: 7\n\n", last: "7"},
		"id with empty data":         {stream: "id: 7\ndata:\n\n", want: []string{`|7|""`}, last: "7"},
		"id stays":                   {stream: "id: 7\ndata: a\n\ndata: b\n\n", want: []string{`|7|"a"`, `|7|"b"`}, last: "7"},
		"id is reset":                {stream: "id: 7\ndata: a\n\nid\ndata: b\n\n", want: []string{`|7|"a"`, `||"b"`}},
		"id with NUL":                {stream: "id: 7\ndata: a\n\nid: 8\x00\ndata: b\n\n", want: []string{`|7|"a"`, `|7|"b"`}, last: "7"},
		"long id":                    {stream: "id: 7\ndata: a\n\nid: " + strings.Repeat("8", maxNameBytes+1) + "\ndata: b\n\n", want: []string{`|7|"a"`, `||"b"`}},
		"NUL in data":                {stream: "data: a\x00b\n\n", want: []string{`||"a\x00b"`}},
		"retry":                      {stream: "retry: 2500\n\n", retry: 2500 * time.Millisecond},
		"retry that is none":         {stream: "retry: 1\nretry: -5\nretry: +5\nretry: 5s\nretry:\nretry: 99999999999\n\n", retry: time.Millisecond},
		"as long as allowed":         {stream: "data: " + strings.Repeat("a", 64) + "\n\n", want: []string{`||"` + strings.Repeat("a", 64) + `"`}},
		"too long":                   {stream: "data: " + strings.Repeat("a", 65) + "\n\ndata: b\n\n", want: []string{`||"" too long`, `||"b"`}},
		"much too long":              {stream: "data: " + strings.Repeat("a", 5*bufferBytes) + "\r\rdata: b\n\n", want: []string{`||"" too long`, `||"b"`}},
		"too many lines":             {stream: strings.Repeat("data: 1234567\n", 10) + "\ndata: b\n\n", want: []string{`||"" too long`, `||"b"`}},
		"long comment":               {stream: ":" + strings.Repeat("a", 5*bufferBytes) + "\ndata: b\n\n", want: []string{`||"b"`}},
	} {
		t.Run(name, func(t *testing.T) {
			for way, r := range map[string]io.Reader{
				"whole": strings.NewReader(test.stream), "bytes": iotest.OneByteReader(strings.NewReader(test.stream)), "halves": iotest.HalfReader(strings.NewReader(test.stream)),
			} {
				events, last, retry := all(t, r, 64)
				if diff := cmp.Diff(test.want, events); diff != "" {
					t.Errorf("%s: events (-want +got):\n%s", way, diff)
				}
				if last != test.last || retry != test.retry {
					t.Errorf("%s: last id %q and retry %v, want %q and %v", way, last, retry, test.last, test.retry)
				}
			}
		})
	}
}

// An event is returned as soon as its last line end has arrived: a CR is not waited behind for an LF.
func TestReaderDoesNotWait(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r\n"} {
		from, to := io.Pipe()
		reader := NewReader(from, 64)
		for range 3 {
			go func() { _, _ = to.Write([]byte("data: a" + end)) }()
			var e Event
			if err := reader.Next(&e); err != nil || string(e.Data) != "a" {
				t.Errorf("%q: got %q, %v", end, e.Data, err)
			}
		}
		to.CloseWithError(errors.New("torn"))
		if err := reader.Next(&Event{}); err == nil || err.Error() != "torn" {
			t.Errorf("%q: got %v", end, err)
		}
	}
}

// endless is a stream of one line that never ends. It counts what was read.
type endless struct{ n int }

func (r *endless) Read(p []byte) (int, error) {
	if r.n >= 64<<20 {
		return 0, io.EOF
	}
	if r.n == 0 {
		r.n = copy(p, "data:")
		return r.n, nil
	}
	r.n += len(p)
	return copy(p, bytes.Repeat([]byte("a"), len(p))), nil
}

// A line without end takes no more memory than the limit.
func TestEventMemory(t *testing.T) {
	r := NewReader(&endless{}, 1<<20)
	if err := r.Next(&Event{}); err != io.EOF {
		t.Errorf("got %v", err)
	}
	if cap(r.line) > 4<<20 || cap(r.data) > 4<<20 {
		t.Errorf("the reader holds %d and %d bytes", cap(r.line), cap(r.data))
	}
}

// reference reads a whole stream as the HTML standard says it.
func reference(stream string, max int) (events []string) {
	stream = strings.TrimPrefix(stream, "\ufeff")
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(stream, "\n")
	var data, name, id string
	for _, line := range lines[:len(lines)-1] { // the last one has no end
		if line == "" {
			if data != "" {
				if text := strings.TrimSuffix(data, "\n"); len(text) > max {
					events = append(events, fmt.Sprintf("%s|%s|%q too long", name, id, ""))
				} else {
					events = append(events, fmt.Sprintf("%s|%s|%q", name, id, text))
				}
			}
			data, name = "", ""
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data += value + "\n"
		case "event":
			name = value
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		}
	}
	return events
}

func FuzzReader(f *testing.F) {
	for _, stream := range []string{"", "\ufeffdata: a\r\n\r\n: c\revent: x\rdata\ndata: b\n\n", "id: 1\x00\nid: 2\n\ndata:{}\r\r\n\ndata", "data: a\n\ufeff\n\n"} {
		f.Add(stream)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		if len(stream) > maxNameBytes {
			return
		}
		const max = maxNameBytes // nothing is too long
		want := reference(stream, max)
		for _, r := range []io.Reader{strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream))} {
			got, _, _ := all(t, r, max)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q (-reference +reader):\n%s", stream, diff)
			}
		}
	})
}
