package protowire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension/protowire"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// join returns the two ends of a connection, which both run until the test ends.
func join(t *testing.T, gate, extension rpc.Handler) (*rpc.Conn, *rpc.Conn) {
	t.Helper()
	toExtension, fromGate := io.Pipe()
	toGate, fromExtension := io.Pipe()
	options := func(h rpc.Handler) rpc.Options {
		return rpc.Options{Framing: wire.Length32{}, Dialect: protowire.Dialect{}, Handler: h}
	}
	a := rpc.NewConn(toGate, fromGate, options(gate))
	b := rpc.NewConn(toExtension, fromExtension, options(extension))
	var running sync.WaitGroup
	for _, c := range []*rpc.Conn{a, b} {
		running.Go(func() { _ = c.Run(context.Background()) })
	}
	t.Cleanup(func() {
		a.Close()
		b.Close()
		running.Wait()
	})
	return a, b
}

// TestConn makes a handshake over pipes, then calls in both directions at once, each of which
// gets its own answer.
func TestConn(t *testing.T) {
	memory := rpc.HandlerFunc(func(_ context.Context, method string, params []byte) ([]byte, error) {
		if method == "memory.append" {
			return nil, &rpc.Fault{Code: -32602, Message: "permission denied: memory.write required"}
		}
		return []byte(`{"value":"60"}`), nil
	})
	program := rpc.HandlerFunc(func(_ context.Context, method string, params []byte) ([]byte, error) {
		switch method {
		case "initialize":
			return []byte(`{"protocol_version":1,"capabilities":{"tools":[],"providers":[],"capabilities":[]}}`), nil
		case "tool.call":
			return params, nil
		}
		return []byte(`{"content":"not what the wire has"}`), nil
	})
	gate, extension := join(t, memory, program)
	info, err := gate.Call(t.Context(), "initialize", []byte(`{"thoughtgate_version":"1","protocol_version":1,"name":"x","root":"/","config":{}}`))
	if err != nil || string(info) != `{"protocol_version":1,"capabilities":{"tools":[],"providers":[],"capabilities":[]}}` {
		t.Fatalf("%s, %v", info, err)
	}
	var calls sync.WaitGroup
	for i := range 100 {
		calls.Go(func() {
			params := fmt.Sprintf(`{"name":"t","input":{"n":%d}}`, i)
			if got, err := gate.Call(t.Context(), "tool.call", []byte(params)); err != nil || string(got) != params {
				t.Errorf("%s, %v; want %s", got, err, params)
			}
		})
		calls.Go(func() {
			if got, err := extension.Call(t.Context(), "config.get", []byte(`{"key":"limit"}`)); err != nil || string(got) != `{"value":"60"}` {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
	calls.Wait()
	var fault *rpc.Fault
	if _, err := extension.Call(t.Context(), "memory.append", []byte(`{"namespace":"x","content":"c"}`)); !errors.As(err, &fault) || fault.Code != -32602 {
		t.Errorf("%v", err)
	}
	// A handler whose answer can't be encoded has failed, and an error is returned.
	if _, err := gate.Call(t.Context(), "hook.before", []byte(`{"call":{"id":"c"}}`)); !errors.As(err, &fault) {
		t.Errorf("%v", err)
	}
}

// TestTakenBack cancels a call.
func TestTakenBack(t *testing.T) {
	arrived, ended := make(chan struct{}), make(chan struct{})
	slow := rpc.HandlerFunc(func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
		close(arrived)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	gate, _ := join(t, nil, slow)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := gate.Call(ctx, "tool.call", []byte(`{"name":"t","input":{}}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	<-ended
}
