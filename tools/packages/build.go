package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// program is one of our programs, built.
type program struct {
	name    string
	source  string // its folder in the repository
	place   string // installation folder below a prefix
	content []byte
}

// programNames are the programs, in the order in which they are listed.
var programNames = []string{"tg-fleet", "tg-shim", "tgctl", "thoughtgated"}

// extensionsIn is the folder of the included extensions, in the repository and below
// libexec/thoughtgate.
const extensionsIn = "extensions"

// extension is an included extension.
type extension struct {
	name   string
	module bool // a Go program with a module of its own
	main   bool // a Go program
}

// extensions returns the extensions of the repository, sorted by name.
func (r *release) extensions() ([]extension, error) {
	manifests, err := filepath.Glob(filepath.Join(r.top, extensionsIn, "*", "extension.yaml"))
	if err == nil && len(manifests) == 0 {
		err = fmt.Errorf("there is none in %s", extensionsIn)
	}
	var all []extension
	for _, path := range manifests {
		dir := filepath.Dir(path)
		has := func(name string) bool { _, err := os.Stat(filepath.Join(dir, name)); return err == nil }
		all = append(all, extension{name: filepath.Base(dir), module: has("go.mod"), main: has("main.go")})
	}
	return all, err
}

// programs builds our programs and those of the extensions for a platform, once.
func (r *release) programs(ctx context.Context, p platform) ([]program, error) {
	if built, ok := r.built[p]; ok {
		return built, nil
	}
	dir, err := os.MkdirTemp("", "packages-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var built []program
	for _, name := range programNames {
		place := "bin"
		if strings.HasPrefix(name, "tg-") { // users do not run them themselves
			place = "libexec/thoughtgate"
		}
		built = append(built, program{name: name, source: "cmd/" + name, place: place})
	}
	all, err := r.extensions()
	if err != nil {
		return nil, err
	}
	modules := []string{"."}
	for _, e := range all {
		if e.main {
			source := extensionsIn + "/" + e.name
			built = append(built, program{name: e.name, source: source, place: "libexec/thoughtgate/" + source})
		}
		if e.module {
			modules = append(modules, extensionsIn+"/"+e.name)
		}
	}
	for _, module := range modules {
		if err := r.build(ctx, p, module, built, dir); err != nil {
			return nil, err
		}
	}
	for i := range built {
		if built[i].content, err = os.ReadFile(filepath.Join(dir, built[i].name)); err != nil {
			return nil, err
		}
	}
	if r.built == nil {
		r.built = map[platform][]program{}
	}
	r.built[p] = built
	return built, nil
}

// moduleOf returns the module of the repository that a program is in.
func (r *release) moduleOf(one program) string {
	if _, err := os.Stat(filepath.Join(r.top, one.source, "go.mod")); err == nil {
		return one.source
	}
	return "."
}

// build builds the programs of a module into dir.
func (r *release) build(ctx context.Context, p platform, module string, programs []program, dir string) error {
	args := []string{"-C", module, "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace",
		"-ldflags", "-s -w -buildid= -X main.release=" + r.number, "-o", dir + string(filepath.Separator)}
	for _, one := range programs {
		if r.moduleOf(one) == module {
			path, err := filepath.Rel(module, one.source)
			if err != nil {
				return err
			}
			args = append(args, "./"+path)
		}
	}
	cmd := r.command(ctx, "go", args...)
	cmd.Env = append(cmd.Env, "GOOS="+p.os, "GOARCH="+p.arch)
	_, err := output(cmd)
	return err
}

// command returns a command that runs at the top of the repository, without the user's settings
// that would change the build.
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

// output runs cmd and returns its output. The error includes its standard error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[:2], " "), err, strings.TrimSpace(said.String()))
	}
	return out.Bytes(), nil
}

// texts are the files that are the same on all platforms.
type texts struct {
	man         []file // named as tgctl.1
	completions map[string][]byte
	units       []file // for systemd
	launchd     []file
	docs        []file // README.md, docs/policies.md and so on
	extensions  []file // without their programs, as libexec/thoughtgate/extensions/scrubber/extension.yaml
	license     []byte
	copyright   []byte
	overrides   []byte
}

// texts gets manual pages and completions from a tgctl for this machine, and reads the rest
// from the repository.
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

// read adds the files of the repository.
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
		{&t.docs, "docs/pictures", "docs/pictures/", "*.[sp][vn]g"},
	} {
		found, err := below(filepath.Join(r.top, part.dir), part.prefix, part.pattern)
		if err != nil {
			return err
		}
		*part.to = append(*part.to, found...)
	}
	if t.extensions, err = r.extensionFiles(); err != nil {
		return err
	}
	for name, to := range map[string]*[]byte{
		"LICENSE":                         &t.license,
		"packaging/deb/copyright":         &t.copyright,
		"packaging/deb/lintian-overrides": &t.overrides,
	} {
		if *to, err = os.ReadFile(filepath.Join(r.top, name)); err != nil {
			return err
		}
	}
	return nil
}

// extensionFiles returns the manifests and pages of the extensions, and the programs that are
// not in Go, without their tests.
func (r *release) extensionFiles() ([]file, error) {
	all, err := r.extensions()
	var files []file
	for _, e := range all {
		dir, prefix := filepath.Join(r.top, extensionsIn, e.name), "libexec/thoughtgate/"+extensionsIn+"/"+e.name+"/"
		for _, pattern := range []string{"extension.yaml", "README.md"} {
			found, err := below(dir, prefix, pattern)
			if err != nil {
				return nil, err
			}
			files = append(files, found...)
		}
		if e.main {
			continue
		}
		scripts, err := below(dir, prefix, "*.py")
		if err != nil {
			return nil, err
		}
		files = append(files, slices.DeleteFunc(scripts, func(f file) bool { return strings.HasPrefix(path.Base(f.path), "test_") })...)
	}
	return files, err
}

// below reads the files of dir that match pattern and prepends prefix to their names. No match
// is an error.
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
