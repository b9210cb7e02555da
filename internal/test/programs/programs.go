// Package programs builds thoughtgated, tg-shim, tg-fleet and tgctl for tests, once for all packages of a
// run of `make test`: linking them takes longer than most tests.
package programs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// sharedVar names a folder in which the packages of one run share programs. Who sets it
// removes the folder. It must not outlive a change of the source.
const sharedVar = "THOUGHTGATE_TEST_PROGRAMS"

// Module is the prefix of the programs' import paths.
const Module = "github.com/thoughtgate/thoughtgated/"

// Release is the version of the programs.
const Release = "v0.0.0-test"

// RaceFlags are the flags with which go build builds a program with the race detector. `make
// test` builds the tests with the same flags, and -trimpath, so that packages are compiled once
// for both.
// SQLite is excluded, since the detector spent most of its time there: it is C code translated
// to Go, with a C library, and its driver, which is included, serializes access with a lock. So is
// Argon2, which starts goroutines that share nothing but its own memory.
var RaceFlags = []string{
	"-race",
	"-gcflags=modernc.org/sqlite/lib=-race=0 -d=checkptr=0",
	"-gcflags=modernc.org/libc/...=-race=0 -d=checkptr=0",
	"-gcflags=modernc.org/memory=-race=0 -d=checkptr=0",
	"-gcflags=golang.org/x/crypto/argon2=-race=0 -d=checkptr=0",
	"-gcflags=golang.org/x/crypto/blake2b=-race=0 -d=checkptr=0",
}

// all are the names of the programs.
var all = []string{"thoughtgated", "tg-shim", "tg-fleet", "tgctl"}

// PlaceIn puts the programs, as they ship, into a folder that the caller owns.
func PlaceIn(dir string) error {
	built, remove, err := Dir(false)
	if err != nil {
		return err
	}
	defer remove()
	for _, name := range all {
		if err := os.Link(filepath.Join(built, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// Dir returns the folder of the programs, as they ship or with the race detector. remove
// must be called when they are not needed any more. On an error nothing is left.
func Dir(race bool) (dir string, remove func(), err error) {
	shared := os.Getenv(sharedVar)
	if shared == "" {
		if dir, remove, err = tempdir.Make("", "tg-bin-"); err != nil {
			return "", nil, err
		}
		if err := Build(dir, race, all); err != nil {
			remove()
			return "", nil, err
		}
		return dir, remove, nil
	}
	dir = filepath.Join(shared, map[bool]string{true: "race", false: "shipped"}[race])
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", nil, os.NewSyscallError("flock", err)
	}
	if _, err = os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err = Build(dir+"~", race, all); err == nil {
			err = os.Rename(dir+"~", dir)
		}
	}
	if err != nil {
		return "", nil, err
	}
	return dir, func() {}, nil
}

// Build builds programs, which are folders of cmd, into a folder with more flags of go build.
func Build(dir string, race bool, names []string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", "-s -w -X main.release=" + Release, "-o", dir + "/"}, flags...)
	cgo := "CGO_ENABLED=0"
	if race {
		args, cgo = append(args, RaceFlags...), "CGO_ENABLED=1"
	}
	for _, name := range names {
		args = append(args, Module+"cmd/"+name)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

// Raced reports whether programs whose concurrency is tested get the race detector: in `make test`,
// which has made sure that there is a C compiler, and where the tests have it.
func Raced() bool { return os.Getenv(sharedVar) != "" || UnderRace() }

// UnderRace reports whether the tests run under the race detector.
func UnderRace() bool {
	info, _ := debug.ReadBuildInfo()
	for i := 0; info != nil && i < len(info.Settings); i++ {
		if s := info.Settings[i]; s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}
