package agentconf

import (
	"github.com/thoughtgate/thoughtgated/internal/edit"
)

// form has an agent's names for the parts of an entry. The zero value stands for the usual
// names.
type form struct {
	Command string `json:"command"`
	Args    string `json:"args"` // empty if the command is a list that includes the arguments
	Env     string `json:"env"`
}

var (
	usualForm = form{"command", "args", "env"}
	zedForm   = form{"path", "args", "env"} // for a command that is an object
	gooseForm = form{"cmd", "args", "envs"}
	listForm  = form{"command", "", "environment"}

	// forms has all forms, in the order in which formed tries them.
	forms = []form{listForm, usualForm, zedForm, gooseForm}
)

// of returns n as an entry of this form.
func (f form) of(n edit.Node) server {
	if f == (form{}) {
		f = usualForm
	}
	return server{n, f}
}

// formed returns n as an entry of the form that it appears to have.
func formed(n edit.Node) server {
	for _, f := range forms {
		if command := n.Member(f.Command); command.Exists() && (command.Kind() == edit.Array) == f.isList() {
			return f.of(n)
		}
	}
	return usualForm.of(n)
}

func (f form) isList() bool { return f.Command != "" && f.Args == "" }

// server is a value in a file, viewed as an entry.
type server struct {
	edit.Node
	form form
}

func (s server) command() edit.Node { return s.Member(s.form.Command) }
func (s server) args() edit.Node {
	if s.form.isList() {
		return edit.Node{}
	}
	return s.Member(s.form.Args)
}

// launch returns the program that is started, and its arguments.
func (s server) launch() []edit.Node {
	if s.form.isList() {
		return s.command().Items()
	}
	return append([]edit.Node{s.command()}, s.args().Items()...)
}

// program returns the program that is started, or the zero Node if there is none.
func (s server) program() edit.Node {
	if words := s.launch(); len(words) > 0 {
		return words[0]
	}
	return edit.Node{}
}

// behind returns the arguments of the program.
func (s server) behind() []edit.Node {
	if words := s.launch(); len(words) > 0 {
		return words[1:]
	}
	return nil
}
func (s server) env() edit.Node { return s.Member(s.form.Env) }

// isNull reports whether text is null in syntax.
func isNull(text string, syntax edit.Syntax) bool {
	n, err := syntax.Value(text)
	return err == nil && n.Kind() == edit.Null
}
