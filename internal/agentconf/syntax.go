package agentconf

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/edit"
	"github.com/thoughtgate/thoughtgated/internal/edit/jsonc"
	"github.com/thoughtgate/thoughtgated/internal/edit/tomledit"
	"github.com/thoughtgate/thoughtgated/internal/edit/yamledit"
)

// lenient accepts any JSON that an agent accepts, strict only plain JSON.
var (
	lenient = jsonc.Syntax{Comments: true, TrailingCommas: true}
	strict  = jsonc.Syntax{}
)

// syntaxes are the syntaxes of configuration files, with their file name extensions.
var syntaxes = []struct {
	edit.Syntax
	endings []string
}{
	{lenient, []string{".json", ".jsonc"}},
	{tomledit.Syntax{}, []string{".toml"}},
	{yamledit.Syntax{}, []string{".yaml", ".yml"}},
	{plugin{lenient}, []string{".js"}},
}

// syntaxNamed returns the syntax with the given name, or JSON if there is none.
func syntaxNamed(name string) edit.Syntax {
	for _, s := range syntaxes {
		if s.Name() == name {
			return s.Syntax
		}
	}
	return lenient
}

// syntaxOf returns the syntax of a file by its names. The first name with a known extension
// counts; without one it is JSON.
func syntaxOf(names ...string) edit.Syntax {
	s, _ := syntaxSaid(names...)
	return s
}

// syntaxSaid is syntaxOf, and reports whether a name has a known extension. A copy has another
// extension after the file's, such as config.toml.bak or config.yaml~.
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

// syntaxFor returns the syntax of a file by its names, or by its content if no name has a known
// extension, because a copy may have any name.
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

// reading returns the syntax for reading a file that an agent reads in syntax. It is lenient,
// because a comment must not prevent a restore.
func reading(syntax edit.Syntax) edit.Syntax { return syntaxNamed(syntax.Name()) }

// plugin reads the script of ours that an agent runs in the place of hooks. The document is the
// JSON object in it.
type plugin struct{ jsonc.Syntax }

// Name implements [edit.Syntax].
func (plugin) Name() string { return "plugin" }

// Parse implements [edit.Syntax].
func (s plugin) Parse(src []byte) (*edit.Document, error) { return edit.RequireNoDoubts(s.Read(src)) }

// Read implements [edit.Syntax].
func (s plugin) Read(src []byte) (*edit.Document, error) {
	d := edit.NewDocument(s, src)
	begin, end, ours := agenthook.Plugin(string(src))
	if !ours {
		return nil, d.ErrorAt(0, "this is not the plugin that ThoughtGate writes; move it to another name")
	}
	blank := bytes.Repeat([]byte{' '}, len(src))
	copy(blank[begin:end], src[begin:end])
	object, err := s.Syntax.Read(blank)
	if err != nil {
		return nil, err
	}
	return d.SetRoot(object.Root().Value()), nil
}
