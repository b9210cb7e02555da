package extension_test

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"

	"github.com/thoughtgate/thoughtgated/client/extension"
)

// An extension that lets nobody call a tool in the folder that holds keys, counts
// what it saw, and tells the count to a person. It needs the permissions
// hooks.before and commands.
func Example() {
	var seen atomic.Int64
	err := extension.Serve(context.Background(), extension.Handler{
		Before: func(_ context.Context, call *extension.Call) (extension.Answer, error) {
			seen.Add(1)
			if call.Project == "/home/me/keys" {
				return extension.Block("no tool is called in the folder of keys"), nil
			}
			return extension.Continue(), nil
		},
		Commands: map[string]extension.Command{
			"count": func(_ context.Context, out *extension.Output, _ []string) (int, error) {
				_, err := fmt.Fprintf(out, "%d calls\n", seen.Load())
				return 0, err
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}
