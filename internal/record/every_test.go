package record

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// threeSegments returns a longer log with everything that a log can contain: a peer,
// values, dropped values, records of gaps and of dropped records.
func threeSegments() *stored {
	s := sample()
	s.add(Record{Kind: KindDecision, Verdict: "approved", Decider: "pid 1 x", Peer: &Peer{UID: 1, PID: 2, Start: 3, Exe: "/x", Above: []string{"1 a"}}}, nil)
	s.rotate()
	s.add(Record{Kind: KindGap, Reason: "the disk was full"}, nil)
	s.add(Record{Kind: KindCall, Verdict: "forward", Tool: "dropped"}, []byte(`"arguments":{"gone":1}`))
	s.add(Record{Kind: KindCall, Verdict: "forward"}, []byte(`"arguments":{"d":[1,2]}`))
	s.add(Record{Kind: KindStop}, nil)
	return s
}

// withoutValues drops the values of one record.
func (s *stored) withoutValues(seq uint64) {
	at := slices.IndexFunc(s.entries, func(p placed) bool { return p.seq == seq })
	p := s.entries[at]
	s.segments[p.segment] = slices.Delete(s.segments[p.segment], p.values, p.end)
	cut := p.end - p.values
	s.entries[at].end, s.entries[at].values = p.values, 0
	for i := range s.entries[at+1:] {
		if e := &s.entries[at+1+i]; e.segment == p.segment {
			e.start, e.end = e.start-cut, e.end-cut
			if e.values > 0 {
				e.values -= cut
			}
		}
	}
}

// retired returns a log whose first segment was dropped, as the log itself says.
func retired() *stored {
	whole := sample()
	last := whole.entries[slices.IndexFunc(whole.entries, func(p placed) bool { return p.segment == 1 })-1]
	s := threeSegments()
	line, _, _ := bytes.Cut(s.segments[0][last.start:], []byte("\n"))
	s.add(Record{Kind: KindDropped, Through: last.seq, Digest: sumOf(line)}, nil)
	s.add(Record{Kind: KindCall, Verdict: "forward", Tool: "after"}, nil)
	s.segments[0] = nil
	s.entries = slices.DeleteFunc(s.entries, func(p placed) bool { return p.segment == 0 })
	return s
}

