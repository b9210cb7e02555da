package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/api"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
)

// projects finds what the folders that agents work in have to say, and keeps
// it until a file there is another one. It is safe for concurrent use.
//
// Unlike the user's own configuration these files are in force as they stand on
// disk: they come and go with a checkout, and can only tighten.
type projects struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex // guards what follows; not held while the disk is asked
	folders map[string]folder
	files   map[string]*projectFile
	names   []string // of files, sorted; not changed; nil when files has others since
}

// mostFolders is how many folders are remembered. Shims name them.
const mostFolders = 1024

// folder is where a project lies. It is found once: a .git that comes later, in
// a folder below, must not take the files above it out of force.
type folder struct {
	files   []string        // that count there, if they are there
	project *policy.Project // of these files, nil for none
	of      []*projectFile
}

// projectFile is one file as it was read. It is not changed.
type projectFile struct {
	path     string
	is       stamp
	project  *config.Project // nil when it can't be used
	problems []config.Diagnostic
}

// stamp tells one state of a file from another. Unlike the time at which a file was
// modified, the one at which anything about it changed can't be set.
type stamp struct {
	dev, ino          uint64
	size              int64
	modified, changed unix.Timespec
}

func newProjects(log *slog.Logger) *projects {
	return &projects{log: log, now: time.Now, folders: map[string]folder{}, files: map[string]*projectFile{}}
}

// scope is a gate.Scope. Without a policy.Set there is nothing to narrow.
func (p *projects) scope(path string) func(gate.Policy) gate.Policy {
	project, err := p.in(path)
	if project == nil && err == nil {
		return whole
	}
	return func(set gate.Policy) gate.Policy {
		if s, ok := set.(*policy.Set); ok {
			return s.In(project, err)
		}
		return set
	}
}

// whole is what a project without files makes of a set.
func whole(set gate.Policy) gate.Policy { return set }

// in returns what the files of the project that path lies in say, nil when
// there are none. An error says which of them can't be used.
func (p *projects) in(path string) (*policy.Project, error) {
	f := p.folder(path)
	var all []*projectFile
	var parsed []*config.Project
	for _, name := range f.files {
		if !config.IsThere(name) {
			continue
		}
		file := p.file(name)
		if file.project == nil {
			return nil, refusal(file)
		}
		all = append(all, file)
		parsed = append(parsed, file.project)
	}
	switch {
	case len(all) == 0:
		return nil, nil
	case slices.Equal(all, f.of):
		return f.project, nil
	}
	f.project, f.of = policy.NewProject(parsed...), all
	p.mu.Lock()
	p.folders[path] = f
	p.mu.Unlock()
	return f.project, nil
}

// refusal says why nothing is judged in a project. Nothing of the file itself
// is repeated: a model reads this.
func refusal(f *projectFile) error {
	where := ""
	if d := f.problems[0]; d.Line > 0 {
		where = fmt.Sprintf(", line %d", d.Line)
	}
	return fmt.Errorf("the project's own file %q is not valid%s; `tgctl policy check` with its path says why", f.path, where)
}

// folder returns where path lies, which is looked up once.
func (p *projects) folder(path string) folder {
	p.mu.Lock()
	f, ok := p.folders[path]
	p.mu.Unlock()
	if ok {
		return f
	}
	at := filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(at); err == nil {
		at = real
	}
	f.files = config.ProjectFiles(at, config.Root(at))
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.folders) >= mostFolders {
		clear(p.folders)
		clear(p.files)
		p.names = nil
	}
	p.folders[path] = f
	return f
}

// file returns the file at path as it is now, which exists or can't be looked at.
func (p *projects) file(path string) *projectFile {
	is, err := stampOf(path)
	if err != nil {
		return &projectFile{path: path, problems: []config.Diagnostic{{File: path, Severity: config.Error, Message: err.Error()}}}
	}
	p.mu.Lock()
	f := p.files[path]
	p.mu.Unlock()
	if f != nil && f.is == is {
		return f
	}
	// Clocks of file systems tick slowly. A file that was written just now can be
	// written again and look the same: it is read each time until it has aged.
	if p.now().Sub(time.Unix(is.changed.Unix())) < time.Second {
		is = stamp{}
	}
	f = &projectFile{path: path, is: is}
	f.project, f.problems = config.LoadProject(path)
	p.mu.Lock()
	old := p.files[path]
	p.files[path] = f
	if old == nil {
		p.names = nil
	}
	p.mu.Unlock()
	p.tell(old, f)
	return f
}

// tell logs that a file is in force, or is not and why, once for each content.
func (p *projects) tell(old, now *projectFile) {
	switch {
	case now.project == nil:
		if old == nil || !slices.Equal(old.problems, now.problems) {
			for _, d := range now.problems {
				p.log.Error("a project's file refuses every call of the project", "path", now.path, "err", d.String())
			}
		}
	case old == nil || old.project == nil || old.project.Config().Digest != now.project.Config().Digest:
		p.log.Info("a project's file is in force", "path", now.path, "digest", now.project.Config().Digest,
			"rules", len(now.project.Config().Governance.Rules))
	}
}

func stampOf(path string) (stamp, error) {
	var s unix.Stat_t
	err := unix.Lstat(path, &s)
	for errors.Is(err, unix.EINTR) {
		err = unix.Lstat(path, &s)
	}
	if err != nil {
		return stamp{}, fmt.Errorf("the project's file can't be looked at: %w", &fs.PathError{Op: "lstat", Path: path, Err: err})
	}
	return stamp{uint64(s.Dev), s.Ino, s.Size, s.Mtim, s.Ctim}, nil
}

// describe tells of the files that count in the folders, each once.
func (p *projects) describe(folders []string) []api.ProjectFile {
	var all []api.ProjectFile
	for _, path := range folders {
		f := p.folder(path)
		for _, name := range f.files {
			if !config.IsThere(name) || slices.ContainsFunc(all, func(have api.ProjectFile) bool { return have.Path == name }) {
				continue
			}
			file := p.file(name)
			one := api.ProjectFile{Path: name, Problems: file.problems}
			if file.project != nil {
				cfg := file.project.Config()
				one.Digest, one.Rules = cfg.Digest, len(cfg.Governance.Rules)
			}
			all = append(all, one)
		}
	}
	return all
}

// paths names the files that have counted so far; it is not to be changed.
func (p *projects) paths() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.names) != len(p.files) {
		p.names = slices.Sorted(maps.Keys(p.files))
	}
	return p.names
}
