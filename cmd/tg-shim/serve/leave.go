package serve

import (
	"os"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

// Leave ends this process as a server has ended: with its exit status, or by the
// signal that has ended it. Where that signal can't be had, as by the first process of
// a container, the status is the one that shells give it.
func Leave(state child.State) {
	if state.Signal != 0 {
		die(state.Signal)
	}
	os.Exit(state.ExitStatus())
}
