package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// stored is a log in memory: its segments, and the position of each entry.
type stored struct {
	segments [][]byte
	entries  []placed
	chain    Chain
	dir      string
}

type placed struct {
	segment, start, end, values int // values is where the values line starts; 0 if there is none
	seq                         uint64
}

const logID = "0123456789abcdef"

func (s *stored) add(r Record, values []byte) {
	if len(s.segments) == 0 {
		s.segments = append(s.segments, nil)
	}
	n := len(s.segments) - 1
	p := placed{segment: n, start: len(s.segments[n])}
	r.Time = noon
	s.segments[n], s.chain = s.chain.Append(s.segments[n], &r, values)
	p.end, p.seq = len(s.segments[n]), r.Seq
	if values != nil {
		p.values = p.start + bytes.IndexByte(s.segments[n][p.start:], '\n') + 1
	}
	s.entries = append(s.entries, p)
}

func (s *stored) rotate() {
	s.segments = append(s.segments, nil)
	s.add(Record{Kind: KindLog, Log: logID}, nil)
}

func (s *stored) head() *Head { return &Head{Log: logID, Seq: s.chain.Seq, Sum: s.chain.Sum} }

// sample returns a log of two segments and ten records, some with values.
func sample() *stored {
	s := &stored{}
	s.add(Record{Kind: KindLog, Log: logID}, nil)
	s.add(Record{Kind: KindCall, Server: "db", Tool: "query", Verdict: "forward"}, []byte(`"arguments":{"a":1}`))
	s.add(Record{Kind: KindCall, Server: "db", Tool: "query", Verdict: "deny"}, nil)
	s.add(Record{Kind: KindCall, Tool: "é\u2028", Policies: []string{"a", "b"}}, []byte(`"arguments":{"b":"xyz"}`))
	s.rotate()
	s.add(Record{Kind: KindOutcome, Verdict: "ok"}, nil)
	s.add(Record{Kind: KindCall, Verdict: "hold"}, []byte(`"arguments":{}`))
	s.add(Record{Kind: KindDecision, Verdict: "approved"}, nil)
	s.add(Record{Kind: KindCall, Verdict: "forward"}, []byte(``))
	s.add(Record{Kind: KindCall, Verdict: "forward", Tool: "last"}, []byte(`"arguments":{"c":[1,2]}`))
	return s
}

