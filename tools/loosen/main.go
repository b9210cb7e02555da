// Loosen makes the code that decides looser, in one place at a time, and reports each change that
// no test notices.
//
// Usage:
//
//	go run -C tools ./loosen [-run REGEXP] [-j N] FOLDER
//
// FOLDER is the root of the repository. The changes stand in tools/loosen/loosenings.txt, whose
// head says how they are written. The tree is never touched: each change goes into a copy of its
// file, and `go test -overlay` reads the copy in the file's place.
//
// The exit code is 0 if tests noticed each change. It is 1 if one went unnoticed, or could not be
// tried: its old text does not occur exactly once, it does not compile, its tests took too long, or
// they fail without it, too. Then the place in loosenings.txt is printed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

// dataFile is where the loosenings stand, below the root.
const dataFile = "tools/loosen/loosenings.txt"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx)
	stop()
	os.Exit(code)
}

func run(ctx context.Context) int {
	only := flag.String("run", "", "try only the changes whose file and description, as printed, match `REGEXP`")
	jobs := flag.Int("j", runtime.NumCPU(), "try `N` changes at once")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: loosen [-run REGEXP] [-j N] FOLDER")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 || *jobs < 1 {
		flag.Usage()
		return 2
	}
	chosen, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "loosen: -run:", err)
		return 2
	}
	ok, err := campaign(ctx, flag.Arg(0), chosen, *jobs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "loosen:", err)
	}
	if err != nil || !ok {
		return 1
	}
	return 0
}

// campaign tries the chosen loosenings and prints what became of each. It reports whether tests
// noticed all of them.
func campaign(ctx context.Context, folder string, chosen *regexp.Regexp, jobs int) (bool, error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return false, err
	}
	data, err := os.ReadFile(filepath.Join(root, dataFile))
	if err != nil {
		return false, err
	}
	all, err := parse(dataFile, string(data))
	if err != nil {
		return false, err
	}
	var some []*loosening
	for _, l := range all {
		if chosen.MatchString(l.String()) {
			some = append(some, l)
		}
	}
	if len(some) == 0 {
		return false, fmt.Errorf("none of the %d changes is chosen", len(all))
	}
	tmp, err := os.MkdirTemp("", "tg-loosen-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	start, t := time.Now(), &trier{root: root, tmp: tmp}
	failed := t.tryAll(ctx, some, jobs)
	fmt.Printf("loosen: %d of %d changes noticed, in %v\n", len(some)-failed, len(some), time.Since(start).Round(time.Second))
	return failed == 0, ctx.Err()
}
