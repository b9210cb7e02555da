package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// sharedVar names a folder of programs that other tests have built, without the change.
const sharedVar = "THOUGHTGATE_TEST_PROGRAMS"

// limit is how long the tests of one package may take.
const limit = 5 * time.Minute

// trier tries loosenings in the repository at root. What it writes goes into tmp.
type trier struct {
	root, tmp string
	sound     sync.Map // by test, a func() error that says whether it fails without any change
}

// outcome says what became of a loosening: the test that noticed it, or an error, or neither.
type outcome struct {
	noticed string
	err     error
	took    time.Duration
}

// tryAll tries loosenings, several at once, and prints each outcome in their order. It returns
// how many went unnoticed or could not be tried.
func (t *trier) tryAll(ctx context.Context, all []*loosening, jobs int) (failed int) {
	outcomes, free := make([]chan outcome, len(all)), make(chan struct{}, jobs)
	for i := range outcomes {
		outcomes[i] = make(chan outcome, 1)
	}
	go func() {
		for i, l := range all {
			free <- struct{}{}
			go func() {
				start := time.Now()
				noticed, err := t.try(ctx, l, filepath.Join(t.tmp, fmt.Sprint(i)))
				outcomes[i] <- outcome{noticed, err, time.Since(start)}
				<-free
			}()
		}
	}()
	for i, l := range all {
		o := <-outcomes[i]
		took := o.took.Round(100 * time.Millisecond)
		switch {
		case o.err != nil:
			fmt.Printf("ERROR      %v\n           %s: %v\n", l, l.place, o.err)
			failed++
		case o.noticed == "":
			fmt.Printf("UNNOTICED  %v\n           %s (%v)\n", l, l.place, took)
			failed++
		default:
			fmt.Printf("noticed    %v\n           by %s (%v)\n", l, o.noticed, took)
		}
	}
	return failed
}

// try returns the name of a test that notices l; empty if none does. It writes into dir.
func (t *trier) try(ctx context.Context, l *loosening, dir string) (string, error) {
	overlay, err := t.overlay(l, dir)
	if err != nil {
		return "", err
	}
	for _, test := range l.tests {
		if err := t.soundness(ctx, test); err != nil {
			return "", err
		}
		out, err := t.goTest(ctx, test, overlay)
		if err == nil {
			continue
		}
		noticed, err := judge(out, err)
		if err != nil {
			return "", err
		}
		return test.pkg + " " + noticed, nil
	}
	return "", nil
}

// overlay writes a changed copy of the file of l and returns the path of what -overlay reads.
func (t *trier) overlay(l *loosening, dir string) (string, error) {
	path := filepath.Join(t.root, filepath.FromSlash(l.file))
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	changed, err := l.apply(string(source))
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	with, list := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: with}})
	if err != nil {
		return "", err
	}
	return list, errors.Join(os.WriteFile(with, []byte(changed), 0o600), os.WriteFile(list, replace, 0o600))
}

// soundness returns an error if tests fail without any change: they would fail with each. It runs
// them once, or takes go test's word for an earlier run.
func (t *trier) soundness(ctx context.Context, of test) error {
	run, _ := t.sound.LoadOrStore(of, sync.OnceValue(func() error {
		out, err := t.goTest(ctx, of, "")
		switch {
		case err != nil:
			return fmt.Errorf("the tests of %s fail without the change: %w\n%s", of.pkg, err, out)
		case strings.Contains(out, "[no tests to run]") || strings.Contains(out, "[no test files]"):
			return fmt.Errorf("%s has no test that matches %q", of.pkg, of.run)
		}
		return nil
	}))
	return run.(func() error)()
}

// goTest runs tests until one fails, and returns what they printed. overlay is the file for
// -overlay, or empty. It is passed in GOFLAGS, so that it also holds for programs that tests build.
func (t *trier) goTest(ctx context.Context, of test, overlay string) (string, error) {
	args := []string{"test", "-tags", "grpcnotrace", "-vet=off", "-ldflags=-s -w", "-failfast", "-short", "-timeout", limit.String()}
	if of.run != "" {
		args = append(args, "-run", of.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+of.pkg)...)
	cmd.Dir, cmd.Env = t.root, append(os.Environ(), "CGO_ENABLED=0", sharedVar+"=")
	if overlay != "" {
		cmd.Args = append(cmd.Args, "-count=1") // a test of a program is itself the same without the change
		cmd.Env = append(cmd.Env, fmt.Sprintf("GOFLAGS=%s '-overlay=%s'", os.Getenv("GOFLAGS"), overlay))
	}
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return string(out), err
}

// failedTest finds the name of a failed test, or subtest, in what go test prints.
var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// judge returns which test failed in a run of go test that ended with failure, or an error if that
// run says nothing about the change.
func judge(out string, failure error) (string, error) {
	switch {
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return "", fmt.Errorf("it does not compile:\n%s", out)
	case strings.Contains(out, "panic: test timed out"):
		return "", fmt.Errorf("the tests took longer than %v", limit)
	}
	names := failedTest.FindAllStringSubmatch(out, -1)
	if len(names) == 0 {
		return "", fmt.Errorf("no test failed, but go test did: %w\n%s", failure, out)
	}
	return names[len(names)-1][1], nil
}
