package display

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	table := &Table{Columns: []Column{{Head: "ID"}, {Head: "AGE", Right: true}, {Head: "SERVER", Shrink: 8}, {Head: "TOOL", Shrink: 8}}}
	table.Add("A-1", "9m", "filesystem", "write_file")
	table.Note("a note that is longer than the table may be wide, so that it goes on below")
	table.Add("A-10", "12s", Name("a-server\u202e-with-a-long-name"), "日本語のツール")
	for _, test := range []struct {
		columns int
		want    string
	}{
		{0, `
ID    AGE  SERVER                             TOOL
A-1    9m  filesystem                         write_file
      a note that is longer than the table may be wide, so that it goes on below
A-10  12s  a-server\u{202e}-with-a-long-name  日本語のツール
`},
		{40, `
ID    AGE  SERVER         TOOL
A-1    9m  filesystem     write_file
      a note that is longer than the
      table may be wide, so that it goes
      on below
A-10  12s  a-server…      日本語のツール
`},
		{20, `
ID    AGE  SERVER    TOOL
A-1    9m  filesys…  write_f…
      a note that is
      longer than the
      table may be wide,
      so that it goes on
      below
A-10  12s  a-serve…  日本語…
`},
	} {
		var b strings.Builder
		if err := table.Write(&b, test.columns, nil); err != nil {
			t.Fatal(err)
		}
		if got := "\n" + b.String(); got != test.want {
			t.Errorf("at %d columns:\n%s\nwant:\n%s", test.columns, got, test.want)
		}
	}
}

// What has no room is left out, the highest Drop first. Colours change neither words nor widths, and
// what repeats is faint.
func TestTableDropsAndPaints(t *testing.T) {
	table := &Table{Columns: []Column{
		{Head: "ID", Drop: 2}, {Head: "AGENT", Repeats: true}, {Head: "PID", Right: true, Drop: 1},
		{Head: "STATE", Tone: func(cell Safe) Tone { return map[Safe]Tone{"failed": Deny}[cell] }},
	}}
	table.Add("0123456789", "claude", "7", "running")
	table.Add("abcdefghij", "claude", "4242", "failed")
	table.NoteIn(Warn, "it has ended twice")
	paint := func(tone Tone, text string) string { return "<" + string("?owdhsf"[tone]) + text + ">" }
	for _, test := range []struct {
		columns int
		want    string
	}{
		{0, `
<fID          AGENT    PID  STATE>
0123456789  claude     7  running
abcdefghij  <fclaude>  4242  <dfailed>
            <wit has ended twice>
`},
		{25, `
<fAGENT    PID  STATE>
claude     7  running
<fclaude>  4242  <dfailed>
        <wit has ended twice>
`},
		{20, `
<fAGENT   STATE>
claude  running
<fclaude>  <dfailed>
        <wit has ended twice>
`},
	} {
		var b strings.Builder
		if err := table.Write(&b, test.columns, paint); err != nil {
			t.Fatal(err)
		}
		if got := "\n" + b.String(); got != test.want {
			t.Errorf("at %d columns:\n%s\nwant:\n%s", test.columns, got, test.want)
		}
	}
}

// A column that may be left out is left out before one that has to stay is cut, and cut itself first.
func TestTableDropsBeforeItCuts(t *testing.T) {
	table := &Table{Columns: []Column{{Head: "NAME", Shrink: 4}, {Head: "COMMAND", Shrink: 8, Drop: 1}}}
	table.Add("filesystem", "npx server-filesystem")
	for columns, want := range map[int]string{
		0:  "NAME        COMMAND\nfilesystem  npx server-filesystem\n",
		24: "NAME        COMMAND\nfilesystem  npx server-…\n",
		19: "NAME\nfilesystem\n",
		8:  "NAME\nfilesys…\n",
	} {
		var b strings.Builder
		if err := table.Write(&b, columns, nil); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("at %d columns:\n%s\nwant:\n%s", columns, b.String(), want)
		}
	}
}

