package stream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

const logID = "LOG"

// entriesOf returns a log of n records; note is in each of them.
func entriesOf(n int, note string) []record.Entry {
	var all []record.Entry
	var chain record.Chain
	for i := range n {
		r := record.Record{V: record.Version, Kind: record.KindCall, Verdict: record.Forward, Time: time.Unix(int64(i), 0), Reason: note}
		if i == 0 {
			r.Kind, r.Log, r.Verdict = record.KindLog, logID, ""
		}
		all, chain = appendRecord(all, chain, &r)
	}
	return all
}

func appendRecord(all []record.Entry, chain record.Chain, r *record.Record) ([]record.Entry, record.Chain) {
	line, next := chain.Append(nil, r, nil)
	return append(all, record.Entry{Line: bytes.TrimSuffix(line, []byte("\n"))}), next
}

func chainOf(t *testing.T, e record.Entry) record.Chain {
	t.Helper()
	c, ok := record.After(e)
	if !ok {
		t.Fatal("a record of the test is damaged")
	}
	return c
}

func TestBatch(t *testing.T) {
	all := entriesOf(MaxRecords+1, "")
	var b Batch
	for i, e := range all {
		if added := b.Add(uint64(i+1), e.Line, []byte(fmt.Sprintf(`{"values":%d,"x":1}`, i+1))); added != (i < MaxRecords) {
			t.Fatalf("record %d: added %v", i+1, added)
		}
	}
	if !b.IsFull() || b.First != 1 || b.Last != MaxRecords || b.Len() != MaxRecords {
		t.Fatalf("records %d to %d", b.First, b.Last)
	}
	packed, err := b.Pack()
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	err = Unpack(packed, func(e record.Entry) error {
		if !bytes.Equal(e.Line, all[i].Line) || !strings.HasPrefix(string(e.Values), fmt.Sprintf(`{"values":%d,`, i+1)) {
			t.Errorf("record %d is not the one that was packed", i+1)
		}
		i++
		return nil
	})
	if err != nil || i != MaxRecords {
		t.Errorf("%d records, %v", i, err)
	}
	if last, err := Last(packed); err != nil || last != chainOf(t, all[MaxRecords-1]) {
		t.Errorf("Last = %v, %v", last, err)
	}
	b.Reset()
	if !b.Add(1, make([]byte, 2<<20), nil) || b.Add(2, []byte("x"), nil) {
		t.Error("a long record must have a batch of its own")
	}
}

// What somebody else has packed takes bounded memory, and is refused if it is not a batch.
func TestUnpackRefused(t *testing.T) {
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	line := append(entriesOf(1, "")[0].Line, '\n')
	one := enc.EncodeAll(line, nil)
	bomb := enc.EncodeAll(make([]byte, maxRaw+1), nil)
	half := enc.EncodeAll(make([]byte, maxRaw/2+1), nil)
	wide, err := zstd.NewWriter(nil, zstd.WithWindowSize(4*maxWindow))
	if err != nil {
		t.Fatal(err)
	}
	var far bytes.Buffer
	wide.Reset(&far)
	for range 5 * maxWindow / len(line) {
		wide.Write(line)
	}
	wide.Close()
	for name, packed := range map[string][]byte{
		"nothing": nil, "no frame": []byte("tgfleet"), "cut": one[:len(one)-3], "empty": enc.EncodeAll(nil, nil), "too long": make([]byte, MaxPacked+1),
		"a bomb": bomb, "a bomb of two frames": append(bytes.Clone(half), half...), "a wide window": far.Bytes(),
		"no line end": enc.EncodeAll(line[:len(line)-1], nil), "too many": enc.EncodeAll(bytes.Repeat(line, MaxRecords+1), nil),
	} {
		if err := Unpack(packed, func(record.Entry) error { return nil }); err == nil {
			t.Errorf("%s: unpacked", name)
		}
	}
	if _, err := Last(enc.EncodeAll([]byte("{}\n"), nil)); err == nil {
		t.Error("a damaged record is a cursor")
	}
}

