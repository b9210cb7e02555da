package relay

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// drawEvent returns a random event that may happen to s.
func drawEvent(t *rapid.T, s *state) event {
	side := wire.Side(rapid.IntRange(0, 1).Draw(t, "side"))
	some := rapid.SliceOfN(rapid.Byte(), 1, 20)
	key := rapid.SampledFrom([]string{"1", "2", `"a"`, `"b"`}).Draw(t, "key")
	switch rapid.IntRange(1, 12).Draw(t, "kind") {
	case 1:
		return &consumed{side, s.taken[side] + rapid.Uint64Range(0, 100).Draw(t, "more")}
	case 2:
		return &framed{side, rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "state")}
	case 3:
		return &numbered{s.nextSeq(side)}
	case 4:
		if s.open[side][key] != nil {
			return &closed{which{side, key}}
		}
		return &opened{request{side: side, key: key, id: []byte(key), method: "tools/call", sent: 1, seq: s.seqs[side], token: some.Draw(t, "token")}}
	case 5:
		if s.open[side][key] != nil {
			return &written{which: which{side, key}, sent: 2, notice: "n", inspect: true, sentLine: some.Draw(t, "sent line")}
		}
	case 6:
		if s.open[side][key] != nil {
			return &cancelled{which{side, key}}
		}
	case 7:
		seq := rapid.Uint64Range(2, 9).Draw(t, "seq")
		if s.waiting[seq] != nil {
			return &decided{seq}
		}
		return &held{waiting{seq: seq, side: side, line: some.Draw(t, "line"), key: key, result: rapid.Bool().Draw(t, "result")}}
	case 8:
		return &queued{side, some.Draw(t, "owed"), rapid.Uint64Range(0, 9).Draw(t, "seq"), rapid.Bool().Draw(t, "reply")}
	case 9:
		return &passed{side, rapid.Uint64Range(0, 1000).Draw(t, "offset"), rapid.Uint64Range(1, 1000).Draw(t, "n")}
	case 10:
		return &ended{rapid.Uint64Range(2, 9).Draw(t, "seq"), "ok"}
	case 11:
		return &became{task: key, call: origin{rapid.Uint64Range(2, 9).Draw(t, "seq"), []byte("wrote")}, lost: rapid.Bool().Draw(t, "lost")}
	}
	return &began{rapid.Bool().Draw(t, "initialized"), rapid.Bool().Draw(t, "modern")}
}

// A rewritten journal leads to the same state, and so does each event that was encoded and
// decoded.
func TestStateSurvivesItsJournal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live, read := newState(), newState()
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			e := drawEvent(t, live)
			apply(t, live, e)
			apply(t, read, again(t, e))
			q := rapid.IntRange(0, 1).Draw(t, "drop")
			offset := live.out[q].start + rapid.Uint64Range(0, 50).Draw(t, "delivered")
			live.out[q].drop(offset)
			read.out[q].drop(offset)
		}
		sameState(t, "the events, encoded and read", read, live)
		anew := newState()
		for e := range live.events {
			apply(t, anew, again(t, e))
		}
		sameState(t, "the journal, written anew", anew, live)
	})
}

func apply(t *rapid.T, s *state, e event) {
	t.Helper()
	if err := e.apply(s); err != nil {
		t.Fatalf("apply %T %+v: %v", e, e, err)
	}
}

func again(t *rapid.T, e event) event {
	t.Helper()
	b := new(codec).encode(e)
	read, err := decode(b)
	if err != nil {
		t.Fatalf("decode %T %+v: %v", e, e, err)
	}
	if !bytes.Equal(new(codec).encode(read), b) {
		t.Fatalf("%T %+v was read as %+v", e, e, read)
	}
	return read
}

func sameState(t *rapid.T, what string, got, want *state) {
	t.Helper()
	for _, s := range []*state{got, want} {
		for side := range s.out {
			if len(s.out[side].items) == 0 {
				s.out[side].items = nil
			}
			if len(s.framed[side]) == 0 {
				s.framed[side] = nil
			}
		}
	}
	if !reflect.DeepEqual(got.out, want.out) || !reflect.DeepEqual(got.open, want.open) || !reflect.DeepEqual(got.waiting, want.waiting) ||
		got.taken != want.taken || got.seqs != want.seqs || !reflect.DeepEqual(got.framed, want.framed) ||
		!reflect.DeepEqual(got.outcomes, want.outcomes) || got.tasks.lost != want.tasks.lost || got.initialized != want.initialized || got.modern != want.modern {
		t.Fatalf("%s: the state is\n%+v\nwant\n%+v", what, got, want)
	}
}

// Any journal content is an error or an event that encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, e := range []event{
		&consumed{fromServer, 7}, &opened{request{key: "1", id: []byte("1"), method: "ping"}},
		&held{waiting{seq: 2, line: []byte("{}")}}, &became{task: "t", lost: true},
	} {
		f.Add(new(codec).encode(e))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decode(b)
		if err != nil {
			return
		}
		s := newState()
		_ = e.apply(s) // it may be impossible; it must not panic
		again, err := decode(new(codec).encode(e))
		if err != nil || !bytes.Equal(new(codec).encode(again), new(codec).encode(e)) {
			t.Errorf("%x is %+v, and then %+v (%v)", b, e, again, err)
		}
	})
}
