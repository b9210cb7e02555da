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

// projects loads the files of the projects that agents work in, and caches them until they change.
// It is safe for concurrent use.
//
// Unlike the user's own configuration, these files are in force as they are on disk: they come and
// go with a checkout, and can only tighten.
type projects struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex // guards the fields below; not held during I/O
	folders map[string]folder
	files   map[string]*projectFile
	names   []string // sorted keys of files; never modified; outdated if its length differs
}

// mostFolders is how many folders are remembered. The names come from shims.
const mostFolders = 1024

// folder is a folder in a project. Its files are looked up only once: a .git that appears later in
// a folder below must not take the files above it out of force.
type folder struct {
	files   []string        // paths of the files that apply there, if they exist
	project *policy.Project // made of these files; may be nil
	of      []*projectFile
}

// projectFile is one file as it was read. It is immutable.
type projectFile struct {
	path     string
	is       stamp
	project  *config.Project // nil if the file is invalid
	problems []config.Diagnostic
}

// stamp identifies one state of a file. Unlike the modification time, the change time can't be set.
type stamp struct {
	dev, ino          uint64
	size              int64
	modified, changed unix.Timespec
}

func newProjects(log *slog.Logger) *projects {
	return &projects{log: log, now: time.Now, folders: map[string]folder{}, files: map[string]*projectFile{}}
}

// scope is a gate.Scope. It returns policies that are not a *policy.Set unchanged.
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

// whole returns set unchanged. It is the scope of a project without files.
func whole(set gate.Policy) gate.Policy { return set }

// in returns the project that contains path, made of its files, or nil if there are none. The error
// names a file that is invalid.
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

// refusal returns the reason why every call in a project is denied. It does not repeat the file's
// content, because a model reads the reason.
func refusal(f *projectFile) error {
	where := ""
	if d := f.problems[0]; d.Line > 0 {
		where = fmt.Sprintf(", line %d", d.Line)
	}
	return fmt.Errorf("the project's own file %q is invalid%s; `tgctl policy check` with its path says why", f.path, where)
}

// folder returns the folder at path. It is looked up only once.
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

// file returns the current file at path, which exists or can't be inspected.
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
	// File system clocks have a coarse resolution. A file that was written just now can be written
	// again without a visible change, so it is read each time until it is older.
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
	p.logProjectFile(old, f)
	return f
}

// logProjectFile logs that a file is in force, or why it is not, once for each content.
func (p *projects) logProjectFile(old, now *projectFile) {
	switch {
	case now.project == nil:
		if old == nil || !slices.Equal(old.problems, now.problems) {
			for _, d := range now.problems {
				p.log.Error("a project's file is invalid: every call of the project is denied", "path", now.path, "err", d.String())
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
		return stamp{}, fmt.Errorf("the project's file can't be read: %w", &fs.PathError{Op: "lstat", Path: path, Err: err})
	}
	return stamp{uint64(s.Dev), s.Ino, s.Size, s.Mtim, s.Ctim}, nil
}

// describe describes the files that apply in the folders, each once.
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

// paths returns the paths of the files that have applied so far. The result must not be modified.
func (p *projects) paths() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.names) != len(p.files) {
		p.names = slices.Sorted(maps.Keys(p.files))
	}
	return p.names
}
