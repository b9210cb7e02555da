package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The program of these tests measures tests, as gotest does: the runs of go test in here start it for
// that if whoever runs these tests asks for CPU seconds.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == measureArg {
		os.Exit(measure(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// A package that passes is one line, failures are printed, and skipped tests are listed at the
// end with their reasons.
func TestReport(t *testing.T) {
	var in strings.Builder
	put := func(action, test, output string) {
		line, err := json.Marshal(event{action, "a/b", test, output})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&in, "%s\n", line)
	}
	put("output", "TestGood", "=== RUN   TestGood\n")
	put("output", "TestGood", "    good_test.go:1: fine\n")
	put("pass", "TestGood", "")
	for _, name := range []string{"TestD", "TestA", "TestC", "TestB"} {
		put("output", name, "    x_test.go:1: first words\n")
		put("output", name, "    x_test.go:9: there is no node: see\n        https://nodejs.org\n")
		put("output", name, "--- SKIP: "+name+" (0.00s)\n")
		put("skip", name, "")
	}
	put("output", "TestMute", "--- SKIP: TestMute (0.00s)\n")
	put("skip", "TestMute", "")
	put("output", "TestBad", "    bad_test.go:1: trouble\n")
	for range 10000 {
		put("output", "TestBad", "again and again\n")
	}
	put("output", "TestBad", "--- FAIL: TestBad (0.00s)\n")
	put("fail", "TestBad", "")
	put("output", "TestHangs", "panic: test timed out\n")
	in.WriteString("a tool says something\n")
	put("output", "", "PASS\n")
	put("output", "", "FAIL\ta/b\t1.2s\n")
	put("fail", "", "")

	var out strings.Builder
	r := newReport(&out)
	if err := r.read(strings.NewReader(in.String())); err != nil {
		t.Fatal(err)
	}
	r.printSkips()
	got := out.String()
	if len(got) > 2*mostOfTest {
		t.Errorf("%d bytes are printed for one test that fails", len(got))
	}
	for _, want := range []string{
		"bad_test.go:1: trouble\n", "--- FAIL: TestBad", "bytes are left out here", "a tool says something\n", "panic: test timed out\n", "FAIL\ta/b\t1.2s\n",
		"Skipped:\n  no reason given\n      a/b.TestMute\n" +
			"  there is no node: see https://nodejs.org\n      a/b.TestA, a/b.TestB, a/b.TestC and 1 more\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not printed", want)
		}
	}
	if strings.Contains(got, "TestGood") || strings.Contains(got, "fine") || strings.Contains(got, "\nPASS") {
		t.Error("what a test that passed says is printed")
	}
	if !strings.HasSuffix(got, "1 more\n") {
		t.Errorf("the skips are not at the end: %q", got[max(0, len(got)-200):])
	}
}

// On request, it says what the tests of each package have taken, and what each run has.
func TestCPU(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{"go.mod": "module x\n", "x_test.go": "package x\nimport \"testing\"\nfunc TestX(t *testing.T) {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self := filepath.Join(t.TempDir(), "gotest")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", self, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(self, dir, "-vet=off", "./...")
	cmd.Env = append(os.Environ(), cpuVar+"=1")
	out, err := cmd.CombinedOutput()
	if want := regexp.MustCompile(`(?s)^ok  \tx\t.*\nCPU seconds:\n +[0-9.]+  x\n +[0-9.]+  all tests\n( +[0-9.]+  go (test|list -export) in [^\n]*\n){2}$`); err != nil || !want.Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSplit(t *testing.T) {
	got := split([]string{"--", "..", "-race", "--", "a", "./..."})
	if want := [][]string{{"..", "-race"}, {"a", "./..."}}; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The error is that of go test, also if nothing can be built.
func TestFailuresAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		ok   bool
	}{
		"good":   {"func TestX(t *testing.T) {}", true},
		"set":    {`func TestX(t *testing.T) { if os.Getenv("GOTEST_TEST") != "a b" { t.Error("it is not set") } }`, true},
		"skips":  {`func TestX(t *testing.T) { t.Skip("no rig") }`, true},
		"bad":    {`func TestX(t *testing.T) { t.Error("no") }`, false},
		"broken": {"func TestX(t *testing.T) { none() }", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"go.mod": "module x\n", "x_test.go": "package x\nimport (\"os\"; \"testing\")\nvar _ = os.Args\n" + test.body + "\n"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			r := newReport(&out)
			run := []string{dir, "GOTEST_TEST=a b", "-vet=off", "./..."}
			runs := [][]string{run}
			if name == "skips" {
				runs = [][]string{run, run, run}
			}
			if failed := testAll(r, runs); failed == test.ok {
				t.Errorf("failed: %v\n%s", failed, out.String())
			}
			if n := len(r.skipped["no rig"]); (n == 3) != (name == "skips") {
				t.Errorf("skipped: %v", r.skipped)
			}
		})
	}
}

// After compile, go test with the same arguments compiles no package again: only the few lines of
// each test's main function, and it links.
func TestCompile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.com/never\n",
		"x.go":      fmt.Sprintf("package never\n\nconst Compiled = %q\n", dir),
		"x_test.go": fmt.Sprintf("package never\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { t.Log(Compiled, %q) }\n", dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := testRun{dir: dir, args: []string{"-timeout", "30m", "-vet=off", "-trimpath", "-ldflags=-s -w", "-parallel", "4", "-v", "-p", "2", "-run", "^(TestX)$", "./..."}, env: os.Environ()}
	compiled := func() bool {
		cmd := exec.Command("go", append([]string{"test", "-x", "-count=1"}, run.args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return regexp.MustCompile(`/compile .* -p example\.com/never `).Match(out)
	}
	run.compile(newReport(io.Discard))
	if compiled() {
		t.Error("go test has compiled something")
	}
	run.args = slices.Insert(run.args, 0, "-gcflags=-l")
	if !compiled() {
		t.Error("go test has compiled nothing with other flags, so this test can't fail")
	}
}
