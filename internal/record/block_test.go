package record

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// plainly returns the expected index of entries, found by parsing every record.
func plainly(segment uint64, from int64, entries []Entry) (Block, map[string][]int64) {
	b := Block{Segment: segment, From: from, To: from}
	places := map[string][]int64{}
	for _, e := range entries {
		b.To = e.Offset + e.Size()
		r, err := Parse(e.Line)
		if err != nil {
			continue
		}
		if b.First == 0 {
			b.First, b.Since = r.Seq, r.Time
		}
		b.Last = max(b.Last, r.Seq)
		if r.Time.Before(b.Since) {
			b.Since = r.Time
		}
		if r.Time.After(b.Until) {
			b.Until = r.Time
		}
		for field, word := range map[string]string{"kind": string(r.Kind), "server": r.Server, "tool": r.Tool, "verdict": r.Verdict, "session": r.Session} {
			if word != "" {
				places[field+" "+word] = append(places[field+" "+word], e.Offset)
			}
		}
	}
	return b, places
}

// An index agrees with parsing every record, whatever strangers put into names and
// whatever was damaged.
func TestIndexSaysWhatTheRecordsSay(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Int64Range(0, 1<<40).Draw(t, "from")
		x := NewIndexer(3, from)
		var entries []Entry
		at := from
		for i := range rapid.IntRange(0, 12).Draw(t, "records") {
			r := genRecord().Draw(t, "record")
			r.Seq = uint64(i)
			r.Time = noon.Add(time.Duration(rapid.Int64Range(-1<<52, 1<<52).Draw(t, "later"))).Truncate(time.Microsecond)
			e := Entry{Offset: at, Line: r.Append(nil)}
			switch rapid.IntRange(0, 9).Draw(t, "damage") {
			case 0:
				e.Line[rapid.IntRange(0, len(e.Line)-1).Draw(t, "byte")] ^= 1
			case 1: // changed, with a correct checksum
				body := e.Line[:len(e.Line)-sealLen]
				body = append(body, rapid.SampledFrom([]string{
					`,"tool":"another"`, `,"time":"2026-02-31T00:00:00.000000Z"`, `,"time":"2026-11-20T24:00:00.000000Z"`, `,"time":"x"`,
					`,"kind":"\ud800"`, `,"kind":"\u0041"`, `,"new":["a","\ud800"]`, `,"new":["a",]`, `,"new":[ "a" ]`, `,"new":[]`, `,"new":tru`, `,"new":true`,
					`,"seq":07`, `,"seq":18446744073709551616`, `,"seq":18446744073709551615`, `,"tool":`, `,`,
				}).Draw(t, "more")...)
				e.Line = seal(body, 0)
			case 2:
				e.Values = []byte(`{"values":1}`)
			}
			entries = append(entries, e)
			at += e.Size()
			x.Add(e)
		}
		want, wantPlaces := plainly(3, from, entries)
		got, postings := x.Block()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		places := map[string][]int64{}
		for _, p := range postings {
			offsets, err := p.Offsets(got)
			if err != nil || p.Word == "" {
				t.Fatalf("%v: %+v", err, p)
			}
			places[p.Field+" "+p.Word] = offsets
		}
		if diff := cmp.Diff(wantPlaces, places); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// A field with too many values is not indexed; the others are.
func TestIndexOfTooManyWords(t *testing.T) {
	x := NewIndexer(1, 0)
	at := int64(0)
	for i := range maxWords + 1 {
		r := Record{Seq: uint64(i + 1), Kind: KindCall, Tool: fmt.Sprint("tool ", i)}
		e := Entry{Offset: at, Line: r.Append(nil)}
		x.Add(e)
		at += e.Size()
	}
	_, postings := x.Block()
	if len(postings) != 2 || postings[0].Word != "call" || postings[1].Field != "tool" || postings[1].Word != "" {
		t.Errorf("got %d postings", len(postings))
	}
}

// A repeated name costs the index no memory except for its offset.
func TestIndexerHardlyAllocates(t *testing.T) {
	r := typical(7)
	r.Facts, r.Forwarded, r.Time = []string{"secret", "acts"}, true, noon
	e := Entry{Line: r.Append(nil)}
	x := NewIndexer(1, 0)
	x.Add(e)
	if n := testing.AllocsPerRun(1000, func() {
		e.Offset += e.Size()
		x.Add(e)
	}); n > 2 {
		t.Errorf("%v allocations a record", n)
	}
}

func BenchmarkIndex(b *testing.B) {
	r := typical(1)
	r.Time = noon
	e := Entry{Line: r.Append(nil)}
	b.ReportAllocs()
	b.SetBytes(e.Size())
	x := NewIndexer(1, 0)
	for b.Loop() {
		if x.Size() > 4<<20 {
			x = NewIndexer(1, 0)
			e.Offset = 0
		}
		x.Add(e)
		e.Offset += e.Size()
	}

}
