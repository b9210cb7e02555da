package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	all, err := parse("data", "# A comment.\n\nfile a.go\nlooser it passes\ntest a\ntest b/c -run ^TestX$|Y\n-\tif bad {\n-\t\treturn\n+\tif false {\n+\t\treturn\n\n\nfile b.go\nlooser more\n# here, too\ntest b\n-check()\n")
	if err != nil || len(all) != 2 {
		t.Fatalf("%d changes, %v", len(all), err)
	}
	a, b := all[0], all[1]
	if a.place != "data:3" || a.String() != "a.go: it passes" || a.old != "\tif bad {\n\t\treturn" || a.new != "\tif false {\n\t\treturn" {
		t.Errorf("%+v", a)
	}
	if len(a.tests) != 2 || a.tests[0] != (test{"a", ""}) || a.tests[1] != (test{"b/c", "^TestX$|Y"}) {
		t.Errorf("%+v", a.tests)
	}
	if b.place != "data:13" || b.old != "check()" || b.new != "" {
		t.Errorf("%+v", b)
	}
	for data, want := range map[string]string{
		"file a.go\nlooser x\ntest a\n":              "data:1",
		"\nfile a.go\nlooser x\n-a\n+b":              "data:2",
		"file a.go\nlooser x\ntest a\n-a\n+a":        "differs",
		"file a.go\nfiel b.go\n":                     `data:2: unknown key "fiel"`,
		"file a.go\nlooser\n":                        "data:2: looser has no value",
		"file a.go\nlooser x\ntest a\nold\n-a\n+b\n": "data:4",
	} {
		if _, err := parse("data", data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", data, err, want)
		}
	}
}

func TestJudge(t *testing.T) {
	for out, want := range map[string]string{
		"--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b_c (0.00s)\n        a_test.go:5: no\nFAIL\nFAIL\ta\t0.1s\n": "TestA/b_c",
		"--- FAIL: TestA (0.00s)\npanic: oh\nFAIL\ta\t0.1s\n":                                                      "TestA",
		"# a\na.go:1:1: declared and not used: x\nFAIL\ta [build failed]\n":                                        "error: it does not compile",
		"panic: test timed out after 5m0s\n--- FAIL: TestA (300s)\n":                                               "error: the tests took longer",
		"go: no such tool\n": "error: no test failed",
	} {
		got, err := judge(out, os.ErrInvalid)
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s; want %s", out, got, want)
		}
	}
}

// A module with one check: a test notices that it is gone, unless -run leaves that test out. What
// was changed stays as it was.
func TestTry(t *testing.T) {
	root := t.TempDir()
	source := "package p\n\nfunc allowed(n int) bool { return n < 3 }\n"
	for name, text := range map[string]string{
		"go.mod": "module example.org/p\n\ngo 1.26\n", "p.go": source,
		"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestMore(t *testing.T) {\n\tif allowed(3) {\n\t\tt.Error(\"3\")\n\t}\n}\n\nfunc TestFewer(t *testing.T) {\n\tif !allowed(2) {\n\t\tt.Error(\"2\")\n\t}\n}\n\nfunc TestBroken(t *testing.T) { t.Error(\"always\") }\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tmp := t.TempDir()
	try := &trier{root: root, tmp: tmp}
	for name, c := range map[string]struct{ old, new, run, noticed, failed string }{
		"noticed":           {old: "n < 3", new: "n < 4", run: "More|Fewer", noticed: ". TestMore"},
		"unnoticed":         {old: "n < 3", new: "n < 4", run: "Fewer"},
		"not there":         {old: "n < 5", run: "More", failed: "occurs 0 times"},
		"there twice":       {old: "n", run: "More", failed: "times"},
		"no program":        {old: "n < 3", new: "n <", run: "More", failed: "does not compile"},
		"no test":           {old: "n < 3", new: "n < 4", run: "Nothing", failed: "no test that matches"},
		"fails in any case": {old: "n < 3", new: "n < 4", run: "Broken", failed: "fail without the change"},
	} {
		l := &loosening{file: "p.go", old: c.old, new: c.new, tests: []test{{".", c.run}}}
		noticed, err := try.try(context.Background(), l, filepath.Join(tmp, strings.ReplaceAll(name, " ", "-")))
		if noticed != c.noticed || (err != nil) != (c.failed != "") || err != nil && !strings.Contains(err.Error(), c.failed) {
			t.Errorf("%s: noticed by %q, error %v", name, noticed, err)
		}
	}
	if now, err := os.ReadFile(filepath.Join(root, "p.go")); err != nil || string(now) != source {
		t.Errorf("the file is %q now, %v", now, err)
	}
}

// The data file can be read, and each old text is where it should be.
func TestLoosenings(t *testing.T) {
	data, err := os.ReadFile("loosenings.txt")
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse(dataFile, string(data))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, l := range all {
		source, err := os.ReadFile(filepath.Join("..", "..", l.file))
		if err == nil {
			_, err = l.apply(string(source))
		}
		if err != nil {
			t.Errorf("%s: %s: %v", l.place, l, err)
		}
		if seen[l.String()] {
			t.Errorf("%s: %s: two changes have this name", l.place, l)
		}
		seen[l.String()] = true
	}
}
