// Packages makes what a release of ThoughtGate consists of: deb and rpm packages,
// archives, a Homebrew formula, a bill of materials for each platform, and the
// sums of them all.
//
// A step makes files in memory (content.go) from what go build, tgctl and the
// repository give; the next puts them into an archive or a package. Nothing that
// differs between machines enters: all times are that of the commit, all owners
// root, and the programs hold no path of the folder they were built in. So who
// builds the same commit with the same Go gets the same sums.
//
// It is a module of its own, so that nfpm and what it needs stay out of those of
// the programs and of the other tools.
//
// Usage:
//
//	go -C tools/packages run . -version V -epoch SECONDS [-top DIR] [-out DIR] [-platforms LIST]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

// everywhere are the platforms that a release is made for.
const everywhere = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("packages", flag.ContinueOnError)
	version := flags.String("version", "", "what git describe says of the commit")
	epoch := flags.Int64("epoch", 0, "when the commit was made, in seconds since 1970")
	top := flags.String("top", "../..", "the top of the repository")
	out := flags.String("out", "../../dist", "where to put what is made; what lies there is removed")
	platforms := flags.String("platforms", everywhere, "for which platforms")
	if err := flags.Parse(args); err != nil {
		return err
	}
	number, err := packageVersion(*version, time.Unix(*epoch, 0))
	if err != nil {
		return err
	}
	if *epoch <= 0 {
		return fmt.Errorf("-epoch is %d; it is the time of the commit", *epoch)
	}
	r := &release{number: number, date: time.Unix(*epoch, 0).UTC(), top: *top}
	var targets []platform
	for _, name := range strings.Split(*platforms, ",") {
		system, arch, ok := strings.Cut(name, "/")
		if !ok {
			return fmt.Errorf("-platforms has %q; a platform is written as linux/amd64", name)
		}
		targets = append(targets, platform{system, arch})
	}
	return r.make(ctx, targets, *out)
}

// release is one state of the sources, of which packages are made.
type release struct {
	number string    // as packages have it, so that later ones are greater
	date   time.Time // of the commit, in UTC
	top    string    // of the repository

	built map[platform][]program
}

// platform is what programs are built for, in the words of Go.
type platform struct{ os, arch string }

// make leaves in out what is made for targets, and nothing else.
func (r *release) make(ctx context.Context, targets []platform, out string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	texts, err := r.texts(ctx)
	if err != nil {
		return err
	}
	archives := map[platform]string{} // their names
	for _, p := range targets {
		fmt.Fprintf(os.Stderr, "packages: %s/%s\n", p.os, p.arch)
		if archives[p], err = r.makeFor(ctx, p, texts, out); err != nil {
			return fmt.Errorf("%s/%s: %w", p.os, p.arch, err)
		}
	}
	if err := r.formula(archives, out); err != nil {
		return err
	}
	return sums(out)
}

// makeFor makes what is made for one platform, and returns the archive's name.
func (r *release) makeFor(ctx context.Context, p platform, texts *texts, out string) (string, error) {
	programs, err := r.programs(ctx, p)
	if err != nil {
		return "", err
	}
	notices, err := r.notices(ctx, programs)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("thoughtgate-%s-%s-%s", r.archiveVersion(), p.os, p.arch)
	bom, err := r.bom(ctx, p, programs)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(out, name+".cdx.json"), bom, 0o644); err != nil {
		return "", err
	}
	archive, err := r.archive(name, forArchive(p, programs, texts, notices))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(out, name+".tar.gz"), archive, 0o644); err != nil {
		return "", err
	}
	if p.os != "linux" {
		return name + ".tar.gz", nil
	}
	return name + ".tar.gz", r.linuxPackages(p, programs, texts, notices, out)
}
