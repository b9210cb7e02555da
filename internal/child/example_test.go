package child_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/thoughtgate/thoughtgated/internal/child"
)

func Example() {
	c, err := child.Start(child.Spec{
		Command: "sh",
		Args:    []string{"-c", `echo "hello, $WHO"; cat; exit 3`},
		Env:     child.ComposeEnv(os.Environ(), map[string]string{"WHO": "world"}, []string{"SECRET_*"}),
	})
	if err != nil {
		os.Exit(child.StartExit(err))
	}
	fmt.Fprintln(c.Stdin(), "and back")
	c.Stdin().Close()
	out, _ := io.ReadAll(c.Stdout())
	fmt.Printf("%s%v\n", out, c.Stop(context.Background(), child.OurGrace))
	child.EscapeStderr(os.Stderr, c.Stderr())
	// Output:
	// hello, world
	// and back
	// exit status 3
}
