package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestReplaceBetween(t *testing.T) {
	for _, test := range []struct{ name, page, want, err string }{
		{"what is around stays", "# Head\n" + beginMark + "\nold\n" + endMark + "\n\ntail\n", "# Head\n" + beginMark + "\n\nNEW\n" + endMark + "\n\ntail\n", ""},
		{"nothing between", beginMark + "\n" + endMark, beginMark + "\n\nNEW\n" + endMark, ""},
		{"no marks", "# Head\n", "", "no line " + beginMark},
		{"no end", beginMark + "\nold\n", "", "no line " + endMark},
		{"the end first", endMark + "\n" + beginMark + "\n", "", "no line " + endMark},
		{"twice", beginMark + "\n" + endMark + "\n" + beginMark + "\n" + endMark, "", "more than once"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := replaceBetween([]byte(test.page), []byte("NEW"))
			if string(got) != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, test.want, test.err)
			}
			if err != nil {
				return
			}
			if again, err := replaceBetween(got, []byte("NEW")); err != nil || !bytes.Equal(again, got) {
				t.Errorf("the second time: %q, %v", again, err)
			}
		})
	}
}

// whole returns a report with all figures.
func whole(t *testing.T) *report {
	t.Helper()
	r := &report{Build: "dev", Command: "make bench", Machine: "a machine", Turns: 3}
	for _, f := range figures {
		v := row{Ours: over([]float64{1, 2, 3})}
		if strings.HasPrefix(f.name, "call.") {
			v = compared{direct: {1, 2, 3}, floor: {2, 3, 4}, ours: {5, 6, 7}}.row()
		}
		if f.theme == largeRate {
			v.Others = append(base(1, 0), other{Name: "someone", Failed: "it can't"})
		}
		r.add(f.name, v)
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r
}

// rows returns the first cells of the tables of a page, without their heads, as heading and
// cell.
func rows(page string) map[string]bool {
	found, theme, inside := map[string]bool{}, "", false
	for line := range strings.Lines(page) {
		before := inside
		inside = strings.HasPrefix(line, "|")
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "### "); ok {
			theme = name
		}
		if cells := strings.Split(line, "|"); inside && before && !strings.HasPrefix(cells[1], "---") {
			found[theme+": "+strings.TrimSpace(cells[1])] = true
		}
	}
	return found
}

func TestMarkdown(t *testing.T) {
	r := whole(t)
	if err := r.complete(); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	r.markdown(&out)
	found := rows(out.String())
	for _, f := range figures {
		if !found[f.theme+": "+f.what] {
			t.Errorf("there is no row for %s", f.name)
		}
	}
	for _, want := range []string{"| 1.00 (+0.00) |  failed |", "- result of 8 MB: someone failed: it can't\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for paragraph := range strings.SplitSeq(out.String(), "\n\n") {
		if !strings.HasPrefix(paragraph, "|") {
			continue
		}
		lines := strings.Split(strings.TrimSpace(paragraph), "\n")
		for _, line := range lines {
			if w := utf8.RuneCountInString(line); w != utf8.RuneCountInString(lines[0]) || w > 120 {
				t.Errorf("a line of %d columns:\n%s\n%s", w, lines[0], line)
			}
		}
	}
	r.Rows = r.Rows[1:]
	if err := r.complete(); err == nil || !strings.Contains(err.Error(), figures[0].name) {
		t.Errorf("without its first row: %v", err)
	}
	r.add("nonsense", row{})
	if r.err == nil {
		t.Error("a figure that nobody knows was taken")
	}
}

// The page in the repository has a row for everything that a run measures, and no others: run
// `make bench` if this fails.
func TestBenchmarksPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "BENCHMARKS.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replaceBetween(page, nil); err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(page), beginMark)
	tables, _, _ = strings.Cut(tables, endMark)
	found, known := rows(tables), map[string]bool{}
	for _, f := range figures {
		name := f.theme + ": " + f.what
		known[name] = true
		if !found[name] {
			t.Errorf("BENCHMARKS.md has no row %q", name)
		}
	}
	for name := range found {
		if !known[name] {
			t.Errorf("BENCHMARKS.md has a row %q that nothing measures", name)
		}
	}
}

