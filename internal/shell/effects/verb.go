package effects

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// tasks are the programs that do tasks of the project's, which have names: make check. Each word that
// is no flag is another one.
var tasks = strings.Fields("make gmake just task rake gradle mvn ant ninja bazel invoke nox tox")

// firstVerbs are, by program, the first words after which the others change little of what it does. What
// is not here is not known: it may be a command that takes the name of another one, or code.
//
// What git may do again in other words loses nothing that git does not keep, unless flags or words
// say so, which makes a deed.
var firstVerbs = func() map[string][]string {
	all := map[string][]string{}
	for program, words := range map[string]string{
		"git":      "add blame commit describe diff fetch log ls-files merge pull push rev-parse shortlog show status",
		"go":       "build doc fmt generate list run test version vet",
		"cargo":    "bench build check clippy doc fmt run test tree",
		"npm":      "list ls outdated run run-script start t test",
		"pnpm":     "build check lint list ls run run-script start test typecheck",
		"yarn":     "build check lint list run start test typecheck",
		"pip":      "check freeze list show",
		"pip3":     "check freeze list show",
		"poetry":   "build check show",
		"bundle":   "check list show",
		"gem":      "build list",
		"composer": "run run-script show validate",
		"dotnet":   "build format test",
		"swift":    "build test",
		"mix":      "compile format run test",
		"flutter":  "analyze test",
		"dart":     "analyze format run test",
		"zig":      "build test",
	} {
		all[program] = strings.Fields(words)
	}
	return all
}()

// runners are verbs after which the next word names what is run.
var runners = strings.Fields("run run-script")

// openTasks are those with which the same word does anything.
var openTasks = strings.Fields("clean config create distclean env exec global help init set tool workspace workspaces x")

// single are the programs that do one thing: they tell about files, make empty ones, or check what the
// project has by what the project says. All others may do anything.
var single = strings.Fields("base64 basename cat cksum clang-format cmp column comm cut df diff dirname du echo eslint expand false file flake8 fmt fold gofmt goimports " +
	"head hexdump isort jest join ls md5sum mkdir mocha mypy nl od paste phpunit prettier pwd pylint pyright pytest readlink realpath rev rspec rubocop rustfmt seq sha1sum sha256sum " +
	"shellcheck stat staticcheck strings tac tail touch tr true tsc unexpand vitest wc which whoami yamllint")

// otherwise are flags by which such programs do something else: what they are given as code or as the
// name of another program, or they send, empty a folder or write over a file.
var otherwise = map[string]string{
	"bazel": "run_under workspace_status_command", "cargo": "config Z", "dotnet": "p property", "eslint": "init", "git": "output", "go": "ldflags overlay", "gradle": "D system-prop", "just": "c chooser command e edit shell shell-arg",
	"mvn": "D define", "mypy": "install-types python-executable", "ninja": "t", "npm": "node-options", "pylint": "init-hook", "pytest": "basetemp o override-ini pastebin pdbcls",
	"rake": "E e execute execute-continue execute-print p r require", "tox": "override x", "tsc": "clean", "zig": "test-cmd",
}

var verbForm = regexp.MustCompile(`^[A-Za-z0-9_./:@=+%,-]+$`)

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
	if slices.ContainsFunc(c.Args, func(w shell.Word) bool { return isOtherwise(c.Program, w.Value) }) {
		return nil, "", fmt.Errorf("its flags say that %s does something else", c.Program)
	}
	isTask, first := slices.Contains(tasks, c.Program), firstVerbs[c.Program]
	if !isTask && first == nil {
		if !slices.Contains(single, c.Program) {
			return nil, "", fmt.Errorf("%s can do more than its name says", c.Program)
		}
		return c, "", nil
	}
	words := verbWords(c, isTask)
	if len(words) == 0 {
		return nil, "", fmt.Errorf("the words after %s do not begin with what it does", c.Program)
	}
	verb = strings.Join(words, " ")
	isOpen := !isTask && !slices.Contains(first, words[0]) || slices.ContainsFunc(words, func(w string) bool { return slices.Contains(openTasks, w) })
	if run := words[len(words)-1]; c.Program == "yarn" { // what is no script of the project is a program
		isOpen = isOpen || shell.RunsCode(run) || CanDestroy(run)
	}
	if isOpen {
		return nil, "", fmt.Errorf("%s %s can do more than these words say", c.Program, verb)
	}
	return c, verb, nil
}

// verbWords returns the words that say what a program does; none if that is not certain.
func verbWords(c *shell.Command, isTask bool) (words []string) {
	isFlag := func(w shell.Word) bool { return strings.HasPrefix(w.Value, "-") }
	said := c.Args[:min(1, len(c.Args))]
	if isTask {
		said = slices.DeleteFunc(slices.Clone(c.Args), isFlag)
	} else if len(said) == 1 && slices.Contains(runners, said[0].Value) {
		said = c.Args[:min(2, len(c.Args))]
		if len(said) == 1 {
			return nil // it does not say what it runs
		}
	}
	for _, w := range said {
		if !isTask && isFlag(w) || !verbForm.MatchString(w.Value) {
			return nil // words of one verb could be those of another, split otherwise
		}
		words = append(words, w.Value)
	}
	return words
}

// isOtherwise reports whether a word of a program may be a flag by which it does something else. It
// may be abbreviated, or one of several that stand together.
func isOtherwise(program, word string) bool {
	if strings.HasPrefix(word, "--force") {
		return true
	}
	name := strings.TrimLeft(word, "-")
	dashes := len(word) - len(name)
	if i := strings.IndexAny(name, "=:"); i >= 0 {
		name = name[:i]
	}
	if dashes == 0 || name == "" {
		return false
	}
	for flag := range strings.FieldsSeq(otherwise[program]) {
		if dashes > 1 && strings.HasPrefix(flag, name) || dashes == 1 && (len(flag) > 1 && strings.HasPrefix(name, flag) || len(flag) == 1 && strings.Contains(name, flag)) {
			return true
		}
	}
	return false
}
