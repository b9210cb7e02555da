package serve

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A tg-shim runs beside every server: it must not link a library for gRPC, HTTP, logging or
// cryptography, or anything of the daemon.
func TestImports(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "..")
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(out)) {
		if slices.Contains([]string{"net/http", "log/slog", "encoding/json", "google.golang.org/protobuf/proto"}, name) || strings.HasPrefix(name, "crypto/") || strings.HasPrefix(name, "google.golang.org/grpc") ||
			strings.Contains(name, "/thoughtgated/daemon") || strings.Contains(name, "/thoughtgated/proto") || strings.Contains(name, "/thoughtgated/client") {
			t.Errorf("tg-shim links %s", name)
		}
	}
}
