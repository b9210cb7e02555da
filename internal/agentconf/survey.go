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
	ByWrap      Governed = "wrap"      // while the wrap runs
	ByItself    Governed = "extension" // the tools of an extension, whose calls are judged
	ByStray     Governed = "stray"     // by a line that a wrap left, or of an unknown protection
)

// Server is one server in an agent's files.
type Server struct {
	ID       string   `json:"id"`
	Scope    string   `json:"scope"`
	Path     string   `json:"path"`     // of the file
	Project  bool     `json:"project"`  // the file is not the agent's own: it is read only in this folder
	Governed Governed `json:"governed"` // only of a server that the agent starts as a program
	Off      Off      `json:"off"`      // why the agent would not start it
	Because  string   `json:"because"`  // the rule or setting that causes Off, if known
	Why      string   `json:"why"`      // why it can't be governed; empty if it can
}

// Leftover is a file of ours beside a configuration that appears not to be needed any more.
type Leftover struct {
	Path   string       `json:"path"`
	Config string       `json:"config"` // the file beside which it is, as the agent knows it
	Kind   LeftoverKind `json:"kind"`
}

// LeftoverKind is what a leftover was.
type LeftoverKind string

const (
	StaleBackup LeftoverKind = "backup"  // of a wrap that was interrupted
	StaleLock   LeftoverKind = "lock"    // likewise
	StaleTemp   LeftoverKind = "temp"    // an incomplete file
	AgentsCopy  LeftoverKind = "copy"    // a copy that the agent made of its file while it had our lines
	Altered     LeftoverKind = "altered" // a file that was replaced, kept for the person
)

// Survey is the state of one agent, viewed from one folder.
type Survey struct {
	Agent    string     `json:"agent"`
	Files    []string   `json:"files"` // existing files, as the agent knows them
	Servers  []Server   `json:"servers"`
	Tools    *Tools     `json:"tools"` // nil if it is known to run no hooks
	Left     []Leftover `json:"left_over"`
	Warnings []string   `json:"warnings"`
	Problem  string     `json:"problem"` // why no more is known
}

// Tools is how an agent's own tools are governed, viewed from the file with the user's hooks. A
// wrap that has told the agent by a flag is not seen there.
type Tools struct {
	Path     string   `json:"path"` // of the file
	Governed Governed `json:"governed"`
	Proven   bool     `json:"proven"`  // the real agent was seen to obey a hook
	Off      string   `json:"off"`     // the setting by which the agent runs no hooks; empty if it runs them
	Unseen   []string `json:"unseen"`  // what it does without asking a hook
	Problem  string   `json:"problem"` // why no more is known

	Canary []HookCommand `json:"-"` // the entries that decide whether a tool is run
}

// HookCommand is what an entry for a hook has an agent run.
type HookCommand struct {
	Shell bool     // Argv is one line for a shell
	Argv  []string // as it stands in the file
}

// Look surveys all known agents in env. It leaves out agents without any files. It changes
// nothing.
func Look(env Env) []Survey {
	var all []Survey
	for _, k := range kinds {
		if s := look(k.Agent, env); len(s.Files)+len(s.Left) > 0 || s.Problem != "" {
			all = append(all, s)
		}
	}
	return all
}

func look(agent Agent, env Env) Survey {
	s := Survey{Agent: agent.Name()}
	env.OwnOnly = true
	paths := agent.Files(env)
	if len(paths) == 0 { // the person names its file each time
		s.Left = rememberedCopies(env)
		return s
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			s.Files = append(s.Files, path)
		}
		s.Left = append(s.Left, leftBeside(path, env.Protections)...)
		s.Left = append(s.Left, copiesOf(path, paths, env.Protections)...)
	}
	if s.Tools = lookAtHooks(agent, env); s.Tools != nil {
		if !slices.Contains(paths, s.Tools.Path) {
			s.Left = append(s.Left, leftBeside(s.Tools.Path, env.Protections)...)
		}
		if s.Tools.Governed != NotGoverned && !slices.Contains(s.Files, s.Tools.Path) {
			s.Files = append(s.Files, s.Tools.Path)
		}
	}
	if len(s.Files) == 0 {
		return s
	}
	found, err := lookWith(agent, env)
	if err == nil {
		err = found.markDoubtfulEntries()
	}
	if err != nil {
		s.Problem = err.Error()
		return s
	}
	s.Warnings = found.Warnings
	env.Cwd = anyCwd
	own := agent.Files(env)
	for e := range each(found.Sources) {
		why := e.Ungoverned
		if e.offers {
			why = ""
		}
		s.Servers = append(s.Servers, Server{
			ID: e.ID, Scope: e.Scope, Path: e.File, Off: e.Off, Because: e.Because, Why: why, Governed: governedBy(e, env),
			Project: !slices.Contains(own, e.File),
		})
	}
	return s
}

