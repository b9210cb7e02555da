package wrap

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// commands are those of this package.
var commands = []func(*connect.App) *cobra.Command{Command, UnwrapCommand, ProtectCommand, UnprotectCommand}

// TestMain runs another program if the test binary was started as one: wrap reaps all its children
// and signals itself, so it needs a process of its own.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == mortalDaemon {
		os.Exit(playMortalDaemon())
	}
	if bin := os.Getenv("TGCTL_TEST_BIN"); bin != "" {
		os.Exit(playTgctl(bin))
	}
	// Parallel tests wait more than they compute. -parallel overrides this.
	if err := flag.Set("test.parallel", fmt.Sprint(2*runtime.GOMAXPROCS(0))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	rig.ResetSIGHUP()
	rig.EndAtOnce()
	os.Exit(m.Run())
}

// playTgctl runs a tgctl with these commands whose siblings are in bin.
func playTgctl(bin string) int {
	a := &app{connect.New(ui.New())}
	ctx, stop := a.UntilInterrupted()
	defer stop()
	a.Executable = func() (string, error) { return filepath.Join(bin, "tgctl"), nil }
	at := os.Getenv("TGCTL_TEST_KILL")
	if at == "" && os.Getenv("TGCTL_TEST_AT") == "" {
		return a.ExecuteOnly(ctx, os.Args[1:], commands...)
	}
	o := options{agentType: "gemini", doors: doors{unproven: true}, waitFor: time.Second} // one file with servers and hooks
	if path := os.Getenv("TGCTL_TEST_CONFIG"); path != "" {
		o = options{agentType: "custom", config: path}
	}
	w, err := newWrapping(a, o, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	w.grace = 300 * time.Millisecond
	w.step = func(step string) {
		if step == at {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if at == "" {
		w.step = dieAfter(os.Getenv("TGCTL_TEST_AT"))
	}
	return ui.ExitCode(asWrapError(w.run(ctx)))
}
