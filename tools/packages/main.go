// Packages creates the files of a release of ThoughtGate: deb and rpm packages, archives, a
// Homebrew formula, a bill of materials for each platform, and the checksums of all of them.
//
// A first step creates files in memory (content.go) from go build, tgctl and the repository;
// a second step puts them into an archive or a package. Nothing that differs between machines
// is included: all times are that of the commit, all owners are root, and the programs do not
// contain the path of the build folder. So building the same commit with the same Go gives the
// same checksums.
//
// It is a separate module, so that nfpm and its dependencies stay out of the modules of the
// programs and of the other tools.
//
// Usage:
//
//	go -C tools/packages run . -version V -epoch SECONDS [-top DIR] [-out DIR] [-platforms LIST]
package main

import (
	"compress/gzip"
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

// everywhere lists the platforms of a release.
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
	r := &release{number: number, date: time.Unix(*epoch, 0).UTC(), top: *top, level: gzip.BestCompression}
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

// release is one state of the sources, to be packaged.
type release struct {
	number string    // version in the form of packages, so that later ones are greater
	date   time.Time // of the commit, in UTC
	top    string    // of the repository
	level  int       // of the compression of archives and packages: tests can't wait for the best

	built map[platform][]program
}

// platform is a target platform, with Go's names.
type platform struct{ os, arch string }

// make creates in out the files for targets, and removes everything else there.
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
	archives := map[platform]string{} // names
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

// makeFor creates the files for one platform and returns the archive's name.
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