// governedBy returns how an entry is governed.
func governedBy(e *Entry, env Env) Governed {
	switch {
	case e.offers:
		return ByItself
	case e.ours == nil && !isShim(e.vars.word(e.Command, env), "", env):
		return NotGoverned
	case e.ours != nil && env.isProtected(e.ours, ""):
		return ByProtect
	case isLocked(lockPath(e.source.file.path), e.File) != nil:
		return ByWrap
	}
	return ByStray
}

// leftBeside returns our files beside a configuration. While a process holds the configuration,
// they are in use, and it returns none.
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

// HasOwn reports whether the agent has a configuration of its own, which it reads wherever it
// is started.
func HasOwn(agent Agent, env Env) bool {
	env.Cwd, env.OwnOnly = anyCwd, true
	return slices.ContainsFunc(agent.Files(env), func(path string) bool {
		_, err := os.Lstat(path)
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// maxCopyScanBytes is the maximum number of bytes of files that are read in search of copies.
const maxCopyScanBytes = 64 << 20

// copiesOf returns copies that an agent made of its file at path while it had our lines of a
// wrap, such as settings.json.orig. It searches the same folder and a folder backups in it.
// Copies outlive the wrap, and an agent may return to them. own are the files that the agent
// reads, which are not copies. Lines of an existing protection are valid in a copy too, so such
// copies are left out.
func copiesOf(path string, own []string, lasting []*Protection) []Leftover {
	target := realPath(path)
	dir, base := filepath.Dir(target), filepath.Base(target)
	stem := strings.TrimSuffix(base, filepath.Ext(base))
	if stem == "" {
		return nil
	}
	var found []Leftover
	room := int64(maxCopyScanBytes)
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

// holdsWrapLine reports whether the file at path has a line of a wrap.
func holdsWrapLine(path string, lasting []*Protection) bool {
	f, err := readFile(path)
	if err != nil || !bytes.Contains(f.data, []byte(envSession)) || !bytes.Contains(f.data, []byte(envSocket)) {
		return false
	}
	return !slices.ContainsFunc(lasting, func(p *Protection) bool { return bytes.Contains(f.data, []byte(p.ID)) })
}

// rememberCopies notes that there are copies with our lines beside the file at path, if so. For
// an agent of the type custom, nothing else says where to look.
func (b notebook) rememberCopies(path, target string) {
	if len(b.of(noteCopies, target)) == 0 && len(copiesOf(path, []string{path}, nil)) > 0 {
		b.put(&note{Kind: noteCopies, Target: target, Path: path})
	}
}

// forgetCopies removes the notes of copies that do not exist any more.
func (b notebook) forgetCopies() {
	for _, n := range b.all() {
		if n.Kind == noteCopies && len(copiesOf(n.Path, []string{n.Path}, nil)) == 0 {
			_ = b.drop(n)
		}
	}
}

// rememberedCopies returns the noted copies, except those beside files of known agents, which
// are found without notes.
func rememberedCopies(env Env) []Leftover {
	var found []Leftover
	known := Known(env)
	for _, n := range notebook(env.Notes).all() {
		if n.Kind == noteCopies && filepath.IsAbs(n.Path) && !slices.Contains(known, n.Path) {
			found = append(found, copiesOf(n.Path, []string{n.Path}, env.Protections)...)
		}
	}
	return found
}
