package trust

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/child"
)

// Limits of what is examined for one launch.
const (
	maxArguments = 256
	maxFiles     = 64
	maxHops      = 4 // from a script to its interpreter, or from a program to the one that it starts
)

// launchExamination is the examination of one launch.
type launchExamination struct {
	launch  Launch
	hash    *hasher
	root    string // of the project
	planted bool   // what lies in root comes with the project
	in      bool   // something that runs lies in the project and was not named by an absolute path
	start   Start
}

// look examines a launch, and reports whether it belongs to a project.
func (b *Registry) look(l Launch) (Start, bool) {
	v := &launchExamination{launch: l, hash: &b.files}
	v.root, v.planted = b.project(l)
	v.start = Start{
		Server: l.Server, Project: text(v.root), From: l.From, Command: l.Command,
		Sets: slices.Compact(slices.Sorted(slices.Values(l.Sets))),
	}
	if r := l.Remote; r != nil {
		v.start.Remote = remoteOf(r)
	}
	if l.Program == "" && l.Remote != nil && l.From != "" {
		if len(l.Command) > 0 {
			v.gap("the program of its command for headers was not found")
		}
		return v.start, true
	}
	if l.Program == "" {
		// Nothing can be started: the shim does not start a program that was not found.
		return v.start, false
	}
	v.program(l.Command, l.Program, 0)
	if l.From == "" && !v.in {
		return v.start, false
	}
	v.variables()
	for i := range v.start.Files {
		v.digest(&v.start.Files[i])
	}
	return v.start, true
}

// remoteOf returns what a person sees of a server behind an address.
func remoteOf(r *agentconf.Remote) *Remote {
	shown := &Remote{Host: text(r.Host()), Terms: r.Terms()}
	for _, h := range r.Headers {
		shown.Headers = append(shown.Headers, text(h.Name))
	}
	for _, name := range r.Variables() {
		shown.Variables = append(shown.Variables, text(name))
	}
	return shown
}

// program examines one program of a command line, and what that program runs.
func (v *launchExamination) program(words []string, path string, hops int) {
	name := words[0]
	found := v.found(name, path)
	v.add(Program, path, found)
	if inside := v.inside(path); inside && !filepath.IsAbs(name) {
		v.in = true
		if strings.Contains(name, "/") {
			v.alarm("the program %s is a file of the project", path)
		} else {
			v.alarm("%s is not the usual program of that name: PATH leads to %s, which is a file of the project", name, path)
		}
	} else if inside {
		v.alarm("the program %s is a file of the project", path)
	}
	v.shebang(path, hops, found)
	v.arguments(words, path, hops)
}

// inside reports whether path, or the file that it links to, comes with the project.
func (v *launchExamination) inside(path string) bool {
	return v.planted && (within(v.root, path) || within(v.root, realPath(path)))
}

// shebang examines the interpreter of a script. of reports whether the script has Found set; see
// [File].
func (v *launchExamination) shebang(path string, hops int, of bool) {
	words := firstLine(path)
	if len(words) == 0 {
		return
	}
	if hops == maxHops {
		v.gap("%s has a chain of interpreters, not all of which were checked", path)
		return
	}
	name := words[0]
	if peeled := behindEnv(words); peeled != nil {
		name = peeled[0]
	}
	found, err := child.Resolve(name, v.launch.Env, v.launch.Cwd)
	if err != nil {
		v.gap("%s is run by %s, which was not found", path, name)
		return
	}
	of = of && !v.inside(found) || v.found(name, found)
	v.add(Interpreter, found, of)
	if !filepath.IsAbs(name) && v.inside(found) {
		v.in = true
		v.alarm("%s is run by %s, which is a file of the project", path, found)
	}
	v.shebang(found, hops+1, of)
}

// firstLine returns the words after #! in a script, or nil if path is not a script.
func firstLine(path string) []string {
	line, ok := strings.CutPrefix(head(path), "#!")
	if !ok {
		return nil
	}
	line, _, _ = strings.Cut(line, "\n")
	return strings.Fields(line)
}

// isProgram reports whether a file begins like a program. Not every file with execute permission is
// one.
func isProgram(path string) bool {
	return hasAnyPrefix(head(path), "#!", "\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe")
}