// writeThere writes the log without the dropped segments.
func (s *stored) writeThere(t *testing.T) string {
	t.Helper()
	dir := s.write(t, true)
	for i, segment := range s.segments {
		if segment == nil {
			if err := os.Remove(filepath.Join(dir, SegmentName(uint64(i+1)))); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func everyLog() map[string]*stored {
	dropped := threeSegments()
	for _, seq := range []uint64{4, 7, 14} {
		dropped.withoutValues(seq)
	}
	return map[string]*stored{"whole": threeSegments(), "without some values": dropped, "without the oldest segment": retired()}
}

// If any single bit of any record is flipped, Verify names that record. For incomplete
// logs, not every bit of each byte is tried.
func TestVerifyNamesEveryFlippedBit(t *testing.T) {
	for name, s := range everyLog() {
		t.Run(name, func(t *testing.T) {
			dir := s.writeThere(t)
			if report := verify(t, dir, VerifyOptions{}); report.Bad != nil || !report.Headed {
				t.Fatalf("before: %+v", report)
			}
			if err := os.Remove(filepath.Join(dir, HeadFile)); err != nil { // the log alone must reveal it
				t.Fatal(err)
			}
			bits := []int{0, 1, 2, 3, 4, 5, 6, 7}
			if name != "whole" {
				bits = []int{0, 5}
			}
			for _, p := range s.entries {
				segment, path := s.segments[p.segment], filepath.Join(dir, SegmentName(uint64(p.segment+1)))
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				put := func(b byte, at int) {
					if _, err := f.WriteAt([]byte{b}, int64(at)); err != nil {
						t.Fatal(err)
					}
				}
				for at := p.start; at < p.end; at++ {
					for _, bit := range bits {
						put(segment[at]^1<<bit, at)
						mustName(t, dir, fmt.Sprintf("record %d, byte %d, bit %d", p.seq, at, bit), p.segment, p.seq)
					}
					put(segment[at], at)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// If any two records are swapped, in one segment or across two, Verify names the first of
// their places, or the record written after it.
func TestVerifyNamesEverySwap(t *testing.T) {
	for name, s := range everyLog() {
		t.Run(name, func(t *testing.T) {
			dir := s.writeThere(t)
			for i, a := range s.entries {
				for _, b := range s.entries[i+1:] {
					first, second := slices.Clone(s.segments[a.segment][a.start:a.end]), slices.Clone(s.segments[b.segment][b.start:b.end])
					changed := map[int][]byte{}
					if a.segment == b.segment {
						old := s.segments[a.segment]
						changed[a.segment] = slices.Concat(old[:a.start], second, old[a.end:b.start], first, old[b.end:])
					} else {
						changed[a.segment] = slices.Concat(s.segments[a.segment][:a.start], second, s.segments[a.segment][a.end:])
						changed[b.segment] = slices.Concat(s.segments[b.segment][:b.start], first, s.segments[b.segment][b.end:])
					}
					for n, text := range changed {
						s.put(t, dir, n, text)
					}
					// In a log without its beginning the first record can't be known, but
					// the one after the second can.
					allowed := []uint64{a.seq, a.seq + 1}
					if i == 0 && s.segments[0] == nil {
						allowed = append(allowed, b.seq, b.seq+1)
					}
					mustName(t, dir, fmt.Sprintf("%d and %d swapped", a.seq, b.seq), a.segment, allowed...)
					for n := range changed {
						s.put(t, dir, n, s.segments[n])
					}
				}
			}
		})
	}
}

// If any record, or all records from it on, are removed, Verify names it; the last ones
// too, as long as the head is kept.
func TestVerifyNamesEveryRemoval(t *testing.T) {
	for name, s := range everyLog() {
		t.Run(name, func(t *testing.T) {
			dir := s.writeThere(t)
			for i, p := range s.entries {
				old := s.segments[p.segment]
				s.put(t, dir, p.segment, slices.Concat(old[:p.start], old[p.end:]))
				report := verify(t, dir, VerifyOptions{})
				allowed := []uint64{p.seq}
				if s.segments[0] == nil && p.seq == s.dropped() {
					allowed = append(allowed, 1) // nothing says any more that older ones were dropped
				}
				if p.start == 0 { // the rest is recognized as lacking its beginning
					allowed = append(allowed, p.seq+1)
				}
				if report.Bad == nil || !slices.Contains(allowed, report.Bad.Seq) {
					t.Errorf("record %d removed: %v, want one of %d", p.seq, report.Bad, allowed)
				}
				for _, later := range s.entries[i:] { // all from that record on
					s.put(t, dir, later.segment, nil)
				}
				s.put(t, dir, p.segment, old[:p.start])
				report = verify(t, dir, VerifyOptions{})
				want := p.seq
				if s.segments[0] == nil && p.seq <= s.dropped() {
					want = 1
				}
				if report.Bad == nil || report.Bad.Seq != want {
					t.Errorf("cut off before record %d: %v, want record %d", p.seq, report.Bad, want)
				}
				for n, segment := range s.segments {
					if segment != nil {
						s.put(t, dir, n, segment)
					}
				}
			}
		})
	}
}

// dropped returns the seq of the record that says that older ones were dropped.
func (s *stored) dropped() uint64 { return s.entries[len(s.entries)-2].seq }

func (s *stored) put(t *testing.T, dir string, segment int, text []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, SegmentName(uint64(segment+1))), text, 0o600); err != nil {
		t.Fatal(err)
	}
}
