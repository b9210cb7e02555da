// Package shell tells what a shell would do with a command line, as far as its
// text tells: which programs it runs with which words, in which directory, on
// whose input. Nothing is run, no file is read, and nothing is guessed: what is
// known only when the line runs stays unknown, and code that is built then is
// reported as [Opaque]. Where links lead the caller may tell.
//
// The line is parsed as bash. What runs other commands (sudo, xargs, sh -c,
// find -exec, ssh and their like) is peeled off, so that a command has the same
// words whatever it is wrapped in. Package effects, below this one, says what
// the programs do with their words.
//
// It is one package, though a large one: expansions, statements and wrappers call
// each other, since each of them can contain the others.
package shell

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Options are what is known before the line runs. The zero value knows nothing.
type Options struct {
	Dir  string // the absolute directory it runs in
	Home string // the absolute value of $HOME

	// Follow returns where an absolute path leads as the system reads it, in which .. is the folder
	// above the one that was reached, and whether a folder is there. If it is nil, no path has a link.
	Follow func(name string) (end string, isFolder bool)
}

// Dirs returns the directories that Dir may be. A program that removes .. from its text comes to
// another one than the system if a link is before it.
func (o Options) Dirs() []string {
	dirs := []string{o.Dir}
	if o.Dir != "" {
		dirs[0] = path.Clean(o.Dir)
	}
	if dirs[0] != o.Dir && o.Follow != nil {
		if end, _ := o.Follow(o.Dir); end != dirs[0] {
			dirs = append(dirs, end)
		}
	}
	return dirs
}

// A Line is a parsed command line. Commands and Opaque are in the order in
// which the shell would come to them; commands of all branches are listed.
type Line struct {
	Text     string
	Home     string
	Commands []Command
	Opaque   []Opaque

	Follow func(name string) (end string, isFolder bool) // of Options

	bare bool // it is one statement, and isBare
}

// Simple returns the command of a line that is nothing but one program, called by its name, and words
// that stand in the line as the program gets them. It returns nil for all other lines: lists,
// pipelines, what assigns, expands, redirects to files or runs in the background, and programs that
// run others.
func (l *Line) Simple() *Command {
	if !l.bare || len(l.Commands) != 1 || len(l.Opaque) > 0 {
		return nil
	}
	c := &l.Commands[0]
	name, known := c.Name.Literal()
	if !known || name == "" || name != c.Program || len(c.Wrappers)+len(c.Env)+len(c.Code) > 0 || c.Script != nil || c.Remote != "" ||
		len(c.Dirs) != 1 || c.Dirs[0] == "" || slices.ContainsFunc(c.Args, func(w Word) bool { return w.Kind != Literal }) {
		return nil
	}
	return c
}

// isBare reports whether a statement is a command without anything that is not a word of it, except
// that one of its outputs may go where another goes (2>&1), and whether a shell takes its words as
// they stand.
func isBare(s *syntax.Stmt) bool {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || s.Negated || s.Background || s.Coprocess || s.Disown {
		return false
	}
	bare := true
	for _, r := range s.Redirs {
		to := r.Word.Lit()
		bare = bare && r.Op == syntax.DplOut && (to == "1" || to == "2")
	}
	for _, w := range call.Args {
		syntax.Walk(w, func(n syntax.Node) bool {
			switch n := n.(type) {
			case nil, *syntax.Word, *syntax.Lit:
			case *syntax.SglQuoted:
				bare = bare && !n.Dollar
			case *syntax.DblQuoted:
				bare = bare && !n.Dollar
			default:
				bare = false
			}
			return bare
		})
	}
	return bare
}