func TestStream(t *testing.T) {
	for _, test := range []struct {
		columns int
		want    string
	}{
		{0, "  SEQ  KIND    WHAT\n    7  call    a thing that happened\n12345  decision and more  x\n"},
		{24, "  SEQ  KIND    WHAT\n    7  call    a thing …\n12345  decis…  x\n"},
	} {
		var b strings.Builder
		s := NewStream(&b, test.columns, nil, Column{Head: "SEQ", Right: true, Width: 5}, Column{Head: "KIND", Width: 6}, Column{Head: "WHAT"})
		for _, row := range [][]Safe{nil, {"7", "call", "a thing that happened"}, {"12345", "decision and more", "x"}} {
			write := s.Head
			if row != nil {
				write = func() error { return s.Row(row...) }
			}
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
		if b.String() != test.want {
			t.Errorf("at %d columns:\n%s\nwant:\n%s", test.columns, b.String(), test.want)
		}
		b.Reset()
		note := map[int]string{0: "       a note that goes on and on\n", 24: "       a note that goes on\n       and on\n"}[test.columns]
		if err := errors.Join(s.Note(""), s.Note("a note that goes on and on")); err != nil || b.String() != note {
			t.Errorf("at %d columns: %v\n%s\nwant:\n%s", test.columns, err, b.String(), note)
		}
	}
}

func TestFit(t *testing.T) {
	for _, test := range []struct {
		in      Safe
		columns int
		want    Safe
	}{
		{"short", 10, "short"},
		{"short", 5, "short"},
		{"longer", 5, "long…"},
		{"longer", 1, "…"},
		{"longer", 0, "longer"},
		{`ab\u{202e}cd`, 8, "ab…"}, // an escaped character is not cut
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
	} {
		if got := Fit(test.in, test.columns); got != test.want {
			t.Errorf("Fit(%s, %d) = %s, want %s", test.in, test.columns, got, test.want)
		}
	}
}

func TestClip(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for _, test := range []struct {
		in      string
		columns int
		hint    Safe
		want    Safe
	}{
		{"short", 20, "see", "short"},
		{long, 80, "tgctl audit show 7", Safe(long[:42]) + "… 1,958 more bytes; tgctl audit show 7"},
		{long, 30, "tgctl audit show 7", Safe(long[:12]) + "… 1,988 more bytes"},
		{"\u202e\u202e\u202e", 23, "", `\u{202e}… 6 more bytes`},
		{long, 0, "", Safe(long)},
	} {
		got := Clip(test.in, test.columns, test.hint)
		if got != test.want || test.columns > 0 && Width(got) > test.columns {
			t.Errorf("Clip(%.20q, %d) = %s, want %s", test.in, test.columns, got, test.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		in   Safe
		want []Safe
	}{
		{"", []Safe{""}},
		{"short", []Safe{"short"}},
		{"the quick brown  fox jumps", []Safe{"the quick", "brown  fox", "jumps"}},
		{"abcdefghijklmnop", []Safe{"abcdefghij", "klmnop"}},
		{"a abcdefghijklmnop b", []Safe{"a", "abcdefghij", "klmnop b"}},
		{`x\u{202e}\u{202e}y zz`, []Safe{`x\u{202e}`, `\u{202e}y`, "zz"}},
		{"  lead   ing spaces here", []Safe{"  lead", "ing spaces", "here"}},
		{"日本語日本語", []Safe{"日本語日本", "語"}},
	} {
		if got := Wrap(test.in, 10); !slices.Equal(got, test.want) {
			t.Errorf("Wrap(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]Safe{0: "0", 7: "7", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567", -1234: "-1,234"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[uint64]Safe{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 9950: "10 kB", 999_499: "999 kB", 999_500: "1.0 MB",
		48_200_000: "48 MB", 1_250_000_000: "1.2 GB", 1 << 60: "1152922 TB",
	} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]Safe{
		-time.Second: "0 s", 999 * time.Millisecond: "0 s", 59 * time.Second: "59 s", 60 * time.Second: "1 min",
		59*time.Minute + 59*time.Second: "59 min", time.Hour: "1 h", 125 * time.Minute: "2 h 5 min",
		24 * time.Hour: "1 d", 76*time.Hour + 59*time.Minute: "3 d 4 h",
	} {
		if got := Span(d); got != want {
			t.Errorf("Span(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestTime(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, zone)
	for _, test := range []struct {
		t    time.Time
		want Safe
	}{
		{time.Date(2026, 11, 19, 22, 30, 1, 0, time.UTC), "00:30:01"}, // today in the local zone
		{time.Date(2026, 11, 19, 21, 30, 1, 0, time.UTC), "Nov 19 23:30"},
		{time.Date(2026, 3, 4, 5, 6, 0, 0, zone), "Mar  4 05:06"},
		{time.Date(2025, 12, 31, 23, 0, 0, 0, zone), "2025-12-31"},
	} {
		if got := Time(test.t, now); got != test.want {
			t.Errorf("Time(%v) = %s, want %s", test.t, got, test.want)
		}
	}
	if got := Moment(now.UTC(), now); got != "2026-11-20 12:00:00 +0200" {
		t.Errorf("Moment = %s", got)
	}
}
