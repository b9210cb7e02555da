package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// program is one of ours, built.
type program struct {
	name    string
	content []byte
}

// programNames are the three, in the order in which they are listed.
var programNames = []string{"tg-shim", "tgctl", "thoughtgated"}

// programs builds the three for a platform, once.
func (r *release) programs(ctx context.Context, p platform) ([]program, error) {
	if built, ok := r.built[p]; ok {
		return built, nil
	}
	dir, err := os.MkdirTemp("", "packages-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := r.build(ctx, p, dir); err != nil {
		return nil, err
	}
	var built []program
	for _, name := range programNames {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		built = append(built, program{name, content})
	}
	if r.built == nil {
		r.built = map[platform][]program{}
	}
	r.built[p] = built
	return built, nil
}

// build puts the three programs into dir.
func (r *release) build(ctx context.Context, p platform, dir string) error {
	args := []string{"build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace",
		"-ldflags", "-s -w -buildid= -X main.release=" + r.number, "-o", dir + string(filepath.Separator)}
	for _, name := range programNames {
		args = append(args, "./cmd/"+name)
	}
	cmd := r.command(ctx, "go", args...)
	cmd.Env = append(cmd.Env, "GOOS="+p.os, "GOARCH="+p.arch)
	_, err := output(cmd)
	return err
}

// command is a command at the top of the repository, without the settings of
// who builds that would change what is built.
func (r *release) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = r.top
	for _, entry := range os.Environ() {
		switch key, _, _ := strings.Cut(entry, "="); key {
		case "GOFLAGS", "GOEXPERIMENT", "GOFIPS140", "GOARM64", "GOAMD64", "GOWORK", "GOOS", "GOARCH", "CGO_ENABLED", "SOURCE_DATE_EPOCH":
		default:
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0",
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
	return cmd
}

// output runs cmd and returns what it prints; its complaints are in the error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[:2], " "), err, strings.TrimSpace(said.String()))
	}
	return out.Bytes(), nil
}

// texts is what is the same on all platforms.
type texts struct {
	man         []file // by name, as tgctl.1
	completions map[string][]byte
	units       []file // for systemd
	launchd     []file
	docs        []file // README.md, docs/policies.md and so on
	license     []byte
	copyright   []byte
	overrides   []byte
}

// texts asks a tgctl for this machine for pages and completions, and reads the
// rest from the repository.
func (r *release) texts(ctx context.Context) (*texts, error) {
	dir, err := os.MkdirTemp("", "packages-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	here, err := r.programs(ctx, platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	for _, p := range here {
		if err := os.WriteFile(filepath.Join(dir, p.name), p.content, 0o755); err != nil {
			return nil, err
		}
	}
	tgctl := filepath.Join(dir, "tgctl")
	pages := filepath.Join(dir, "man")
	if _, err := output(r.command(ctx, tgctl, "man", pages)); err != nil {
		return nil, err
	}
	t := &texts{completions: map[string][]byte{}}
	if t.man, err = below(pages, "", "*"); err != nil {
		return nil, err
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if t.completions[shell], err = output(r.command(ctx, tgctl, "completion", shell)); err != nil {
			return nil, err
		}
	}
	return t, r.read(t)
}

// read adds what lies in the repository.
func (r *release) read(t *texts) error {
	written, err := below(filepath.Join(r.top, "packaging/man"), "", "*.[1-8]")
	if err != nil {
		return err
	}
	stamp := strings.NewReplacer("@VERSION@", r.number, "@DATE@", r.date.Format("2006-01-02"))
	for _, page := range written {
		page.content = []byte(stamp.Replace(string(page.content)))
		t.man = append(t.man, page)
	}
	for _, part := range []struct {
		to          *[]file
		dir, prefix string
		pattern     string
	}{
		{&t.units, "contrib/systemd", "", "*.s[eo]*"}, // services and sockets
		{&t.launchd, "contrib/launchd", "", "*.plist"},
		{&t.launchd, "contrib/launchd", "", "*.md"},
		{&t.docs, "", "", "[A-Z]*.md"},
		{&t.docs, "docs", "docs/", "*.md"},
	} {
		found, err := below(filepath.Join(r.top, part.dir), part.prefix, part.pattern)
		if err != nil {
			return err
		}
		*part.to = append(*part.to, found...)
	}
	for path, to := range map[string]*[]byte{
		"LICENSE":                         &t.license,
		"packaging/deb/copyright":         &t.copyright,
		"packaging/deb/lintian-overrides": &t.overrides,
	} {
		if *to, err = os.ReadFile(filepath.Join(r.top, path)); err != nil {
			return err
		}
	}
	return nil
}

// below reads the files of dir that match pattern, of which there must be some,
// and puts prefix before their names.
func below(dir, prefix, pattern string) ([]file, error) {
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no %s in %s", pattern, dir)
	}
	var files []file
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, text(prefix+filepath.Base(name), content))
	}
	return files, nil
}
