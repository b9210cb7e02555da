package effects

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// verbs are the programs of which words say what they do: git push, npm test, make check. They do too
// many things to be permitted as a whole.
var verbs = func() map[string]verbKind {
	all := map[string]verbKind{}
	for kind, programs := range map[verbKind]string{
		firstWord: "git go cargo npm pnpm yarn bun pip pip3 poetry bundle gem composer dotnet swift mix flutter dart zig",
		everyWord: "make gmake just task rake gradle mvn ant ninja bazel invoke nox tox",
	} {
		for _, name := range strings.Fields(programs) {
			all[name] = kind
		}
	}
	return all
}()

type verbKind uint8

const (
	firstWord verbKind = iota + 1 // and the next one after a word of runners
	everyWord                     // that is no flag: each is another thing to do
)

// runners are verbs after which the next word names what is run.
var runners = strings.Fields("run run-script task tool exec x")

// gitVerbs are the verbs of git that may be done again with other words. None of them loses what git
// does not keep, unless flags or words say so; then there is a deed.
var gitVerbs = strings.Fields("add blame commit describe diff fetch log ls-files merge pull push rev-parse shortlog show status")

// openVerbs are verbs that say little about what is done.
var openVerbs = strings.Fields("clean config create distclean env exec global help init set tool workspace workspaces x")

// openPrograms can do more than their names say, and no other table says so.
var openPrograms = strings.Fields("ansible ansible-playbook cdk chattr code firebase fly flyctl heroku irb lerna netlify nx open osascript patch gpatch pm2 pre-commit " +
	"pry pulumi serverless sls sqlite3 start supabase swapoff turbo vercel vimdiff wrangler xdg-open")

var verbForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:-]*$`)

// Verb returns the command of a line that is simple, and the words that say what it does: "push" of
// git push origin. They are "" for a program that does one thing. The error says why a permission for
// this line must not extend to others.
func Verb(line *shell.Line, e *Effects) (c *shell.Command, verb string, err error) {
	if c = line.Simple(); c == nil {
		return nil, "", errors.New("it is more than one command in plain words")
	}
	if len(e.Deeds)+len(e.Deletes)+len(e.Moves)+len(e.Hosts)+len(e.Runs) > 0 || e.Truncated {
		return nil, "", errors.New("it deletes, sends or changes what has to be seen each time")
	}
	spec := programOf(c.Program)
	if verbs[c.Program] == 0 {
		if name := PlainName(c.Program); verbs[name] != 0 || slices.Contains(openPrograms, name) || shell.RunsCode(name) || CanDestroy(name) || spec != nil && !spec.onlyFiles() {
			return nil, "", fmt.Errorf("%s can do more than its name says", c.Program)
		}
		return c, "", nil
	}
	words := verbWords(c)
	if len(words) == 0 {
		return nil, "", fmt.Errorf("the words after %s do not begin with what it does", c.Program)
	}
	verb = strings.Join(words, " ")
	isOpen := slices.ContainsFunc(words, func(w string) bool { return slices.Contains(openVerbs, w) })
	if c.Program == "git" {
		isOpen = !slices.Contains(gitVerbs, words[0])
	} else if spec != nil && spec.subs[words[0]] != nil {
		isOpen = isOpen || !spec.subs[words[0]].onlyFiles()
	}
	if isOpen || slices.ContainsFunc(c.Args, func(w shell.Word) bool { return strings.HasPrefix(w.Value, "--force") }) {
		return nil, "", fmt.Errorf("%s %s can do more than these words say", c.Program, verb)
	}
	return c, verb, nil
}

// verbWords returns the words that say what a program of verbs does; none if that is not certain.
func verbWords(c *shell.Command) (words []string) {
	for i, w := range c.Args {
		isFlag := strings.HasPrefix(w.Value, "-")
		switch {
		case verbs[c.Program] == everyWord:
			if !isFlag {
				words = append(words, w.Value)
			}
		case i == 0 && verbForm.MatchString(w.Value):
			words = append(words, w.Value)
		case i == 1 && len(words) == 1 && slices.Contains(runners, words[0]) && w.Value != "" && !isFlag:
			words = append(words, w.Value)
		}
	}
	if len(words) == 1 && slices.Contains(runners, words[0]) && verbs[c.Program] == firstWord {
		return nil // it does not say what it runs
	}
	return words
}

// onlyFiles reports whether a program does nothing but read and write the files that it is given.
func (p *program) onlyFiles() bool {
	roles := p.words
	for item := range strings.FieldsSeq(p.flags) {
		if i := strings.IndexAny(item, "=?"); i >= 0 {
			roles += item[i+1:]
		}
	}
	return len(p.deeds)+len(p.subs) == 0 && p.also == nil && strings.Trim(roles, "RW_. ") == ""
}
