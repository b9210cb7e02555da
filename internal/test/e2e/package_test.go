package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// rigVar names a program that boots systemd for an ordinary user on a copy of
// this machine, as `make rig` says. Without it TestPackage is skipped.
const rigVar = "E2E_RIG"

// releases are what is installed first, and what it is upgraded to.
var releases = [...]string{"1.0.0", "1.0.1"}

// keeper is a service of the copy. It runs as root what an ordinary user sends it,
// as sudo would, and says at last how that ended. The copy's systemd may believe
// that what the user runs is still being started, for as long as it runs.
const keeper = `
cat >/run/systemd/system/keeper.socket <<'END'
[Socket]
ListenStream=/run/keeper.sock
Accept=yes
END
cat >/run/systemd/system/keeper@.service <<'END'
[Service]
StandardInput=socket
StandardOutput=socket
StandardError=socket
ExecStart=/bin/sh -c 'eval "$$(cat)" </dev/null; echo "exit $$?"'
END
mkdir -p /run/systemd/system.conf.d
printf '[Manager]\nDefaultTimeoutStartSec=infinity\n' >/run/systemd/system.conf.d/patience.conf
systemctl daemon-reload
systemctl start keeper.socket
`

// TestPackage makes packages of two releases, and runs TestInsideRig with them.
func TestPackage(t *testing.T) {
	rig := os.Getenv(rigVar)
	if rig == "" || os.Getenv(insideVar) != "" {
		t.Skip("make rig runs it, with a program that boots systemd")
	}
	dir := tempdir.New(t, "/tmp", "tg-package-")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(dir, "e2e.test")
	install(t, testBinary(t), self)
	if err := os.Chmod(self, 0o755); err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range releases {
		begun := time.Now()
		packages := exec.Command("make", "-s", "-C", top, "packages", "VERSION=v"+number, "PLATFORMS=linux/"+runtime.GOARCH, "DIST="+filepath.Join(dir, number))
		if out, err := packages.CombinedOutput(); err != nil {
			t.Fatalf("make packages: %v\n%s", err, out)
		}
		t.Logf("packages of %s made in %v", number, time.Since(begun).Round(time.Second))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	journal := filepath.Join(dir, "journal")
	args := append([]string{"run"}, strings.Fields(os.Getenv("E2E_RIG_FLAGS"))...)
	args = append(args, "--ro-bind", dir+":/packages", "--root-cmd", keeper, "--journal", journal, "--timeout", "800",
		"--env", insideVar+"=1", "--env", binVar+"=/usr/bin", "--",
		"/packages/e2e.test", "-test.run=^TestInsideRig$", "-test.v", "-test.timeout=13m")
	cmd := exec.CommandContext(ctx, rig, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it has things to clean up
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestInsideRig ")) {
		said, _ := os.ReadFile(journal) // none where it hasn't come that far
		t.Errorf("%v\nthe journal ends with\n%s", err, said[max(0, len(said)-16<<10):])
	}
	fmt.Printf("%s", out) // figures, for whoever runs make rig
}
