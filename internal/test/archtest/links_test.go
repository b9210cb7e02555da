package archtest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The engine of a fleet is spoken to by tg-fleet alone: what judges calls, stands beside servers or asks a
// person links nothing of its client, of what packs for it, or of what seals.
func TestNoEngineIsLinked(t *testing.T) {
	for _, program := range []string{"thoughtgated", "tgctl", "tg-shim"} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/"+program)
		list.Dir, list.Env, list.Stderr = "../../..", append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		linked := strings.Fields(string(out))
		if len(linked) == 0 {
			t.Fatalf("%s links nothing", program)
		}
		for _, name := range linked {
			for _, never := range []string{"nats-io", "/nats", "filippo.io/age", "klauspost", "/internal/fleet/stream", "/cmd/tg-fleet"} {
				if strings.Contains(name, never) {
					t.Errorf("%s links %s", program, name)
				}
			}
		}
	}
}
