package consoletest

import (
	"context"
	"maps"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/test/pictures"
)

// Look is a terminal that pictures are made on.
type Look struct {
	Name          string
	Columns, Rows int
	Light         bool
}

// Looks are these terminals. Colours do not depend on the width, so that one is light.
var Looks = []Look{{"80", 80, 24, false}, {"120", 120, 40, false}, {"160", 160, 50, false}, {"120-light", 120, 40, true}}

// Env returns the variables of the terminal.
func (l Look) Env() map[string]string {
	background := "15;0"
	if l.Light {
		background = "0;15"
	}
	return map[string]string{"TERM": "xterm-256color", "COLORFGBG": background}
}

// Pictured keeps in a book how a command line and what it prints look. It may exit with any code.
func (c *Console) Pictured(b *pictures.Book, name string, args ...string) {
	var shots []pictures.Shot
	for _, look := range Looks {
		shots = append(shots, c.shot(look, args))
	}
	b.Screen(name, shots...)
}

// PicturedPlain is Pictured on one terminal where NO_COLOR is set.
func (c *Console) PicturedPlain(b *pictures.Book, name string, args ...string) {
	c.Env["NO_COLOR"] = "1"
	defer delete(c.Env, "NO_COLOR")
	shot := c.shot(Looks[0], args)
	shot.Look += "-plain"
	b.Screen(name, shot)
}

// shot runs a command line on a terminal.
func (c *Console) shot(look Look, args []string) pictures.Shot {
	maps.Copy(c.Env, look.Env())
	c.App.Columns, c.App.ErrColumns, c.App.Err = look.Columns, look.Columns, &c.Out
	c.Clear()
	c.Execute(context.Background(), args...)
	line := strings.TrimRight("$ tgctl "+strings.Join(args, " "), " ")
	return pictures.Shot{Look: look.Name, Light: look.Light, Columns: look.Columns, Screen: line + "\n" + c.Out.String()}
}
