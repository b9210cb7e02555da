package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each test runs either with the race detector or without it: code that starts goroutines or locks
// with it, unless a mark says otherwise.
func TestChoose(t *testing.T) {
	const test = "package x\nimport \"testing\"\n"
	for name, c := range map[string]struct {
		files map[string]string
		race  []string // the others run without
		bad   bool
	}{
		"one after the other": {files: map[string]string{"x.go": "package x\n", "x_test.go": test + "func TestA(t *testing.T) {}\nfunc FuzzB(f *testing.F) {}\n"}},
		"goroutine":           {files: map[string]string{"x.go": "package x\nfunc f() { go f() }\n", "x_test.go": test + "func TestA(t *testing.T) {}\nfunc FuzzB(f *testing.F) {}\n"}, race: []string{"FuzzB", "TestA"}},
		"lock":                {files: map[string]string{"x.go": "package x\nimport \"sync\"\nvar l sync.Mutex\n", "x_test.go": test + "func TestA(t *testing.T) {}\n"}, race: []string{"TestA"}},
		"tests at once":       {files: map[string]string{"x.go": "package x\n", "x_test.go": test + "func TestA(t *testing.T) { t.Parallel() }\n"}, race: []string{"TestA"}},
		"goroutine of a test": {files: map[string]string{"x.go": "package x\n", "y_test.go": "package x_test\nimport \"testing\"\nfunc TestA(t *testing.T) { go println() }\n"}, race: []string{"TestA"}},
		"tests alone":         {files: map[string]string{"x_test.go": test + "func TestA(t *testing.T) { go println() }\n"}},
		"marked": {files: map[string]string{"x.go": "package x\nfunc f() { go f() }\n",
			"x_test.go": test + "func TestA(t *testing.T) {}\n// TestB is long.\n//\n//gotest:plain it is long\nfunc TestB(t *testing.T) {}\n"}, race: []string{"TestA"}},
		"marked whole": {files: map[string]string{"x.go": "package x\nfunc f() { go f() }\n",
			"x_test.go": "//gotest:plain all is long\n" + test + "func TestA(t *testing.T) {}\n//gotest:race it locks\nfunc TestB(t *testing.T) {}\nfunc TestC(t *testing.T) {}\n"}, race: []string{"TestB"}},
		"no reason":   {files: map[string]string{"x_test.go": test + "//gotest:plain\nfunc TestA(t *testing.T) {}\n"}, bad: true},
		"misspelled":  {files: map[string]string{"x_test.go": test + "//gotest:plian it is long\nfunc TestA(t *testing.T) {}\n"}, bad: true},
		"wrong place": {files: map[string]string{"x_test.go": test + "func TestA(t *testing.T) {\n//gotest:plain it is long\n}\n"}, bad: true},
		"same names":  {files: map[string]string{"x.go": "package x\nfunc f() { go f() }\n", "x_test.go": test + "func TestA(t *testing.T) {}\nfunc TestB(t *testing.T) {}\n//gotest:plain it is long\nfunc TestC(t *testing.T) {}\n", "y/y.go": "package y\nfunc f() { go f() }\n", "y/y_test.go": "package y\nimport \"testing\"\nfunc TestC(t *testing.T) {}\n"}, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"go.mod": "module x\n"} {
				c.files[file] = text
			}
			for file, text := range c.files {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			all := regexp.MustCompile(`(?m)^func ((Test|Fuzz)\w+)\(`).FindAllStringSubmatch(c.files["x_test.go"]+c.files["y_test.go"], -1)
			ran := map[bool][]string{}
			for race, argument := range map[bool]string{true: "race:./...", false: "plain:./..."} {
				runs, err := choose(dir, []string{"-short", argument}, os.Environ())
				if c.bad {
					if race && err == nil {
						t.Errorf("%s is accepted: %q", argument, runs)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, args := range runs {
					for _, name := range all {
						if selects(t, args, name[1]) {
							ran[race] = append(ran[race], name[1])
						}
					}
				}
			}
			slices.Sort(ran[true])
			if !c.bad && (!slices.Equal(ran[true], c.race) || len(ran[true])+len(ran[false]) != len(all)) {
				t.Errorf("with the race detector run %q, want %q; without %q", ran[true], c.race, ran[false])
			}
		})
	}
}

// selects reports whether go test runs a test with these arguments, of which the last is the
// package.
func selects(t *testing.T, args []string, name string) bool {
	t.Helper()
	if args[0] != "-short" || args[len(args)-1] != "x" {
		t.Fatalf("go test %s", args)
	}
	for i, arg := range args {
		if matches := arg == "-run" || arg == "-skip"; matches {
			if regexp.MustCompile(args[i+1]).MatchString(name) != (arg == "-run") {
				return false
			}
		}
	}
	return true
}

// What make test runs without the race detector is what make test-all runs with it.
func TestMakeRunsAll(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string][]string{
		"test":     {".. $(RACE) $(TESTFLAGS) -p 2 race:./...", ".. $(PLAIN) $(TESTFLAGS) -p 2 plain:./..."},
		"test-all": {".. $(RACE) $(TESTFLAGS) plain:./..."},
	} {
		_, rules, _ := strings.Cut(string(text), "\n"+target+":")
		rules, _, _ = strings.Cut(rules, "\n\n")
		for _, want := range want {
			if !strings.Contains(rules, want) {
				t.Errorf("make %s does not run go test with %s", target, want)
			}
		}
	}
}

// Each campaign that the Makefile names is there: go test runs nothing where a test has moved.
func TestMakeNamesTests(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`test .*-run '?\^?(Test\w+).* (\./\S+)`).FindAllStringSubmatch(string(text), -1)
	if len(named) < 8 {
		t.Fatalf("%d tests are named, of more: %q", len(named), named)
	}
	for _, m := range named {
		files, err := filepath.Glob(filepath.Join("../..", m[2], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+m[1])
		}) {
			t.Errorf("no test in %s begins with %s", m[2], m[1])
		}
	}
}
