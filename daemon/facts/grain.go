package facts

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/shell"
	"github.com/thoughtgate/thoughtgated/internal/shell/effects"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	maxGrainWords = 64      // of a command; each is looked up as a path
	maxGrainBytes = 4 << 10 // of all its words, parts of which are looked up, too
	maxVerbBytes  = 200
	maxShort      = 64 // bytes of a flag with one dash, in which a path may begin anywhere
)

// Grain returns what a grant may cover of a call of the agent's shell with these arguments, one raw
// JSON object; nil if they are none of the shell. It remembers nothing of the call.
func (f *Finder) Grain(ctx context.Context, project string, arguments []byte) *gate.Grain {
	in := f.inspect(ctx, &gate.Call{
		Message: gate.Message{Method: "tools/call", Subject: agenthook.Shell, Side: wire.FromAgent, Line: arguments},
		Case:    gate.Case{Server: agenthook.Server, Project: project},
	})
	defer f.finish(in)
	args := rawjson.Read(arguments)
	line, _ := in.lineOf(args)
	if line == nil || args.Err() != nil {
		return nil
	}
	return in.grain(line, effects.Of(line), args.Has("cwd"))
}

// grain returns what a grant may cover of a line of the agent's shell: a command that stays in its
// folder, which is in the project. saysFolder reports whether the agent says which one that is.
func (in *inspection) grain(line *shell.Line, e *effects.Effects, saysFolder bool) *gate.Grain {
	c, verb, err := effects.Verb(line, e)
	if err != nil {
		return &gate.Grain{Alone: err.Error()}
	}
	if len(verb) > maxVerbBytes || in.shown(verb) != verb {
		return &gate.Grain{Alone: "the words that say what it does are too long, or hold what looks like a secret"}
	}
	// The name of a task, or of a program that does one thing, says what it does, as that of a tool does.
	name := cmp.Or(strings.TrimPrefix(verb, "run "), c.Program)
	if s := deedsIn(name, []byte(name)); c.Program != "git" && (s.deed == acts || s.sends) {
		return &gate.Grain{Alone: strings.TrimSpace(c.Program+" "+verb) + " acts or sends by its name"}
	}
	if !saysFolder {
		return &gate.Grain{Alone: "the agent does not say in which folder it runs"}
	}
	folder, known := in.within(c.Dirs[0], in.finder.own.project(in.ctx, in.call.Project, in.call.Waited))
	if !known || in.call.Project == "" {
		return &gate.Grain{Alone: "it does not run in the project"}
	}
	size := 0
	for _, w := range c.Args {
		size += len(w.Value)
	}
	if len(c.Args) > maxGrainWords || size > maxGrainBytes {
		return &gate.Grain{Alone: "it has more words than can be looked up"}
	}
	for _, w := range c.Args {
		if in.leaves(w.Value, c.Dirs[0], folder) {
			return &gate.Grain{Alone: fmt.Sprintf("its word %s may lead out of the folder", in.shown(w.Text))}
		}
	}
	return &gate.Grain{Program: c.Program, Verb: verb, Folder: folder}
}

// within returns where a path leads, and whether that is folder or below it.
func (in *inspection) within(name, folder string) (end string, is bool) {
	to := (&candidate{inspection: in, own: in.finder.own}).follow("/", name)
	return to.end, to.named == "" && to.end != "" && folder != "" && (to.end == folder || isBelow(to.end, folder))
}

// leaves reports whether a word of a command that runs in dir may name something that is not in folder.
func (in *inspection) leaves(word, dir, folder string) bool {
	if strings.ContainsAny(word, "$`") {
		return true
	}
	flag, _, _ := strings.Cut(word, "=")
	if flag == "" && word != "" {
		return true // zsh makes a path of =x
	}
	if strings.HasPrefix(flag, "-") && !strings.HasPrefix(flag, "--") {
		if len(flag) > maxShort || strings.Contains(flag, "/") || strings.Contains(flag, "..") {
			return true // in -Ia/b, -I/usr and -C.. it is not known where the path begins
		}
		for i := 2; i < len(flag); i++ { // -Cx may lead where x does
			if _, is := in.within(dir+"/"+flag[i:], folder); !is {
				return true
			}
		}
	}
	separates := func(r rune) bool { return r <= ' ' || strings.ContainsRune("=,:;@+\"'", r) }
	for rest := strings.TrimLeftFunc(word, separates); rest != ""; {
		if rest[0] == '~' {
			return true
		}
		part, after := rest, ""
		if i := strings.IndexFunc(rest, separates); i >= 0 {
			part, after = rest[:i], strings.TrimLeftFunc(rest[i:], separates)
		}
		for _, name := range []string{part, rest} { // a link may have a name with separators
			if !path.IsAbs(name) {
				name = dir + "/" + name
			}
			if _, is := in.within(name, folder); !is {
				return true
			}
		}
		rest = after
	}
	return false
}
