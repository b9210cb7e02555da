// Package pathguard_test runs pathguard, which is written in Python, as the gate does, and runs
// its own tests.
package pathguard_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not here to run pathguard with")
	}
	return path
}

// TestUnits runs the program's own tests.
func TestUnits(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), python(t), "-B", "-m", "unittest")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestProgram talks to the program as the gate does: started according to the manifest, with
// 100 concurrent calls.
func TestProgram(t *testing.T) {
	project := t.TempDir()
	cmd := exec.Command(python(t), "-I", "-B", "pathguard.py")
	cmd.Env = []string{"HOME=" + filepath.Dir(project), "PATH=" + os.Getenv("PATH")}
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	subscribed := make(chan string, 1)
	conn := rpc.NewConn(out, in, rpc.Options{Framing: wire.ContentLength{}, Handler: rpc.HandlerFunc(func(_ context.Context, method string, _ []byte) ([]byte, error) {
		subscribed <- method
		return []byte(`{"ok":true}`), nil
	})})
	var running sync.WaitGroup
	running.Go(func() { _ = conn.Run(context.Background()) })
	defer func() {
		conn.Close()
		running.Wait()
		if err := cmd.Wait(); err != nil || said.Len() > 0 {
			t.Errorf("it ended with %v and said %s", err, &said)
		}
	}()
	ask := func(method, params, want string) {
		t.Helper()
		if got, err := conn.Call(t.Context(), method, []byte(params)); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s %s: %s, %v; want %s", method, params, got, err, want)
		}
	}
	ask("initialize", `{"thoughtgate_version":"1","protocol_version":1,"name":"pathguard","root":".","config":{"roots":""}}`, `"protocol_version": 1`)
	if method := <-subscribed; method != "config.subscribe" {
		t.Errorf("it asked for %s", method)
	}
	var calls sync.WaitGroup
	for i := range 50 {
		calls.Go(func() {
			ask("hook.before", fmt.Sprintf(`{"call":{"method":"tools/call","project":%q,"arguments":{"path":"a/%d","content":"\ud83d"}}}`, project, i), `"continue"`)
		})
		calls.Go(func() {
			ask("hook.before", fmt.Sprintf(`{"call":{"method":"tools/call","project":%q,"arguments":{"path":"~/%d"}}}`, project, i), fmt.Sprintf(`leads to '~/%d'`, i))
		})
	}
	calls.Wait()
	ask("shutdown", `{}`, `{}`)
}
