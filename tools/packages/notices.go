package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// legal matches the names of files that must accompany copies of a module.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)([.-].*)?$`)

// notices returns the licenses of everything that is linked into the programs: most require
// that their text accompanies every copy. A module without one is an error.
func (r *release) notices(ctx context.Context, programs []program) ([]byte, error) {
	dirs := map[string]string{}
	modules := map[string]string{} // paths, by path and version
	for _, one := range programs {
		if err := r.moduleDirs(ctx, r.moduleOf(one), dirs); err != nil {
			return nil, err
		}
		inside, err := linked(one)
		if err != nil {
			return nil, err
		}
		for _, m := range inside {
			modules[key(m.Path, m.Version)] = m.Path
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "ThoughtGate %s is linked with the modules below, whose licenses follow.\n"+
		"The source of each is what `go mod download` fetches under its name; the bill of materials has the versions.\n", r.number)
	before := "" // the previous notice, which is often the same for another version
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		texts, err := legalTexts(dirs[name])
		if err != nil {
			return nil, fmt.Errorf("licenses of %s: %w", name, err)
		}
		if len(texts) == 0 {
			return nil, fmt.Errorf("there is no license of %s in %s", name, dirs[name])
		}
		var one bytes.Buffer
		notice(&one, modules[name], texts)
		if one.String() != before {
			b.Write(one.Bytes())
		}
		before = one.String()
	}
	// Data that was copied from other projects has its license beside it.
	for _, kept := range []string{"daemon/facts/rules.LICENSE"} {
		content, err := os.ReadFile(filepath.Join(r.top, kept))
		if err != nil {
			return nil, err
		}
		notice(&b, "the rules that secrets are found by", []file{text(filepath.Base(kept), content)})
	}
	return b.Bytes(), nil
}

func notice(b *bytes.Buffer, of string, texts []file) {
	fmt.Fprintf(b, "\n%s\n%s\n", strings.Repeat("=", 78), of)
	for _, t := range texts {
		fmt.Fprintf(b, "\n---- %s\n\n%s\n", t.path, strings.TrimRight(string(bytes.ReplaceAll(t.content, []byte("\r"), nil)), "\n"))
	}
}

// key returns the name of a module in one version. The standard library has no version of its
// own: it is that of the Go that builds.
func key(path, version string) string {
	if path == "std" {
		return path
	}
	return path + "@" + version
}

// moduleDirs adds to dirs the source folder on this machine of each module that a module of the
// repository requires, by key.
func (r *release) moduleDirs(ctx context.Context, of string, dirs map[string]string) error {
	out, err := output(r.command(ctx, "go", "-C", of, "list", "-m", "-f", "{{.Path}}@{{.Version}}\t{{.Dir}}", "all"))
	if err != nil {
		return err
	}
	root, err := output(r.command(ctx, "go", "env", "GOROOT"))
	if err != nil {
		return err
	}
	dirs["std"] = strings.TrimSpace(string(root))
	for line := range strings.Lines(string(out)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if dir != "" { // otherwise it is in the graph, but not built
			dirs[name] = dir
		}
	}
	return nil
}

func legalTexts(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []file
	for _, entry := range entries {
		if !legal.MatchString(entry.Name()) || entry.Type()&fs.ModeType != 0 {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, text(entry.Name(), content))
	}
	return texts, nil
}
