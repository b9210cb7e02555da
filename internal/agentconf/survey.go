package agentconf

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Governed is how a server is governed.
type Governed string

const (
	NotGoverned Governed = ""
	ByProtect   Governed = "protect"   // at every start
	ByWrap      Governed = "wrap"      // for as long as that runs
	ByItself    Governed = "extension" // it is the tools of an extension: what is asked of them is judged
	ByStray     Governed = "stray"     // a line that a wrap left, or a protection that nobody knows any more
)

// Server is one server that an agent's files name.
type Server struct {
	ID       string   `json:"id"`
	Scope    string   `json:"scope"`
	Path     string   `json:"path"`     // of the file
	Project  bool     `json:"project"`  // the file is not the agent's own: it reads it from here only
	Governed Governed `json:"governed"` // of a server that the agent starts as a program
	Off      Off      `json:"off"`      // why the agent would not start it
	Because  string   `json:"because"`  // which rule or setting keeps it from being started, where one is known
	Why      string   `json:"why"`      // it cannot be governed; empty when it could
}

// Leftover is a file of ours beside a configuration that nothing needs any more,
// as far as that can be told.
type Leftover struct {
	Path   string       `json:"path"`
	Config string       `json:"config"` // the file it lies beside, as the agent knows it
	Kind   LeftoverKind `json:"kind"`
}

// LeftoverKind is what a leftover was.
type LeftoverKind string

const (
	StaleBackup LeftoverKind = "backup"  // of a wrap that did not end well
	StaleLock   LeftoverKind = "lock"    // likewise
	StaleTemp   LeftoverKind = "temp"    // half written
	AgentsCopy  LeftoverKind = "copy"    // that the agent made of its file while it held our lines
	Altered     LeftoverKind = "altered" // kept of a file that had to give way, for the person to look at
)

// Survey is what there is to know of one agent, from one folder.
type Survey struct {
	Agent    string     `json:"agent"`
	Files    []string   `json:"files"` // that are there, as the agent knows them
	Servers  []Server   `json:"servers"`
	Left     []Leftover `json:"left_over"`
	Warnings []string   `json:"warnings"`
	Problem  string     `json:"problem"` // why no more is known
}

// Look surveys the agents that are known, each from where env says; agents of
// which there is nothing at all are left out. It changes nothing.
func Look(env Env) []Survey {
	var all []Survey
	for _, agent := range agents() {
		if s := look(agent, env); len(s.Files)+len(s.Left) > 0 || s.Problem != "" {
			all = append(all, s)
		}
	}
	return all
}

func look(agent Agent, env Env) Survey {
	s := Survey{Agent: agent.Name()}
	env.OwnOnly = true
	paths := agent.Files(env)
	if len(paths) == 0 { // told by the person each time
		s.Left = rememberedCopies(env)
		return s
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			s.Files = append(s.Files, path)
		}
		s.Left = append(s.Left, leftBeside(path, env.Lasting)...)
		s.Left = append(s.Left, copiesOf(path, paths, env.Lasting)...)
	}
	if len(s.Files) == 0 {
		return s
	}
	found, err := lookWith(agent, env)
	if err == nil {
		err = found.doubt()
	}
	if err != nil {
		s.Problem = err.Error()
		return s
	}
	s.Warnings = found.Warnings
	env.Cwd = anywhere
	own := agent.Files(env)
	for source, e := range each(found.Sources) {
		why := e.Ungoverned
		if e.offers {
			why = ""
		}
		s.Servers = append(s.Servers, Server{
			ID: e.ID, Scope: e.Scope, Path: source.Path, Off: e.Off, Because: e.Because, Why: why, Governed: governedBy(source, e, env),
			Project: !slices.Contains(own, source.Path),
		})
	}
	return s
}

// governedBy says how an entry is governed.
func governedBy(s *Source, e *Entry, env Env) Governed {
	switch {
	case e.offers:
		return ByItself
	case e.ours == nil && !isShim(e.vars.word(e.Command, env), "", env):
		return NotGoverned
	case e.ours != nil && env.lasts(e.ours, ""):
		return ByProtect
	case isLocked(lockPath(s.file.path), s.Path) != nil:
		return ByWrap
	}
	return ByStray
}

// leftBeside finds what of ours lies beside a configuration. While somebody has
// the file it is in use.
func leftBeside(path string, lasting []*Protection) []Leftover {
	target := realPath(path)
	if isLocked(lockPath(target), path) != nil {
		return nil
	}
	var needed []string
	for _, l := range lasting {
		needed = append(needed, l.Backups()...)
	}
	entries, _ := os.ReadDir(filepath.Dir(target))
	var left []Leftover
	for _, entry := range entries {
		rest, ok := strings.CutPrefix(entry.Name(), filepath.Base(target))
		at := filepath.Join(filepath.Dir(target), entry.Name())
		kind := leftoverKind(rest)
		if kind == StaleLock && !isLeftLock(at) {
			continue
		}
		if ok && kind != "" && !slices.Contains(needed, at) {
			left = append(left, Leftover{at, path, kind})
		}
	}
	return left
}

func leftoverKind(suffix string) LeftoverKind {
	switch {
	case suffix == lockSuffix:
		return StaleLock
	case strings.HasPrefix(suffix, backupSuffix):
		return StaleBackup
	case strings.HasPrefix(suffix, alteredSuffix):
		return Altered
	case strings.HasPrefix(suffix, tempSuffix), strings.HasPrefix(suffix, swapSuffix):
		return StaleTemp
	}
	return ""
}

// HasOwn reports whether the agent has a configuration of its own: one that it
// reads wherever it is started.
func HasOwn(agent Agent, env Env) bool {
	env.Cwd, env.OwnOnly = anywhere, true
	return slices.ContainsFunc(agent.Files(env), func(path string) bool {
		_, err := os.Lstat(path)
		return !errors.Is(err, fs.ErrNotExist)
	})
}

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
		entries, _ := os.ReadDir(folder)
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
