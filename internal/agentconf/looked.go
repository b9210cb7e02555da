package agentconf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// Files that tell what an agent does, and that are only looked at.

// lookAt reads a settings file, whoever owns it. The value does not exist when
// there is no file.
func lookAt(path string, syntax edit.Syntax) (edit.Node, error) {
	doc, err := lookAtFile(path, syntax)
	if doc == nil || err != nil {
		return edit.Node{}, err
	}
	return doc.Root(), nil
}

// lookAtFile is lookAt for the whole file, nil when there is none.
func lookAtFile(path string, syntax edit.Syntax) (*edit.Document, error) {
	f, err := readAnybodys(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	doc, _, err := parseSettled(f, syntax, settleShortly)
	if err == nil {
		doc, err = edit.Certain(doc, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}

// readAnybodys reads a regular file, whoever owns it, or what a link leads to.
func readAnybodys(path string) (*file, error) {
	// Without O_NONBLOCK a pipe planted here would hold us for ever.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("is not a regular file")}
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("is larger than %d MiB", maxFile>>20)}
	}
	return &file{path: path, data: data}, err
}

// addManaged adds a file that an administrator placed: its servers count, and
// stay as they are. remote are members that only servers have which are reached
// over a network.
func (f *Found) addManaged(path, scope string, syntax edit.Syntax, list []string, remote ...string) ([]*Entry, error) {
	doc, err := lookAtFile(path, syntax)
	if doc == nil || err != nil {
		return nil, err
	}
	s := &Source{Path: path, file: &file{path: path}, doc: doc}
	entries := s.addServers(scope, list)
	s.leaveRemote(entries, remote...)
	return f.leaveManaged(s, entries), nil
}

// leaveManaged adds a source that is an administrator's, whose entries these are.
func (f *Found) leaveManaged(s *Source, entries []*Entry) []*Entry {
	var names []string
	for _, e := range entries {
		if e.Ungoverned == "" {
			e.Ungoverned = "an administrator's, from " + s.Path
			names = append(names, e.ID)
		}
	}
	if len(entries) > 0 {
		f.Sources = append(f.Sources, s)
	}
	if len(names) > 0 {
		f.Warnings = append(f.Warnings, "servers from "+s.Path+", which is an administrator's, are not governed: "+strings.Join(names, ", "))
	}
	return entries
}

// managed returns the folder of an administrator's settings.
func (env Env) managed(linux, darwin string) string {
	switch {
	case env.System != "":
		return env.System
	case env.system() == "darwin":
		return darwin
	}
	return linux
}

// variable returns the value of a variable, empty when it is not set.
func (env Env) variable(name string) string {
	value, _ := env.LookupEnv(name)
	return value
}

// flags returns the values that a command line gives to a flag, as `name value`
// or `name=value`, in their order. Words past `--` are not looked at.
func (env Env) flags(names ...string) []string {
	var values []string
	for i, word := range env.Command {
		if i == 0 {
			continue
		}
		if word == "--" {
			break
		}
		name, value, direct := strings.Cut(word, "=")
		switch {
		case !slices.Contains(names, name):
		case direct:
			values = append(values, value)
		case i+1 < len(env.Command):
			values = append(values, env.Command[i+1])
		}
	}
	return values
}

// hasFlag reports whether a command line has a flag that takes no value.
func (env Env) hasFlag(names ...string) bool {
	return env.first(names) != ""
}

// first returns the first word of a command line that is one of words, with or
// without a value behind it, and is empty where there is none. Words past `--` are
// not looked at.
func (env Env) first(words []string) string {
	for i, word := range env.Command {
		if word == "--" {
			break
		}
		if name, _, _ := strings.Cut(word, "="); i > 0 && slices.Contains(words, name) {
			return name
		}
	}
	return ""
}

// leaveRemote marks the entries that have one of the given members as servers
// that are reached over a network, whatever else they have.
func (s *Source) leaveRemote(entries []*Entry, members ...string) {
	for _, e := range entries {
		for _, name := range members {
			if s.doc.At(e.Path).Member(name).Exists() {
				e.Ungoverned = "a remote server"
			}
		}
	}
}
