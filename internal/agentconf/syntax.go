package agentconf

import (
	"path/filepath"

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
	for _, name := range names {
		for _, s := range syntaxes {
			for _, ending := range s.endings {
				if filepath.Ext(name) == ending {
					return s.Syntax
				}
			}
		}
	}
	return lenient
}

// reading is what to read a file with that an agent took as written in syntax:
// whoever puts a file back must not stumble over a comment.
func reading(syntax edit.Syntax) edit.Syntax { return syntaxNamed(syntax.Name()) }
