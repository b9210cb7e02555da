package agentconf

import (
	"path/filepath"
	"slices"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// planned is one file of a plan: several sources when links lead to it.
type planned struct {
	path    string // as the agent knows it
	file    *file
	sources []*Source
	lock    *fileLock
	backup  string
	text    []byte // what is to be written
	before  []entryWas
	journal []byte
	stored  []byte   // the journal that was given out last
	clean   *cleaned // the file without the lines that are made again, nil when there are none
}

// governed are the entries of a file that are rewritten, each once.
func (f *planned) governed() []*Entry {
	var out []*Entry
	for _, e := range each(f.sources) {
		twice := slices.ContainsFunc(out, func(have *Entry) bool { return slices.Equal(have.Path, e.Path) })
		if e.Ungoverned == "" && !twice && !e.Protected {
			out = append(out, e)
		}
	}
	return out
}

// syntax is what to read the file with once it is written.
func (f *planned) syntax() edit.Syntax { return reading(f.sources[0].doc.Syntax()) }

func (f *planned) lockPath() string { return lockPath(f.file.path) }

// agentLocks are the folders that the agent takes for a lock on this file.
func (f *planned) agentLocks() []string {
	var paths []string
	for _, s := range f.sources {
		paths = append(paths, s.AgentLocks...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

func (f *planned) display() string { return filepath.Clean(f.path) }
