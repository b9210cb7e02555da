package rpc_test

import (
	"context"
	"fmt"
	"log"
	"os/exec"
	"sync"

	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// One child process, 100 calls at once. The child is cat, which returns each line: the
// requests come back as if cat had sent them, and so do the answers to them.
func ExampleConn() {
	child := exec.Command("cat")
	stdin, err := child.StdinPipe()
	if err != nil {
		log.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := child.Start(); err != nil {
		log.Fatal(err)
	}

	conn := rpc.NewConn(stdout, stdin, rpc.Options{
		Framing: wire.NDJSON{},
		Dialect: rpc.JSONRPC{},
		Handler: rpc.HandlerFunc(func(_ context.Context, method string, params []byte) ([]byte, error) {
			return params, nil
		}),
	})
	var running, calls sync.WaitGroup
	running.Go(func() {
		if err := conn.Run(context.Background()); err != nil {
			log.Print(err)
		}
	})

	var right sync.Map
	for i := range 100 {
		calls.Go(func() {
			params := fmt.Sprintf(`{"n":%d}`, i)
			result, err := conn.Call(context.Background(), "echo", []byte(params))
			if err == nil && string(result) == params {
				right.Store(i, true)
			}
		})
	}
	calls.Wait()
	n := 0
	for range right.Range {
		n++
	}
	fmt.Println(n, "calls got their own answer")

	conn.Close() // cat reads the end of its input and exits
	running.Wait()
	fmt.Println("cat:", child.Wait())
	// Output:
	// 100 calls got their own answer
	// cat: <nil>
}
