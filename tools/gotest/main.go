// Gotest runs `go test` and prints its output, followed by the tests that were skipped, each
// with its reason: nobody misses a test whose skip nobody sees.
//
// Usage:
//
//	go run -C tools ./gotest FOLDER [NAME=VALUE...] ARGUMENT... [-- FOLDER ...]...
//
// It runs `go test ARGUMENT...` in each FOLDER, with the variables NAME set to VALUE, two at a time:
// while one waits for its last package, another can go on. If one fails, the others still run. First
// it compiles the packages of all: tests have deadlines, and would share the machine with the compiler
// where nothing is compiled yet. Its
// exit code is 0 if all runs succeeded, and 1 otherwise. The packages share the programs that they
// build, in a folder that gotest removes.
//
// An ARGUMENT race:PATTERN or plain:PATTERN stands for some tests of the packages that match: for
// those that run with the race detector, or for the others. Each test belongs to one of them. It
// runs with the race detector if its package has product code, and that or its tests start
// goroutines or lock. A comment above a test, or above the package clause in a file of tests for
// all that have none, says otherwise and why:
//
//	//gotest:plain REASON
//	//gotest:race REASON
//
// With GOTEST_CPU=1, it lists at the end how many CPU seconds the tests of each package have taken,
// with the programs that they started and waited for, and what compiling and each run of go test
// took, the run with its tests. go test uses no earlier result then.
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// sharedVar tells internal/test/programs where.
const sharedVar = "THOUGHTGATE_TEST_PROGRAMS"

// cpuVar asks for CPU seconds.
const cpuVar = "GOTEST_CPU"

func main() {
	if len(os.Args) > 2 && os.Args[1] == measureArg {
		os.Exit(measure(os.Args[2:]))
	}
	os.Exit(run())
}

func run() int {
	// A signal that ends the tests ends go test, whose last output must still be printed.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
	runs := split(os.Args[1:])
	if len(runs) == 0 {
		fmt.Fprintln(os.Stderr, "usage: gotest FOLDER [NAME=VALUE...] ARGUMENT... [-- FOLDER ...]...")
		return 2
	}
	shared, err := os.MkdirTemp("", "tg-programs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 1
	}
	defer os.RemoveAll(shared)
	if err := os.Setenv(sharedVar, shared); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 1
	}
	r := newReport(os.Stdout)
	failed := testAll(r, runs)
	r.printSkips()
	r.printCPU()
	if failed {
		return 1
	}
	return 0
}

// atOnce is the number of runs of go test at the same time.
const atOnce = 2

// testAll runs go test for each element of all, and reports whether one failed.
func testAll(r *report, all [][]string) bool {
	var wait sync.WaitGroup
	var failed atomic.Bool
	turns := make(chan struct{}, atOnce)
	fail := func(dir string, err error) {
		fmt.Fprintf(os.Stderr, "gotest: go test in %s: %v\n", dir, err)
		failed.Store(true)
	}
	var runs []testRun
	for _, args := range all {
		of, err := runsIn(args[0], args[1:])
		if err != nil {
			fail(args[0], err)
		}
		runs = append(runs, of...)
	}
	for _, run := range runs {
		run.compile(r)
	}
	for _, run := range runs {
		turns <- struct{}{}
		wait.Go(func() {
			defer func() { <-turns }()
			if err := run.goTest(r); err != nil {
				fail(run.dir, err)
			}
		})
	}
	wait.Wait()
	return failed.Load()
}

// split returns the arguments between each "--".
func split(args []string) (runs [][]string) {
	for len(args) > 0 {
		end := slices.Index(args, "--")
		if end < 0 {
			end = len(args)
		}
		if end > 0 {
			runs = append(runs, args[:end])
		}
		args = args[min(end+1, len(args)):]
	}
	return runs
}

// variable matches an assignment to an environment variable.
var variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]*=`)

// testRun is one run of go test.
type testRun struct {
	dir       string
	args, env []string
}

// runsIn returns the runs for the arguments of one folder. If it fails, it returns none.
func runsIn(dir string, args []string) (runs []testRun, err error) {
	n := 0
	for n < len(args) && variable.MatchString(args[n]) {
		n++
	}
	env := append(os.Environ(), args[:n]...)
	chosen, err := choose(dir, args[n:], env)
	if err != nil {
		return nil, err
	}
	for _, args := range chosen {
		runs = append(runs, testRun{dir, args, env})
	}
	return runs, nil
}

// ofTests matches a flag of go test that go list does not have. Its value follows if there is no "=".
var ofTests = regexp.MustCompile(`^-(count|parallel|run|short|skip|timeout|v|vet)(=|$)`)

// compile compiles the packages and their tests, which go list -export does without linking any.
// What can't be compiled go test will report.
func (t testRun) compile(r *report) {
	args := []string{"list", "-export", "-deps", "-test"}
	for i := 0; i < len(t.args); i++ {
		switch m := ofTests.FindStringSubmatch(t.args[i]); {
		case m == nil:
			args = append(args, t.args[i])
		case m[1] != "short" && m[1] != "v" && m[2] == "":
			i++
		}
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = t.dir, t.env
	_ = cmd.Run()
	r.addRun("go list -export", t, cpu(cmd))
}

// goTest runs go test. Its error is that of go test.
func (t testRun) goTest(r *report) error {
	args := []string{"test", "-json"}
	if os.Getenv(cpuVar) != "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		args = append(args, "-exec", self+" "+measureArg)
	}
	cmd := exec.Command("go", append(args, t.args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = t.dir, t.env, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := r.read(out); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		_, _ = io.Copy(os.Stdout, out) // as it arrives: go test must not wait for a reader
	}
	err = cmd.Wait()
	r.addRun("go test", t, cpu(cmd))
	return err
}
