package main

import (
	"flag"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateImports = flag.Bool("update-imports", false, "write testdata/imports.golden anew")

// TestImports checks the list of the packages that tg-shim links. tg-shim is given to agents,
// started once for each server, and meant to be reviewed: it must contain no rule engine, no
// database and nothing of the daemon. Any other new import shows in review after the list has
// been rewritten with
//
//	go test ./cmd/tg-shim -run TestImports -update-imports
func TestImports(t *testing.T) {
	const golden = "testdata/imports.golden"
	list := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(out))
	slices.Sort(got)
	for _, name := range got {
		for _, never := range []string{"/thoughtgated/daemon", "cedar", "sql", "/agentconf", "/cobra"} {
			if strings.Contains(name, never) {
				t.Errorf("tg-shim links %s", name)
			}
		}
	}
	if *updateImports {
		if err := os.WriteFile(golden, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Fields(string(want)), got); diff != "" {
		t.Errorf("tg-shim links other packages than before (-want +got); if that is meant, run this test with -update-imports\n%s", diff)
	}
}
