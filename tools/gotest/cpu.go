package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// measureArg makes this program the one that go test starts a test with.
const measureArg = "measure"

// measured matches the line that measure prints.
var measured = regexp.MustCompile(`^gotest: ([0-9.]+) CPU seconds\n$`)

// measure runs a test, prints its CPU time, and returns its exit code.
func measure(command []string) int {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGQUIT, syscall.SIGTERM, os.Interrupt)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 1
	}
	go func() {
		for s := range signals { // go test asks a test that takes too long for its stacks
			_ = cmd.Process.Signal(s)
		}
	}()
	_ = cmd.Wait() // the exit code says so
	fmt.Printf("gotest: %.2f CPU seconds\n", cpu(cmd).Seconds())
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	return 2
}

// cpu returns what a program that has ended took, with those that it started and waited for.
func cpu(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// spent is the CPU time of the tests of a package, or of a whole run of go test.
type spent struct {
	what  string
	whole bool
	cpu   time.Duration
}

// addTests takes the line that measure printed.
func (r *report) addTests(pkg, line string) {
	seconds, err := strconv.ParseFloat(measured.FindStringSubmatch(line)[1], 64)
	if err != nil {
		r.print(line)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spent = append(r.spent, spent{pkg, false, time.Duration(seconds * float64(time.Second))})
}

// addRun takes the CPU time of a command for t.
func (r *report) addRun(command string, t testRun, cpu time.Duration) {
	what := command + " in " + t.dir
	for _, flag := range []string{"-race", "-skip", "-run"} {
		if slices.Contains(t.args, flag) {
			what += " " + flag
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spent = append(r.spent, spent{what, true, cpu})
}

// printCPU lists what the tests of each package took, the dearest first, and each command.
func (r *report) printCPU() {
	if os.Getenv(cpuVar) == "" {
		return
	}
	var tests time.Duration
	slices.SortStableFunc(r.spent, func(a, b spent) int { return int(b.cpu - a.cpu) })
	fmt.Fprintln(r.to, "\nCPU seconds:")
	for _, s := range r.spent {
		if !s.whole {
			tests += s.cpu
			fmt.Fprintf(r.to, "%8.1f  %s\n", s.cpu.Seconds(), strings.TrimPrefix(s.what, "github.com/thoughtgate/thoughtgated/"))
		}
	}
	fmt.Fprintf(r.to, "%8.1f  all tests\n", tests.Seconds())
	for _, s := range r.spent {
		if s.whole {
			fmt.Fprintf(r.to, "%8.1f  %s\n", s.cpu.Seconds(), s.what)
		}
	}
}
