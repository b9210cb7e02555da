package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"unicode/utf8"
)

// FuzzRead checks that Read never panics, and that the standard library decodes what it
// accepts to the same message.
func FuzzRead(f *testing.F) {
	for _, c := range readCases {
		if len(c.line) < 4<<10 {
			f.Add([]byte(c.line), c.from == FromServer)
		}
	}
	f.Fuzz(func(t *testing.T, line []byte, server bool) {
		from := FromAgent
		if server {
			from = FromServer
		}
		before := bytes.Clone(line)
		var e Envelope
		err := Read(line, from, &e)
		if !bytes.Equal(line, before) {
			t.Fatal("the line was changed")
		}
		if err != nil {
			checkRefusal(t, line, err)
			return
		}
		checkAccepted(t, line, &e)
	})
}

func checkRefusal(t *testing.T, line []byte, err error) {
	t.Helper()
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason == "" || refusal.Code == 0 {
		t.Fatalf("not a refusal: %#v", err)
	}
	if !refusal.ID.Present() {
		if refusal.Answer {
			t.Fatal("an answer to nobody")
		}
		return
	}
	if _, err := Key(refusal.ID.Of(line)); err != nil {
		t.Fatalf("the id %q has no key: %v", refusal.ID.Of(line), err)
	}
	if !json.Valid(refusal.ID.Of(line)) {
		t.Fatalf("the id %q is not JSON", refusal.ID.Of(line))
	}
}

func checkAccepted(t *testing.T, line []byte, e *Envelope) {
	t.Helper()
	if !utf8.Valid(line) || bytes.ContainsAny(line, "\r\n\x00") {
		t.Fatal("bytes got through that must not")
	}
	if got, want := goPlain(t, line), spansPlain(t, line, e); got != want {
		t.Fatalf("decodes to %s, is read as %s", got, want)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		t.Fatal(err)
	}
	for name, span := range map[string]Span{"id": e.ID, "params": e.Params, "result": e.Result, "error": e.Error} {
		if !bytes.Equal(span.Of(line), members[name]) {
			t.Fatalf("%s is at %q, want %q", name, span.Of(line), members[name])
		}
	}
	has := func(name string) bool { _, ok := members[name]; return ok }
	kinds := map[Kind]bool{
		Request: has("method") && has("id"), Notification: has("method") && !has("id"), Result: has("result") && has("id"), Error: has("error"),
	}
	for kind, is := range kinds {
		if is != (kind == e.Kind) {
			t.Fatalf("read as %v, is %v: %v", e.Kind, kind, is)
		}
	}
	if e.ID.Present() {
		checkKey(t, line, e)
	}
}

// checkKey checks that the key of an id distinguishes it from all others.
func checkKey(t *testing.T, line []byte, e *Envelope) {
	t.Helper()
	var id any
	d := json.NewDecoder(bytes.NewReader(e.ID.Of(line)))
	d.UseNumber()
	if err := d.Decode(&id); err != nil {
		t.Fatal(err)
	}
	want := ""
	switch id := id.(type) {
	case string:
		want = `"` + id
	case json.Number:
		want = string(id)
	}
	if got := e.Key(line); got != want {
		t.Fatalf("key %q, want %q", got, want)
	}
}

// FuzzReader checks that the messages found in a stream do not depend on the chunks in
// which it arrives, and that each is part of the input.
func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"a\":1}\n{\"b\":2}\r\n\n x\n"), uint64(1))
	f.Add([]byte("{\"v\":\"cut\n{\"id\":1}\n\"}\n{}"), uint64(2))
	f.Add(append(bytes.Repeat([]byte(`{"id":1,"method":"`), 30), "\n{}\n"...), uint64(3))
	f.Fuzz(func(t *testing.T, input []byte, seed uint64) {
		fuzzFraming(t, NDJSON{}, input, seed)
	})
}

// FuzzContentLength is FuzzReader for headers.
func FuzzContentLength(f *testing.F) {
	f.Add([]byte("Content-Length: 2\r\n\r\n{}content-length:3\nX-Y: z\n\n{ }"), uint64(1))
	f.Add([]byte("Content-Length: 300\r\n\r\n"), uint64(2))
	f.Add([]byte("\r\nContent-Length: -1\r\n\r\n"), uint64(3))
	f.Fuzz(func(t *testing.T, input []byte, seed uint64) {
		fuzzFraming(t, ContentLength{}, input, seed)
	})
}