// A Command is one program, builtin or group of redirections that the line runs.
type Command struct {
	Program string // base name of the first word, or "" if that is not known or there is none
	Name    Word   // the first word
	Args    []Word // the other words

	Env       []Assign // variables for this command alone
	Redirects []Redirect
	IsGroup   bool // there is no program: the redirections are those of a group, a loop or a function, whose commands follow

	Dirs     []string // absolute directories it may run in; "" is one that is not known
	Wrappers []string // what was peeled off, outermost first: sudo, sh, xargs
	Code     []Code   // text in another language that it runs
	Script   *Word    // the file that it runs as a program of the shell or of an interpreter

	Stdin []int // the commands whose output it reads, as indices of Line.Commands
	Input *Word // the text that it reads, where the line tells

	Remote     string // where it runs, if not on this machine: "ssh host", "docker exec name"
	Privileged bool   // by sudo or the like
	Background bool   // nobody waits for it

	Pos, End int // bytes of Line.Text; of what came from a nested text, where that stands
}

// Assign is a variable and its value.
type Assign struct {
	Name  string
	Value Word
}

// Code is program text in a language other than the shell's.
type Code struct {
	Language string // python, node, perl, ruby, php, lua, awk, ...
	Text     Word
}

// A Redirect is a file that is opened for a command, or text that it reads.
type Redirect struct {
	Op     string // as written: > >> >| &> < <> << <<< >&
	FD     int    // -1 for the operator's own
	Target Word   // the file, or the text of << and <<<
	Reads  bool   // the file is read
	Writes bool   // the file is written
}

// Reason says why something is opaque.
type Reason string

// The reasons.
const (
	Unparsed    Reason = "unparsed"     // bash's grammar does not fit
	Incomplete  Reason = "incomplete"   // it ends within a quote, bracket or compound, so that no shell runs it
	Limit       Reason = "limit"        // too long, too deep, or too many commands
	CommandName Reason = "command-name" // which program runs is known only at run time
	Eval        Reason = "eval"         // text known only at run time is run as commands
	Stdin       Reason = "stdin"        // a shell or an interpreter reads its program from other commands
	Decoded     Reason = "decoded"      // the program is hidden by an encoding
	Sourced     Reason = "sourced"      // a file is read as commands of this shell
	Recursive   Reason = "recursive"    // a function calls itself
	Settings    Reason = "settings"     // a file or folder that is named says what else runs
)

// Opaque is code that the text does not show.
type Opaque struct {
	Reason     Reason
	Detail     string
	From       []int // the commands whose output is run
	Command    int   // the command that runs it, or -1
	Background bool
	Remote     string
	Pos        int // byte of Line.Text
}

const (
	maxLineBytes = 128 << 10 // what Linux takes as one argument
	maxNesting   = 1000      // brackets that are open at once
	maxKeywords  = 4000      // if, while, case and the like that are not closed
	maxDepth     = 150       // of what is evaluated
	maxCommands  = 2000
	maxSteps     = 20000     // statements and words that are evaluated
	maxText      = 512 << 10 // bytes of nested texts and of expanded words
	maxFields    = 1024      // words that one word can become
	maxBindings  = 4000
	maxUnrolled  = 256 // turns of for loops whose items are known
	maxDetail    = 200 // bytes
	maxProducers = 16
)

// Parse returns what the line does. It never fails: what can't be parsed is
// opaque.
func Parse(line string, o Options) *Line {
	e := newEvaluator(&Line{Text: line, Home: o.Home, Follow: o.Follow})
	if len(line) > maxLineBytes {
		e.opaque(Opaque{Reason: Limit, Detail: "the line is too long", Command: -1})
		return e.line
	}
	if !utf8.ValidString(line) || strings.ContainsFunc(line, isHole) || strings.ContainsRune(line, 0) {
		e.opaque(Opaque{Reason: Unparsed, Detail: "a character that no command line has", Command: -1})
		return e.line
	}
	st := state{dirs: o.Dirs()}
	if o.Home != "" {
		st = st.bind("HOME", literalValue(o.Home))
	}
	e.run(line, st, frame{src: line, pos: -1})
	return e.line
}