// head returns the first bytes of a file, as many as the kernel reads.
func head(path string) string {
	// Without O_NONBLOCK, opening a named pipe would block until there is a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	// Nothing was written, so Close can't lose anything.
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	begin := make([]byte, 256)
	n, _ := io.ReadFull(f, begin) // a shorter file is read completely
	return string(begin[:n])
}

// arguments examines the files that the arguments of a program name.
func (v *launchExamination) arguments(words []string, path string, hops int) {
	if rest := behindEnv(words); rest != nil {
		v.next(rest, hops)
		return
	}
	args := words[1:]
	if len(args) > maxArguments {
		v.gap("only the first %d of its %d arguments were checked", maxArguments, len(args))
		args = args[:maxArguments]
	}
	script := -1
	if runs := runnerOf(words[0], path); runs != nil {
		script = runs(v, args)
	}
	for i, arg := range args {
		v.argument(arg, i == script)
	}
}

// next examines a program that another one starts by name.
func (v *launchExamination) next(words []string, hops int) {
	if hops == maxHops {
		v.gap("%s starts another program, which was not checked", words[0])
		return
	}
	found, err := child.Resolve(words[0], v.launch.Env, v.launch.Cwd)
	if err != nil {
		v.gap("%s was not found", words[0])
		return
	}
	v.program(words, found, hops+1)
}

// argument examines the file that an argument names, if it is code.
func (v *launchExamination) argument(arg string, script bool) {
	named := arg
	if !script && strings.HasPrefix(named, "-") {
		_, value, ok := strings.Cut(named, "=")
		if !ok {
			return
		}
		named = value
	}
	named = strings.TrimPrefix(named, "file://")
	if named == "" {
		return
	}
	path := named
	if !filepath.IsAbs(path) {
		path = filepath.Join(v.launch.Cwd, path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		if script {
			v.gap("it was not checked which file %s is", named)
		}
		return
	case info.IsDir():
		if script {
			v.gap("%s is a folder; its content was not checked", path)
			v.in = v.in || !filepath.IsAbs(named) && v.inside(path)
		}
		return
	case script:
		v.add(Script, path, false)
		v.gap("what %s loads was not checked", path)
	case isCode(path) || info.Mode()&0o111 != 0 && isProgram(path):
		v.add(Argument, path, false)
	default:
		return
	}
	v.in = v.in || !filepath.IsAbs(named) && v.inside(path)
}

// add adds a file, once.
func (v *launchExamination) add(role Role, path string, found bool) {
	if slices.ContainsFunc(v.start.Files, func(f File) bool { return f.at == path }) {
		return
	}
	if len(v.start.Files) == maxFiles {
		v.gap("it uses more than %d files; the others were not checked", maxFiles)
		return
	}
	v.start.Files = append(v.start.Files, File{Role: role, Path: text(path), Found: found, at: path})
}

// digest computes the digest of a file. A file that can't be read has none and can be accepted
// without: either it can't be run, or the person knows why.
func (v *launchExamination) digest(f *File) {
	sum, err := v.hash.sum(f.at)
	if err != nil {
		v.gap("%s could not be read: %v", f.Path, err)
	}
	f.Digest = sum
}

// variables examines the environment.
func (v *launchExamination) variables() {
	for _, entry := range v.launch.Env {
		name, value, _ := strings.Cut(entry, "=")
		does, known := loaders[name]
		set := slices.Contains(v.start.Sets, name)
		if !known || does.only && !set {
			continue
		}
		if slices.ContainsFunc(v.start.Loaders, func(l Loader) bool { return l.Name == name }) {
			continue
		}
		v.start.Loaders = append(v.start.Loaders, Loader{name, sumOf(value)})
		by := "the environment"
		if set {
			by = "the project"
		}
		v.alarm("%s sets %s, which %s", by, name, does.what)
	}
	slices.SortFunc(v.start.Loaders, func(a, b Loader) int { return strings.Compare(a.Name, b.Name) })
}

func (v *launchExamination) alarm(format string, args ...any) {
	v.start.Alarms = addOnce(v.start.Alarms, text(fmt.Sprintf(format, args...)))
}

func (v *launchExamination) gap(format string, args ...any) {
	v.start.Gaps = addOnce(v.start.Gaps, text(fmt.Sprintf(format, args...)))
}

// text returns s as valid UTF-8. File names may be any bytes; stored and sent text may not.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func addOnce(all []string, one string) []string {
	if slices.Contains(all, one) {
		return all
	}
	return append(all, one)
}