// FuzzLength32 is FuzzReader for lengths of four bytes.
func FuzzLength32(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}\x00\x00\x00\x00\x00\x00\x00\x01x"), uint64(1))
	f.Add([]byte("\x00\x00\x01\x00{}"), uint64(2))
	f.Add([]byte("\xff\xff\xff\xff"), uint64(3))
	f.Fuzz(func(t *testing.T, input []byte, seed uint64) {
		fuzzFraming(t, Length32{}, input, seed)
	})
}

const fuzzMax = 120

func fuzzFraming(t *testing.T, framing Framing, input []byte, seed uint64) {
	t.Helper()
	whole, wholeErr := readAll(t, framing.NewReader(bytes.NewReader(input), fuzzMax))
	parts, partsErr := readAll(t, framing.NewReader(&pieces{r: newRand(seed), from: bytes.Clone(input)}, fuzzMax))
	if len(whole) != len(parts) || errText(wholeErr) != errText(partsErr) {
		t.Fatalf("at once: %q, %v\nin pieces: %q, %v", whole, wholeErr, parts, partsErr)
	}
	for i := range whole {
		if whole[i] != parts[i] {
			t.Fatalf("message %d: %q at once, %q in pieces", i, whole[i], parts[i])
		}
	}
	checkFramed(t, framing, input)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// checkFramed checks that messages are parts of the input, and are written as they were
// read.
func checkFramed(t *testing.T, framing Framing, input []byte) {
	t.Helper()
	r := framing.NewReader(bytes.NewReader(input), fuzzMax)
	var l Line
	var out []byte
	var bodies [][]byte
	for r.Next(&l) == nil {
		if !bytes.Contains(input, l.Data) || len(l.Data) > max(fuzzMax, keptPrefix) {
			t.Fatalf("%q was not in the input", l.Data)
		}
		if l.TooLong || bytes.ContainsAny(l.Data, "\r") {
			continue
		}
		var err error
		if out, err = appendFrame(framing, out, l.Data); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, bytes.Clone(l.Data))
	}
	again := framing.NewReader(bytes.NewReader(out), fuzzMax)
	for _, body := range bodies {
		if err := again.Next(&l); err != nil || !bytes.Equal(l.Data, body) {
			t.Fatalf("%q came back as %q, %v", body, l.Data, err)
		}
	}
	if err := again.Next(&l); err != io.EOF {
		t.Fatalf("something was added: %q, %v", l.Data, err)
	}
}

// FuzzList checks that removing elements from a list leaves a readable line and does not
// change any other byte.
func FuzzList(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[ {"name":"a"} , {"name":"b"},{"name":"c"} ],"nextCursor":"x"}}`), uint8(5))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[1,"x",[],{}]}}`), uint8(2))
	f.Fuzz(func(t *testing.T, line []byte, drop uint8) {
		var e Envelope
		if Read(line, FromServer, &e) != nil || e.Kind != Result {
			return
		}
		list, err := ReadList(line, &e, "tools")
		if err != nil {
			return
		}
		gone := func(i int) bool { return i < 8 && drop>>i&1 == 1 }
		cut, err := Splice(line, list.Items.Cut(gone)...)
		if err != nil {
			t.Fatal(err)
		}
		var left Envelope
		if err := Read(cut, FromServer, &left); err != nil {
			t.Fatalf("%s: %v", cut, err)
		}
		after, err := ReadList(cut, &left, "tools")
		if err != nil {
			t.Fatalf("%s: %v", cut, err)
		}
		j := 0
		for i, item := range list.Items {
			if gone(i) {
				continue
			}
			if j >= len(after.Items) || !bytes.Equal(after.Items[j].Of(cut), item.Of(line)) {
				t.Fatalf("element %d was changed in %s", i, cut)
			}
			j++
		}
		if j != len(after.Items) {
			t.Fatalf("%d elements are left of %d", len(after.Items), j)
		}
		if !bytes.HasPrefix(line, cut[:list.Span.Start]) || !bytes.HasSuffix(line, cut[after.Span.End:]) {
			t.Fatalf("bytes outside of the list were changed: %s", cut)
		}
	})
}
