package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// TestReadAgreesWithAPlainLoop compares what Read selects, forwards, backwards and across
// segments, with an index and without, with a loop over all records.
func TestReadAgreesWithAPlainLoop(t *testing.T) {
	t.Run("plain", func(t *testing.T) { agreesWithAPlainLoop(t, nil) })
	t.Run("indexed", func(t *testing.T) { agreesWithAPlainLoop(t, openIndex(t, t.TempDir())) })
}

func agreesWithAPlainLoop(t *testing.T, index Index) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	l := newLog(t.TempDir(), Options{SegmentSize: 4000, Values: config.ValuesFull, Now: func() time.Time { return now }, Index: index})
	l.chunk, l.block = 64, 512
	if _, err := l.open(); err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, l)
	start := now
	for i := range 120 {
		now = now.Add(time.Second)
		r := &record.Record{
			Kind:    []record.Kind{record.KindCall, record.KindOutcome}[i%2],
			Server:  []string{"db", "db2", "fs", ""}[i%4],
			Tool:    []string{"read_file", "delete_file", "read", "a\"b\u2028", "tool \"verdict\":\"deny\""}[i%5],
			Verdict: []string{"forward", "deny", "hold"}[i%3],
			Session: []string{"s1", ""}[i/60],
		}
		values := ""
		if i%3 == 0 {
			values = strings.Repeat(" ", i*7) + `{"v":1,"seq":7}`
		}
		if err := l.Record(context.Background(), r, []byte(values), nil); err != nil {
			t.Fatal(err)
		}
	}
	if index != nil {
		awaitIndex(t, l)
	}
	all := read(t, l, Query{})
	if l.segment < 5 || len(all) != int(l.Seq()) {
		t.Fatalf("%d segments, %d of %d records", l.segment, len(all), l.Seq())
	}
	pick := func(t *rapid.T, label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	rapid.Check(t, func(t *rapid.T) {
		q := Query{
			From:    rapid.Uint64Range(0, 130).Draw(t, "from"),
			Server:  pick(t, "server", "", "", "db", "db*", "[df][bs]", "nothing"),
			Tool:    pick(t, "tool", "", "", "read_*", "read", "a\"b\u2028", "*\"*"),
			Verdict: pick(t, "verdict", "", "", "deny", "hold"),
			Session: pick(t, "session", "", "", "s1"),
			Kind:    record.Kind(pick(t, "kind", "", "", "call", "log")),
			Last:    rapid.SampledFrom([]int{0, 0, 1, 2, 10, 1000}).Draw(t, "last"),
		}
		if s := rapid.IntRange(-1, 130).Draw(t, "since"); s >= 0 {
			q.Since = start.Add(time.Duration(s) * time.Second)
		}
		if s := rapid.IntRange(-1, 130).Draw(t, "until"); s >= 0 {
			q.Until = start.Add(time.Duration(s) * time.Second)
		}
		var want []line
		for _, line := range all {
			r, err := record.Parse([]byte(line.text))
			if err != nil {
				t.Fatal(err)
			}
			if r.Seq >= q.From && (q.Since.IsZero() || !r.Time.Before(q.Since)) && (q.Until.IsZero() || r.Time.Before(q.Until)) &&
				glob(t, q.Server, r.Server) && glob(t, q.Tool, r.Tool) && (q.Verdict == "" || q.Verdict == r.Verdict) &&
				(q.Session == "" || q.Session == r.Session) && (q.Kind == "" || q.Kind == r.Kind) {
				want = append(want, line)
			}
		}
		if q.Last > 0 {
			want = want[max(0, len(want)-q.Last):]
		}
		var got []line
		err := l.Read(context.Background(), q, func(seq uint64, text, values []byte) error {
			got = append(got, line{seq, string(text), string(values)})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(line{})); diff != "" {
			t.Fatalf("%+v (-want +got):\n%s", q, diff)
		}
	})
}

func glob(t *rapid.T, pattern, text string) bool {
	if pattern == "" {
		return true
	}
	g, err := config.NewGlob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return g.Match(text)
}

func TestFollow(t *testing.T) {
	l := open(t, t.TempDir(), Options{SegmentSize: 1000})
	put(t, l, "before", "")
	put(t, l, "skipped", "")
	put(t, l, "last", "")
	got := make(chan string)
	ended := make(chan error)
	go func() {
		ended <- l.Read(context.Background(), Query{Follow: true, Last: 1, Kind: record.KindCall}, func(_ uint64, text, values []byte) error {
			r, err := record.Parse(text)
			got <- r.Tool + string(values)
			return err
		})
	}()
	want := func(tool string) {
		t.Helper()
		select {
		case text := <-got:
			if !strings.HasPrefix(text, tool) {
				t.Errorf("got %q, want %q", text, tool)
			}
		case <-time.After(time.Minute):
			t.Fatalf("nothing came, want %q", tool)
		}
	}
	want("last")
	for i := range 20 {
		put(t, l, fmt.Sprint("new", i), `{}`)
		want(fmt.Sprintf(`new%d{"values":`, i))
	}
	closeLog(t, l)
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestReadEndsWithItsCaller(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	put(t, l, "a", "")
	stop := errors.New("stop")
	if err := l.Read(context.Background(), Query{Follow: true}, func(uint64, []byte, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	if err := l.Read(ctx, Query{}, func(uint64, []byte, []byte) error { return nil }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

// A damaged line is returned as stored, except by a query with a condition that can't be
// checked for it.
func TestReadOfADamagedLine(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{})
	put(t, l, "first", "")
	put(t, l, "second", "")
	put(t, l, "third", "")
	path := filepath.Join(dir, record.SegmentName(1))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(content), "second", "SECOND", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	for _, line := range read(t, l, Query{}) {
		seqs = append(seqs, line.seq)
	}
	if !slices.Equal(seqs, []uint64{1, 2, 0, 4}) {
		t.Errorf("got %d", seqs)
	}
	if got := read(t, l, Query{Server: "db"}); len(got) != 2 {
		t.Errorf("got %v", got)
	}
}

func TestRecorded(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir, Options{SegmentSize: 3000})
	record1 := func(kind record.Kind, attachment string, call uint64, verdict string) {
		t.Helper()
		r := &record.Record{Kind: kind, Attachment: attachment, Call: call, Verdict: verdict}
		if err := l.Record(context.Background(), r, []byte(`{"attachment":"a"}`), nil); err != nil {
			t.Fatal(err)
		}
	}
	record1(record.KindCall, "a", 1, "hold")
	record1(record.KindCall, "b", 1, "deny")
	record1(record.KindOutcome, "a", 2, "ok")
	record1(record.KindCall, "a", 1, "forward")
	record1(record.KindCall, "a\"b", 9, "deny")
	for call := range uint64(4) {
		record1(record.KindCall, "a", 10+call, "deny")
	}
	if l.segment < 2 {
		t.Fatalf("%d segments", l.segment)
	}
	closeLog(t, l)
	l = open(t, dir, Options{})
	got := map[uint64]string{}
	for call, r := range l.Recorded("a") {
		got[call] = r.Verdict
	}
	if diff := cmp.Diff(map[uint64]string{1: "forward", 10: "deny", 11: "deny", 12: "deny", 13: "deny"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := l.Recorded("a\"b"); len(got) != 1 || got[9].Verdict != "deny" {
		t.Errorf("got %v", got)
	}
	if got := l.Recorded("c"); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	record1(record.KindDetach, "a", 0, "left") // ends the use of its verdicts
	record1(record.KindCall, "a", 20, "forward")
	if got := l.Recorded("a"); len(got) != 1 || got[20].Verdict != "forward" {
		t.Errorf("got %v", got)
	}
	if got := l.Recorded("a\"b"); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

// A denied call was not forwarded, whatever other records say.
func TestEarlier(t *testing.T) {
	l := open(t, t.TempDir(), Options{SegmentSize: 3 << 20, Values: config.ValuesFull})
	put := func(r record.Record, values []byte) {
		t.Helper()
		if r.Attachment == "" {
			r.Attachment = "a"
		}
		if err := l.Record(context.Background(), &r, values, nil); err != nil {
			t.Fatal(err)
		}
	}
	put(record.Record{Kind: record.KindCall, Call: 8, Verdict: "forward", Digest: "d8"}, nil)
	put(record.Record{Kind: record.KindAttach, Verdict: "attached"}, nil) // a previous attachment with the same id
	for _, r := range []record.Record{
		{Kind: record.KindCall, Call: 2, Verdict: "forward", Digest: "d2"},
		{Kind: record.KindCall, Call: 4, Verdict: "deny", Digest: "d4"},
		{Kind: record.KindCall, Call: 6, Verdict: "hold", Digest: "d6"},
		{Kind: record.KindAttach, Verdict: "reattached"},
		{Kind: record.KindCall, Call: 6, Verdict: "forward", Digest: "d7"},
		{Kind: record.KindOutcome, Call: 2, Verdict: "ok"},
		{Kind: record.KindOutcome, Call: 6, Verdict: "ok", Attachment: "b"},
	} {
		put(r, nil)
	}
	check := func(what string) {
		t.Helper()
		passed, told := l.PreviousOutcomes("a", []uint64{2, 4, 6, 8})
		for seq, want := range map[uint64]string{2: "d2 true", 4: " false", 6: "d7 false", 8: " false"} {
			if got := fmt.Sprintf("%s %v", passed[seq], told[seq]); got != want {
				t.Errorf("%s: call %d: got %s, want %s", what, seq, got, want)
			}
		}
	}
	check("at once")
	// Many records may be written while a side does not read, long ones among them.
	for i := range 6 {
		long := strings.Repeat("v", 1<<20)
		put(record.Record{Kind: record.KindCall, Call: uint64(100 + i), Verdict: "forward", Attachment: []string{"a", "b"}[i%2]}, []byte(`{"v":"`+long+`"}`))
	}
	if got := l.Recorded("a", 6, 8); got[6].Digest != "d7" || len(got[8].Digest) > 0 {
		t.Errorf("of what waits is on record %v", got)
	}
	put(record.Record{Kind: record.KindCall, Call: 200, Verdict: "deny"}, []byte(`{"v":"`+strings.Repeat("v", 2*recordedWithin)+`"}`))
	put(record.Record{Kind: record.KindCall, Call: 202, Verdict: "deny"}, nil)
	if at, _, _ := l.end(); at.segment < 3 {
		t.Fatalf("%d segments", at.segment)
	}
	check("later")
}

func TestReadRefusesAMalformedGlob(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	err := l.Read(context.Background(), Query{Tool: "[a"}, func(uint64, []byte, []byte) error { return nil })
	if !errors.Is(err, gate.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