// write writes the log to a folder, with its head if head is true.
func (s *stored) write(t testing.TB, head bool) string {
	t.Helper()
	if s.dir == "" {
		s.dir = t.TempDir()
	}
	for i, segment := range s.segments {
		if err := os.WriteFile(filepath.Join(s.dir, SegmentName(uint64(i+1))), segment, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if head {
		if err := os.WriteFile(filepath.Join(s.dir, HeadFile), s.head().Line(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s.dir
}

func verify(t testing.TB, path string, o VerifyOptions) Report {
	t.Helper()
	report, err := Verify([]string{path}, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestVerifyAcceptsWhatWasWritten(t *testing.T) {
	s := sample()
	var seen []string
	report := verify(t, s.write(t, true), VerifyOptions{Heads: []Head{*s.head()}, Each: func(seq uint64, e Entry) error {
		seen = append(seen, fmt.Sprintf("%d %d", seq, len(e.Values)))
		return nil
	}})
	want := Report{
		Log: logID, First: 1, Last: *s.head(), From: noon, Until: noon,
		Segments: 2, Records: 10, Values: 5, Headed: true,
	}
	if report != want {
		t.Errorf("got  %+v\nwant %+v", report, want)
	}
	if len(seen) != 10 || seen[1] != "2 32" {
		t.Errorf("Each saw %q", seen)
	}
}

// The chain can be checked without ThoughtGate: prev is the output of sha256sum for the
// previous record.
func TestChainIsPlainSHA256(t *testing.T) {
	s := sample()
	prev := ""
	for line := range bytes.Lines(bytes.Join(s.segments, nil)) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if bytes.HasPrefix(line, []byte(`{"values"`)) {
			continue
		}
		if !bytes.Contains(line, []byte(`"prev":"`+prev+`"`)) {
			t.Errorf("prev is not %q in %s", prev, line)
		}
		sum := sha256.Sum256(line)
		prev = hex.EncodeToString(sum[:])
	}
}

// mustName verifies dir and checks that the fault is at the record that contains offset.
func mustName(t testing.TB, dir string, what string, segment int, allowed ...uint64) {
	t.Helper()
	report := verify(t, dir, VerifyOptions{})
	if report.Bad == nil {
		t.Fatalf("%s: nothing found", what)
	}
	if !slices.Contains(allowed, report.Bad.Seq) {
		t.Fatalf("%s: names record %d, want one of %d: %v", what, report.Bad.Seq, allowed, report.Bad)
	}
	if report.Bad.File != filepath.Join(dir, SegmentName(uint64(segment+1))) {
		t.Fatalf("%s: names file %s, want segment %d: %v", what, report.Bad.File, segment+1, report.Bad)
	}
	if report.Bad.What == "" {
		t.Fatalf("%s: does not say what is wrong", what)
	}
}

// Verify names a record that is removed, duplicated or swapped with its neighbor.
func TestVerifyFindsMovedRecords(t *testing.T) {
	for i, p := range sample().entries {
		t.Run(fmt.Sprint(p.seq), func(t *testing.T) {
			s := sample()
			old := s.segments[p.segment]
			dir := s.write(t, true)

			s.segments[p.segment] = slices.Concat(old[:p.start], old[p.end:])
			s.write(t, false)
			allowed := []uint64{p.seq}
			if p.start == 0 { // the rest is recognized as lacking its beginning
				allowed = append(allowed, p.seq+1)
			}
			found := p.segment
			if p.end == len(old) && found == 0 { // nothing is left of it at its place
				found++
			}
			mustName(t, dir, "removed", found, allowed...)

			s.segments[p.segment] = slices.Concat(old[:p.end], old[p.start:])
			s.write(t, false)
			mustName(t, dir, "doubled", p.segment, p.seq+1)

			if i+1 < len(s.entries) && s.entries[i+1].segment == p.segment {
				next := s.entries[i+1]
				s.segments[p.segment] = slices.Concat(old[:p.start], old[next.start:next.end], old[p.start:p.end], old[next.end:])
				s.write(t, false)
				mustName(t, dir, "swapped", p.segment, p.seq, p.seq+1)
			}
		})
	}
}

// With a head, Verify detects that a log ends early wherever it was cut; without one it
// can't detect a cut between two records.
func TestVerifyFindsEveryCut(t *testing.T) {
	s := sample()
	s.segments[1] = nil // rebuilt below: only the second segment is cut
	whole := sample()
	dir := whole.write(t, true)
	path := filepath.Join(dir, SegmentName(2))
	var ends []int
	for _, p := range whole.entries {
		if p.segment == 1 {
			ends = append(ends, p.end)
			if p.values > 0 {
				ends = append(ends, p.values)
			}
		}
	}
	ends = append(ends, 0)
	last := whole.entries[len(whole.entries)-1]
	for cut := range len(whole.segments[1]) {
		if err := os.WriteFile(path, whole.segments[1][:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		report := verify(t, dir, VerifyOptions{})
		if cut == last.values { // the values of the last record were dropped, which is allowed
			if report.Bad != nil || report.Dropped != 1 {
				t.Errorf("cut at %d: %+v", cut, report)
			}
			continue
		}
		if report.Bad == nil || report.Torn != 0 {
			t.Errorf("with a head, cut at %d: nothing found", cut)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		report, err = verifySegment(path, f)
		if err != nil {
			t.Fatal(err)
		}
		if between := slices.Contains(ends, cut); (report.Bad == nil) != between {
			t.Errorf("without a head, cut at %d (between two lines: %v): %v", cut, between, report.Bad)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestVerifyFindsMissingSegments(t *testing.T) {
	for _, test := range []struct {
		remove int
		want   uint64
	}{{1, 1}, {2, 5}, {3, 11}} {
		s := sample()
		s.rotate()
		s.add(Record{Kind: KindStop}, nil)
		dir := s.write(t, true)
		if err := os.Remove(filepath.Join(dir, SegmentName(uint64(test.remove)))); err != nil {
			t.Fatal(err)
		}
		report := verify(t, dir, VerifyOptions{})
		if report.Bad == nil || report.Bad.Seq != test.want || !strings.Contains(report.Bad.What, "missing") {
			t.Errorf("without segment %d: %v, want record %d to be missing", test.remove, report.Bad, test.want)
		}
	}
}

// An edit with a corrected checksum breaks the chain after it; in the last record, the
// head reveals it.
func TestVerifyFindsAnEditWithARightChecksum(t *testing.T) {
	for i, p := range sample().entries {
		s := sample()
		old := s.segments[p.segment]
		line, _, _ := bytes.Cut(old[p.start:p.end], []byte("\n"))
		r, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		r.Reason = "nothing to see here"
		dir := s.write(t, true)
		s.segments[p.segment] = slices.Concat(old[:p.start], r.Append(nil), old[p.start+len(line):])
		s.write(t, false)
		report := verify(t, dir, VerifyOptions{})
		if report.Bad == nil || report.Bad.Seq != p.seq {
			t.Errorf("record %d edited: %v", i+1, report.Bad)
		}
	}
}

// Of the beginning of a log, only that may be missing of which the log itself says that it was
// dropped: by the number and the digest of its last record.
func TestVerifyFindsWhatNobodyDropped(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(r *Record)
		want   string
	}{
		{"dropped", func(*Record) {}, ""},
		{"another number", func(r *Record) { r.Through-- }, "is missing"},
		{"another record", func(r *Record) { r.Digest = sumOf(nil) }, "is missing"},
		{"another kind", func(r *Record) { r.Kind = KindStop }, "is missing"},
	} {
		s := sample()
		last := s.entries[3]
		line, _, _ := bytes.Cut(s.segments[0][last.start:last.end], []byte("\n"))
		r := Record{Kind: KindDropped, Through: last.seq, Digest: sumOf(line)}
		test.change(&r)
		s.add(r, nil)
		dir := s.write(t, true)
		if err := os.Remove(filepath.Join(dir, SegmentName(1))); err != nil {
			t.Fatal(err)
		}
		report := verify(t, dir, VerifyOptions{})
		if test.want == "" && (report.Bad != nil || report.Retired != last.seq) ||
			test.want != "" && (report.Bad == nil || report.Bad.Seq != 1 || !strings.Contains(report.Bad.What, test.want)) {
			t.Errorf("%s: %v, %d retired", test.name, report.Bad, report.Retired)
		}
	}
}

// A record with a member twice, which programs may read differently, is not one, whatever its
// checksum and the head of the log say.
func TestVerifyFindsAMemberTwice(t *testing.T) {
	s := sample()
	s.add(Record{Kind: KindCall, Verdict: "deny"}, nil)
	last := &s.segments[1]
	whole := bytes.TrimSuffix(*last, []byte("\n"))
	start := bytes.LastIndexByte(whole, '\n') + 1
	body := append(bytes.Clone(whole[start:len(whole)-sealLen]), `,"verdict":"forward"`...)
	line := appendSeal(body, crc32.Checksum(body, castagnoli))
	*last = append(append(bytes.Clone(whole[:start]), line...), '\n')
	s.chain.Sum = sumOf(line)
	if report := verify(t, s.write(t, true), VerifyOptions{}); report.Bad == nil || report.Bad.Seq != 11 || !strings.Contains(report.Bad.What, "form of a record") {
		t.Errorf("%v", report.Bad)
	}
}

func TestVerifyFindsForeignRecords(t *testing.T) {
	s := sample()
	other := &stored{}
	other.add(Record{Kind: KindLog, Log: "another"}, nil)
	tests := []struct {
		name string
		make func(dir string) error
		want string
	}{
		{"head of another log", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, HeadFile), Head{Log: "another", Seq: 1, Sum: other.chain.Sum}.Line(), 0o600)
		}, `belongs to the log "0123456789abcdef"`},
		{"segment of another log", func(dir string) error {
			c := s.chain
			segment, _ := c.Append(nil, &Record{Kind: KindLog, Log: "another", Time: noon}, nil)
			return os.WriteFile(filepath.Join(dir, SegmentName(3)), segment, 0o600)
		}, `belongs to another log`},
		{"later version", func(dir string) error {
			c := s.chain
			segment, _ := c.Append(nil, &Record{V: 2, Kind: KindLog, Log: logID, Time: noon}, nil)
			return os.WriteFile(filepath.Join(dir, SegmentName(3)), segment, 0o600)
		}, "has version 2"},
		{"values from nowhere", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, SegmentName(3)), []byte(`{"values":10,"arguments":{}}`+"\n"), 0o600)
		}, "values of another record"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s.dir = ""
			dir := s.write(t, true)
			if err := test.make(dir); err != nil {
				t.Fatal(err)
			}
			report := verify(t, dir, VerifyOptions{})
			if report.Bad == nil || !strings.Contains(report.Bad.Error(), test.want) {
				t.Errorf("got %v, want %q", report.Bad, test.want)
			}
		})
	}
}

// Values may be dropped, and the log still verifies.
func TestValuesCanBeDropped(t *testing.T) {
	s := sample()
	for i, segment := range s.segments {
		var kept []byte
		for line := range bytes.Lines(segment) {
			if !bytes.HasPrefix(line, []byte(`{"values"`)) {
				kept = append(kept, line...)
			}
		}
		s.segments[i] = kept
	}
	report := verify(t, s.write(t, true), VerifyOptions{})
	if report.Bad != nil || report.Dropped != 5 || report.Values != 0 || !report.Headed {
		t.Errorf("got %+v", report)
	}
}

// A writer may be in the middle of a line after the head.
func TestVerifyBesideAWriter(t *testing.T) {
	s := sample()
	dir := s.write(t, true)
	s.add(Record{Kind: KindCall, Tool: "next"}, []byte(`"arguments":{"x":1}`))
	p := s.entries[len(s.entries)-1]
	whole := s.segments[p.segment]
	for cut := p.start; cut < p.end; cut++ {
		s.segments[p.segment] = whole[:cut]
		s.write(t, false)
		report := verify(t, dir, VerifyOptions{})
		behind := cut - p.start
		if cut >= p.values {
			behind = cut - p.values
		}
		if report.Bad != nil || report.Torn != int64(behind) {
			t.Fatalf("%d bytes of the next entry: torn %d, %v", cut-p.start, report.Torn, report.Bad)
		}
	}
}

func TestVerifyFolderWithoutALog(t *testing.T) {
	if _, err := Verify([]string{t.TempDir()}, VerifyOptions{}); err == nil || !strings.Contains(err.Error(), "no log in") {
		t.Errorf("empty folder: %v", err)
	}
	if _, err := Verify([]string{filepath.Join(t.TempDir(), "gone")}, VerifyOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	dir := sample().write(t, true)
	if err := os.WriteFile(filepath.Join(dir, HeadFile), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify([]string{dir}, VerifyOptions{}); err == nil || !strings.Contains(err.Error(), "is not the head of a log") {
		t.Errorf("broken head: %v", err)
	}
}

// Whatever is done to the bytes of a log, Verify does not fail, and detects every change
// in the part that the head covers.
func TestVerifyUnderRandomDamage(t *testing.T) {
	s := sample()
	dir := s.write(t, true)
	path := filepath.Join(dir, SegmentName(1))
	rapid.Check(t, func(t *rapid.T) {
		segment := slices.Clone(s.segments[0])
		at := rapid.IntRange(0, len(segment)-1).Draw(t, "at")
		length := rapid.IntRange(0, min(400, len(segment)-at)).Draw(t, "length")
		insert := rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "insert")
		changed := slices.Concat(segment[:at], insert, segment[at+length:])
		if bytes.Equal(changed, segment) {
			t.Skip("nothing changed")
		}
		for _, p := range s.entries[:4] { // a complete values line may be missing
			if p.values > 0 && bytes.Equal(changed, slices.Concat(segment[:p.values], segment[p.end:])) {
				t.Skip("values dropped")
			}
		}
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := Verify([]string{dir}, VerifyOptions{})
		if err != nil || report.Bad == nil {
			t.Fatalf("%+v, %v", report, err)
		}
	})
}

// A file that is not regular is not part of a log, and nothing blocks on a pipe.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	elsewhere := filepath.Join(dir, "elsewhere")
	if err := os.WriteFile(elsewhere, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, plant := range map[string]func(path string) error{
		"link":   func(path string) error { return os.Symlink(elsewhere, path) },
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, SegmentName(1))
		if err := errors.Join(plant(path), plant(filepath.Join(dir, HeadFile))); err != nil {
			t.Fatal(err)
		}
		for _, flags := range []int{os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREATE | os.O_APPEND} {
			f, err := OpenFile(path, flags)
			if err == nil {
				_ = f.Close()
				t.Errorf("a %s is opened with %#x", what, flags)
			}
			if what != "folder" && (err == nil || !strings.Contains(err.Error(), "not a regular file")) {
				t.Errorf("a %s, %#x: %v", what, flags, err)
			}
		}
		if head, err := ReadHead(dir); err == nil {
			t.Errorf("a %s for a head: %+v", what, head)
		}
		if report, err := Verify([]string{path}, VerifyOptions{}); err == nil {
			t.Errorf("a %s is verified: %+v", what, report)
		}
	}
}

func TestSegments(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"000010.jsonl", "000002.jsonl", "1000000.jsonl", "2.jsonl", "0000003.jsonl", "000000.jsonl", "head", "000004.jsonl.bak"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Segments(dir)
	if err != nil || !slices.Equal(got, []uint64{2, 10, 1000000}) {
		t.Errorf("got %d, %v", got, err)
	}
}

func TestHeadLine(t *testing.T) {
	h := Head{Log: logID, Seq: 1<<64 - 1, Sum: strings.Repeat("a", sumLen)}
	if line := h.Line(); len(line) != headLen {
		t.Errorf("%d bytes, want %d", len(line), headLen)
	}
	got, err := ParseHead(h.Line())
	if err != nil || got != h {
		t.Errorf("got %+v, %v", got, err)
	}
	for i := range h.Line() {
		line := h.Line()
		line[i] ^= 1
		if got, err := ParseHead(line); err == nil && got == h {
			t.Errorf("a flip at %d goes unseen", i)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	s := benchLog(b, 100_000)
	b.ResetTimer()
	for b.Loop() {
		report := verify(b, s.dir, VerifyOptions{})
		if report.Bad != nil {
			b.Fatal(report.Bad)
		}
	}
	b.ReportMetric(float64(s.chain.Seq)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

func benchLog(b *testing.B, n int) *stored {
	b.Helper()
	s := &stored{}
	s.add(Record{Kind: KindLog, Log: logID}, nil)
	for i := range n {
		s.add(typical(i), []byte(`"arguments":{"path":"/home/user/project/file.go","head":100},"bytes":52`))
	}
	s.write(b, true)
	return s
}

func typical(i int) Record {
	return Record{
		Kind: KindCall, Attachment: "5f3a9c0d1e2b4a68", Call: uint64(i), ID: fmt.Sprintf("c-5f3a9c0d-%d", i),
		Session: "s-1f2e3d4c", Agent: "claude-code", Server: "filesystem", Launch: strings.Repeat("ab", 32),
		Direction: "agent_to_server", Method: "tools/call", Tool: "read_file", MessageID: fmt.Sprint(i), Verdict: "forward",
		Gate: "rule", Rule: `"read_*" (thoughtgate.yaml:12)`, Profile: "production", Set: strings.Repeat("cd", 32),
		Digest: strings.Repeat("ef", 32), LatencyUS: 41,
	}
}

func BenchmarkAppend(b *testing.B) {
	r, values := typical(1), []byte(`"arguments":{"path":"/home/user/project/file.go","head":100},"bytes":52`)
	r.Time = noon
	var buf []byte
	var c Chain
	b.ReportAllocs()
	for b.Loop() {
		buf, c = c.Append(buf[:0], &r, values)
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkParse(b *testing.B) {
	r := typical(1)
	line := r.Append(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(line); err != nil {
			b.Fatal(err)
		}
	}
}

// verifySegment is Verify for one segment that is not a file of a log.
func verifySegment(name string, r io.Reader) (Report, error) {
	v := newVerifier(VerifyOptions{})
	err := v.segment(name, r, true)
	v.end()
	return v.report, err
}

// FuzzReader checks that a Reader returns every byte of a segment once, whatever it
// contains and however it arrives, and that Verify accepts any input.
func FuzzReader(f *testing.F) {
	for _, segment := range sample().segments {
		f.Add(segment)
	}
	f.Add([]byte("{\"v\":1}\n{\"values\":1}\n{\"values\":1}\n\n{\"v\":"))
	f.Fuzz(func(t *testing.T, segment []byte) {
		whole, bytewise := NewReader(bytes.NewReader(segment), 0), NewReader(iotest.OneByteReader(bytes.NewReader(segment)), 0)
		var again []byte
		for {
			e, err := whole.Next()
			f, ferr := bytewise.Next()
			if !errors.Is(ferr, err) || e.Offset != f.Offset || !bytes.Equal(e.Line, f.Line) || !bytes.Equal(e.Values, f.Values) {
				t.Fatalf("%+v, %v; byte by byte %+v, %v", e, err, f, ferr)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if e.Offset != int64(len(again)) {
				t.Fatalf("offset %d after %d bytes", e.Offset, len(again))
			}
			again = append(again, e.Line...)
			if errors.Is(err, ErrTorn) {
				continue
			}
			again = append(again, '\n')
			if e.Values != nil {
				again = append(append(again, e.Values...), '\n')
			}
		}
		if !bytes.Equal(again, segment) {
			t.Fatalf("read %q of %q", again, segment)
		}
		report, err := verifySegment("fuzzed", bytes.NewReader(segment))
		if err != nil {
			t.Fatal(err)
		}
		if report.Bad == nil && report.Records == 0 && len(segment) > 0 {
			t.Fatalf("nothing wrong, and no record, in %q", segment)
		}
	})
}