func TestFigures(t *testing.T) {
	known, names := map[string]bool{}, map[string]bool{}
	for _, theme := range themes {
		known[theme.name] = true
	}
	for _, f := range figures {
		if names[f.name] || !known[f.theme] || f.what == "" || f.unit == "" {
			t.Errorf("%s: named twice, or without its theme, text or unit", f.name)
		}
		names[f.name] = true
		if (f.reach == "") != (f.reached == nil) {
			t.Errorf("%s: a target needs its words and its test", f.name)
		}
	}
}

// base returns a base with that figure and what it adds.
func base(figure, added float64) []other {
	return []other{{Name: baseName, Figure: once(figure), Added: once(added)}}
}

func TestReached(t *testing.T) {
	for _, test := range []struct {
		name string
		row  row
		want string
	}{
		{"memory.server", row{Ours: once(2.5)}, yes},
		{"memory.server", row{Ours: once(2.6)}, no},
		{"call.32.rate", row{Ours: once(40_000)}, yes}, // enough, whatever the base does
		{"call.32.rate", row{Ours: once(39_999)}, unknown},
		{"call.32.rate", row{Ours: once(20_000), Others: base(10_000, 0)}, yes},
		{"call.32.rate", row{Ours: once(19_999), Others: base(10_000, 0)}, no},
		{"call.1.p50", row{Added: once(50), Ratio: once(2.2), Others: append(base(0, 150), other{Name: "a", Added: once(51)})}, yes},
		{"call.1.p50", row{Added: once(50), Ratio: once(2.2), Others: append(base(0, 150), other{Name: "a", Added: once(50)})}, no},
		{"call.1.p50", row{Added: once(50), Ratio: once(2.2), Others: base(0, 149)}, no},
		{"call.1.p50", row{Added: once(50), Ratio: once(2.2), Others: base(0, 150)}, unknown}, // no peer
		{"call.1.p50", row{Added: once(50), Ratio: once(2.2), Others: append(base(0, 150), other{Name: "a", Failed: "it can't"})}, unknown},
		{"call.1.p50", row{Added: once(50), Ratio: once(2.3)}, no},
		{"start.first", row{Added: once(6), Others: base(0, 10)}, yes},
		{"start.first", row{Added: once(6), Others: base(0, 9)}, no},
		{"start.first", row{Added: once(6)}, unknown},
		{"memory.daemon.8MBs", row{Ours: once(30), Peak: 80}, yes},
		{"memory.daemon.8MBs", row{Ours: once(30), Peak: 81}, no},
		{"memory.daemon.8MBs", row{Ours: once(30)}, unknown}, // unknown without root
		{"large.result", row{Ours: once(10), Ratio: once(0.5), Others: base(10, 0)}, yes},
		{"large.result", row{Ours: once(10), Ratio: once(0.5), Others: base(11, 0)}, no},
		{"pass.1.p50", row{Ours: once(1)}, no}, // the floor added nothing: unknown
		{"large.result", row{Ours: once(10), Ratio: once(0.49), Others: base(10, 0)}, no},
		{decisionName(10_000, true), row{Ours: once(4), Ratio: once(3)}, no},
		{decisionName(10_000, true), row{Ours: once(4), Ratio: once(1.4)}, yes},
		{"shims.200.cpu", row{Ours: once(2), Added: once(1)}, yes},
		{"log.write", row{Ours: once(1)}, ""}, // no target
	} {
		r := &report{}
		r.add(test.name, test.row)
		if r.err != nil || r.Rows[0].Met != test.want {
			t.Errorf("%s %+v: reached %q, %v, want %q", test.name, test.row, r.Rows[0].Met, r.err, test.want)
		}
	}
}
