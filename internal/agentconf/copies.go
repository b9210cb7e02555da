package agentconf

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mostOfCopies bounds how many bytes of the files beside a configuration are read
// in search of copies.
const mostOfCopies = 64 << 20

// copiesOf finds copies that an agent made of its file at path while our lines of a
// wrap stood in it, such as settings.json.orig: beside it, and in a folder backups
// there. They outlive the wrap, and an agent may go back to them. own are the files
// that the agent reads, which are looked at as such. What a protection wrote is
// right in a copy too for as long as it lasts, and is not told of.
func copiesOf(path string, own []string, lasting []*Protection) []Leftover {
	target := realPath(path)
	dir, base := filepath.Dir(target), filepath.Base(target)
	stem := strings.TrimSuffix(base, filepath.Ext(base))
	if stem == "" {
		return nil
	}
	var found []Leftover
	room := int64(mostOfCopies)
	for _, folder := range []string{dir, filepath.Join(dir, "backups"), filepath.Join(dir, stem, "backups")} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			name := entry.Name()
			at := filepath.Join(folder, name)
			if !strings.HasPrefix(name, stem) && !strings.Contains(name, base) || strings.Contains(name, Infix) || at == target || slices.Contains(own, at) {
				continue
			}
			info, err := entry.Info()
			if err != nil || !info.Mode().IsRegular() || info.Size() > room {
				continue
			}
			room -= info.Size()
			if holdsWrapLine(at, lasting) {
				found = append(found, Leftover{at, path, AgentsCopy})
			}
		}
	}
	return found
}

// holdsWrapLine reports whether a line that a wrap wrote stands in the file at path.
func holdsWrapLine(path string, lasting []*Protection) bool {
	f, err := readFile(path)
	if err != nil || !bytes.Contains(f.data, []byte(envSession)) || !bytes.Contains(f.data, []byte(envSocket)) {
		return false
	}
	return !slices.ContainsFunc(lasting, func(p *Protection) bool { return bytes.Contains(f.data, []byte(p.ID)) })
}

// rememberCopies notes that copies of our lines lie beside the file at path, if there
// are any: of an agent of the type custom nothing else tells where to look.
func (b notebook) rememberCopies(path, target string) {
	if len(b.of(noteCopies, target)) == 0 && len(copiesOf(path, []string{path}, nil)) > 0 {
		b.put(&note{Kind: noteCopies, Target: target, Path: path})
	}
}

// forgetCopies drops the notes of copies that are gone.
func (b notebook) forgetCopies() {
	for _, n := range b.all() {
		if n.Kind == noteCopies && len(copiesOf(n.Path, []string{n.Path}, nil)) == 0 {
			_ = b.drop(n)
		}
	}
}

// rememberedCopies returns the copies that are noted, but for those beside files of
// known agents, which are found without.
func rememberedCopies(env Env) []Leftover {
	var found []Leftover
	known := Known(env)
	for _, n := range notebook(env.Notes).all() {
		if n.Kind == noteCopies && filepath.IsAbs(n.Path) && !slices.Contains(known, n.Path) {
			found = append(found, copiesOf(n.Path, []string{n.Path}, env.Lasting)...)
		}
	}
	return found
}
