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

// legal are the names of files that have to go with copies of a module.
var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|patents)([.-].*)?$`)

// notices are the licenses of all that is linked into the programs: most ask
// that their text goes with every copy. A module without one is an error.
func (r *release) notices(ctx context.Context, programs []program) ([]byte, error) {
	dirs, err := r.moduleDirs(ctx)
	if err != nil {
		return nil, err
	}
	paths := map[string]bool{}
	for _, one := range programs {
		modules, err := linked(one)
		if err != nil {
			return nil, err
		}
		for _, m := range modules {
			paths[m.Path] = true
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "ThoughtGate %s is linked with the modules below, whose licenses follow.\n", r.number)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		dir := dirs[path]
		texts, err := legalTexts(dir)
		if err != nil {
			return nil, fmt.Errorf("licenses of %s: %w", path, err)
		}
		if len(texts) == 0 {
			return nil, fmt.Errorf("there is no license of %s in %s", path, dir)
		}
		notice(&b, path, texts)
	}
	// What was taken over as data has its license beside it.
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

// moduleDirs says where the source of each module lies on this machine.
func (r *release) moduleDirs(ctx context.Context) (map[string]string, error) {
	out, err := output(r.command(ctx, "go", "list", "-m", "-f", "{{.Path}}\t{{.Dir}}", "all"))
	if err != nil {
		return nil, err
	}
	root, err := output(r.command(ctx, "go", "env", "GOROOT"))
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{"std": strings.TrimSpace(string(root))}
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		dirs[path] = dir
	}
	return dirs, nil
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
