package agentconf

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/jsonc"
	"github.com/thoughtgate/thoughtgated/internal/tomledit"
	"github.com/thoughtgate/thoughtgated/internal/yamledit"
)

// lenient takes whatever any agent takes that writes JSON, and strict what all
// of them do.
var (
	lenient = jsonc.Syntax{Comments: true, TrailingCommas: true}
	strict  = jsonc.Syntax{}
)

// syntaxes are what configuration files are written in, by the name that a
// journal knows them by, and the endings of file names.
var syntaxes = []struct {
	edit.Syntax
	endings []string
}{
	{lenient, []string{".json", ".jsonc"}},
	{tomledit.Syntax{}, []string{".toml"}},
	{yamledit.Syntax{}, []string{".yaml", ".yml"}},
}

// syntaxNamed returns a syntax by its name; JSON for one that has none.
func syntaxNamed(name string) edit.Syntax {
	for _, s := range syntaxes {
		if s.Name() == name {
			return s.Syntax
		}
	}
	return lenient
}

// syntaxOf tells the syntax of a file by its names, the first that says
// something; it is JSON where none does.
func syntaxOf(names ...string) edit.Syntax {
	s, _ := syntaxSaid(names...)
	return s
}

// syntaxSaid is syntaxOf, and reports whether a name says it. A copy has its own
// ending behind that of the file, as config.toml.bak or config.yaml~.
func syntaxSaid(names ...string) (syntax edit.Syntax, ok bool) {
	for _, name := range names {
		parts := strings.Split(filepath.Base(name), ".")
		for _, part := range slices.Backward(parts[1:]) {
			letters := strings.IndexFunc(part+"~", func(r rune) bool { return r < 'a' || r > 'z' })
			for _, s := range syntaxes {
				if slices.Contains(s.endings, "."+part[:letters]) {
					return s.Syntax, true
				}
			}
		}
	}
	return lenient, false
}

// syntaxFor tells the syntax of a file by its names, and where none says it by what
// it holds: a copy may be called anything.
func syntaxFor(data []byte, names ...string) edit.Syntax {
	syntax, ok := syntaxSaid(names...)
	if ok {
		return syntax
	}
	for _, s := range syntaxes {
		if doc, err := s.Read(data); err == nil && doc.Root().Kind() == edit.Object {
			return s.Syntax
		}
	}
	return syntax
}

// reading is what to read a file with that an agent took as written in syntax:
// whoever puts a file back must not stumble over a comment.
func reading(syntax edit.Syntax) edit.Syntax { return syntaxNamed(syntax.Name()) }