func TestCheck(t *testing.T) {
	all := entriesOf(20, "")
	forked := entriesOf(20, "changed") // differs from the first record on
	damaged := record.Entry{Line: bytes.Replace(all[7].Line, []byte("forward"), []byte("Forward"), 1)}
	other, _ := appendRecord(nil, record.Chain{}, &record.Record{V: record.Version, Kind: record.KindLog, Log: "OTHER", Time: time.Unix(0, 0)})
	for name, c := range map[string]struct {
		stream []record.Entry
		want   string
	}{
		"whole":                {all, ""},
		"from the middle":      {all[7:], ""},
		"a gap":                {append(all[:5:5], all[8:]...), "gap 6-8"},
		"twice":                {append(all[:5:5], all[4:]...), "double 5-5"},
		"out of order":         {[]record.Entry{all[0], all[2], all[1], all[3]}, "gap 2-2, fork 2-2"},
		"another end":          {append(all[:5:5], forked[5:]...), "fork 5-5"},
		"rewritten":            {append(all[:5:5], forked[3]), "fork 4-4"},
		"damaged":              {append(all[:7:7], damaged), "damaged 0-0"},
		"of another log":       {other, "foreign 1-1"},
		"values of another":    {[]record.Entry{{Line: all[0].Line, Values: []byte(`{"values":2}`)}}, "damaged 1-1"},
		"a gap, then a double": {append(append(all[:2:2], all[5:7]...), all[6:]...), "gap 3-5, double 7-7"},
	} {
		var got []string
		check := NewCheck(logID)
		for _, e := range c.stream {
			if f := check.Add(e); f != nil {
				got = append(got, fmt.Sprintf("%s %d-%d", f.Kind, f.From, f.To))
			}
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %s; want %s", name, strings.Join(got, ", "), c.want)
		}
	}
}

// A gap is explained by a record that names the very record before its end, and by no other.
func TestExplained(t *testing.T) {
	all := entriesOf(10, "")
	end := chainOf(t, all[9])
	fifth := chainOf(t, all[4])
	for digest, want := range map[string]FaultKind{fifth.Sum: Explained, end.Sum: ""} {
		dropped, _ := appendRecord(nil, end, &record.Record{V: record.Version, Kind: record.KindDropped, Through: 5, Digest: digest, Time: time.Unix(99, 0)})
		check := NewCheck(logID)
		check.Add(all[0])
		if f := check.Add(all[5]); f == nil || f.Kind != Gap {
			t.Fatalf("no gap: %v", f)
		}
		for _, e := range all[6:] {
			if f := check.Add(e); f != nil {
				t.Fatal(f)
			}
		}
		f := check.Add(dropped[0])
		if want == "" && f != nil || want != "" && (f == nil || f.Kind != want) {
			t.Errorf("%v; want %q", f, want)
		}
	}
}

func TestCheckSeen(t *testing.T) {
	all := entriesOf(5, "")
	check := NewCheck(logID)
	for _, e := range all[:4] {
		check.Add(e)
	}
	head := func(e record.Entry) *fleet.Seen {
		c := chainOf(t, e)
		return &fleet.Seen{Log: logID, Seq: c.Seq, Head: c.Sum}
	}
	if f := check.Seen(head(all[3])); f != nil {
		t.Error(f)
	}
	if f := check.Seen(head(all[4])); f == nil || f.Kind != Gap || f.From != 5 {
		t.Errorf("withheld: %v", f)
	}
	if f := check.Seen(head(entriesOf(3, "changed")[2])); f == nil || f.Kind != Fork {
		t.Errorf("a log that was rewritten: %v", f)
	}
}

// Whatever a courier does to the stream of a log, it is found, unless it did nothing.
func TestCheckRandom(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	all := entriesOf(60, "")
	for range 2000 {
		stream := append([]record.Entry(nil), all...)
		i, j := random.IntN(len(stream)-1), random.IntN(len(stream))
		changed := true
		switch random.IntN(4) {
		case 0:
			i = 1 + random.IntN(len(stream)-2) // neither the first nor the last
			stream = append(stream[:i:i], stream[i+1:]...)
		case 1:
			stream = append(stream[:i+1:i+1], stream[i:]...)
		case 2:
			changed = i != j
			stream[i], stream[j] = stream[j], stream[i]
		case 3:
			at := random.IntN(len(stream[i].Line))
			stream[i].Line = bytes.Clone(stream[i].Line)
			stream[i].Line[at] ^= byte(1 + random.IntN(255))
		}
		check, found := NewCheck(logID), 0
		for _, e := range stream {
			if check.Add(e) != nil {
				found++
			}
		}
		if changed != (found > 0) {
			t.Fatalf("seed %d: changed %v, found %d faults", seed, changed, found)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	var b Batch
	for i, e := range entriesOf(3, "") {
		b.Add(uint64(i+1), e.Line, nil)
	}
	packed, err := b.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Fuzz(func(t *testing.T, packed []byte) {
		check := NewCheck(logID)
		_ = Unpack(packed, func(e record.Entry) error { check.Add(e); return nil }) // must not panic
	})
}
