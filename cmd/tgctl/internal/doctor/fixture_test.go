package doctor

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/host"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/fleet"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/service"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// TestMain runs a daemon if the test binary was started under its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == connect.DaemonName {
		os.Exit(consoletest.PlayDaemon())
	}
	os.Exit(m.Run())
}

// fixture is a fixture for doctor: a home, a daemon and a machine. All are healthy until a
// test breaks something.
type fixture struct {
	*consoletest.Home
	fake    *consoletest.Daemon
	console *consoletest.Console
	machine machine
	world   world
	stop    func() // stops the daemon
	stopped bool
}

// world is what the machine reports.
type world struct {
	kernel    host.Kernel
	space     host.Space
	age       time.Duration
	service   service.State
	remote    string // value of SSH_CONNECTION
	errors    []string
	failure   error // error of space and errors
	denied    error // error of writable
	version   string
	song      canaryResult
	hook      func(agentconf.HookCommand, []byte) (agenthook.Output, error)
	canaryErr error
	courier   fleet.CourierState
}

const canaryID = "tg-0123456789ab-1"

func newDoctorsFixture(t *testing.T) *fixture {
	was := ui.Release
	ui.Release = "v0.1.0"
	t.Cleanup(func() { ui.Release = was })
	h := &fixture{Home: consoletest.NewHome(t), fake: &consoletest.Daemon{}}
	h.world = world{
		kernel: host.Kernel{Name: "Linux 6.12.0", PIDFD: true, PeerPIDFD: true, Ptrace: 1, Landlock: 6},
		space:  host.Space{Free: 40 << 30, Files: 1 << 20}, age: 26 * time.Hour, version: ui.Release,
		song: canaryResult{Answer: "Not executed. Denied. (" + canaryID + ")", Refused: true},
	}
	h.machine = machine{
		kernel:   func() host.Kernel { return h.world.kernel },
		space:    func(string) (host.Space, error) { return h.world.space, h.world.failure },
		writable: func(string) error { return h.world.denied },
		age:      func(int32) (time.Duration, error) { return h.world.age, nil },
		service: func(context.Context) (service.State, error) {
			if h.world.service.Manager == "" {
				return service.State{}, service.ErrNone
			}
			return h.world.service, nil
		},
		errors:  func(context.Context, host.Log) ([]string, error) { return h.world.errors, h.world.failure },
		version: func(context.Context, string) (string, error) { return h.world.version, h.world.failure },
		call:    func(context.Context, string, string) (canaryResult, error) { return h.world.song, h.world.canaryErr },
		ask: func(_ context.Context, c agentconf.HookCommand, event []byte) (agenthook.Output, error) {
			return h.world.hook(c, event)
		},
		courier: func(context.Context) fleet.CourierState { return h.world.courier },
	}
	h.Mkdir("run/thoughtgate")
	h.fake.Socket = h.path("run/thoughtgate/control.sock")
	serving := h.fake.Serve(t)
	t.Cleanup(serving)
	h.stop = func() { serving(); h.stopped = true }
	st := consoletest.Healthy()
	st.ControlSocket, st.ShimSocket, st.AuditDir = h.fake.Socket, h.fake.Socket, h.path(".local/state/thoughtgate/audit")
	h.fake.Status, h.fake.Validate, h.fake.Set = st, &pb.ValidateResponse{}, &pb.PolicySet{}
	h.fake.Records = consoletest.Chained([]record.Record{
		{Kind: record.KindLog, Log: "5f3a", Time: consoletest.Noon},
		{Kind: record.KindCall, ID: canaryID, Server: record.CanaryServer, Verdict: "deny", Rule: record.CanaryRule, Time: consoletest.Noon},
	})
	for _, r := range h.fake.Records {
		r.Seq += st.GetAuditSeq()
	}
	for _, dir := range []string{"", ".local/state/thoughtgate", "run/thoughtgate", ".config/thoughtgate"} {
		h.Mkdir(dir)
	}
	for _, dir := range []string{".local/state/thoughtgate", "run/thoughtgate"} {
		h.chmod(dir, 0o700)
	}
	h.log(h.fake.Records...)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, h.path("bin/thoughtgated")); err != nil { // playDaemon
		t.Fatal(err)
	}
	h.Write("run/thoughtgate/thoughtgated.lock", fmt.Sprint(st.GetPid()), 0o600)
	return h
}

func (h *fixture) path(name string) string { return filepath.Join(h.Dir, name) }

func (h *fixture) chmod(name string, mode os.FileMode) {
	h.T.Helper()
	if err := os.Chmod(h.path(name), mode); err != nil {
		h.T.Fatal(err)
	}
}

func (h *fixture) remove(name string) {
	h.T.Helper()
	if err := os.Remove(h.path(name)); err != nil {
		h.T.Fatal(err)
	}
}

// log writes the records to the directory that the daemon reports as its audit log.
func (h *fixture) log(records ...*pb.AuditRecord) string {
	h.T.Helper()
	var text bytes.Buffer
	for _, r := range records {
		text.Write(append(r.GetLine(), '\n'))
	}
	path := h.Write(".local/state/thoughtgate/audit/"+record.SegmentName(1), text.String(), 0o600)
	if err := os.Chtimes(path, consoletest.Noon, consoletest.Noon); err != nil {
		h.T.Fatal(err)
	}
	return path
}

// prepare makes a console with doctor.
func (h *fixture) prepare() {
	h.console = consoletest.New(h.fake.Socket, func(a *connect.App) *cobra.Command { return command(a, h.machine) })
	h.console.Env["HOME"], h.console.Env["XDG_RUNTIME_DIR"] = h.Dir, h.path("run")
	h.console.Env["SSH_CONNECTION"] = h.world.remote
	h.console.App.Executable = func() (string, error) { return h.path("bin/tgctl"), nil }
}

// examine runs doctor and returns its exit code.
func (h *fixture) examine(args ...string) int {
	h.T.Helper()
	h.prepare()
	return h.console.Run(h.T, append([]string{"doctor"}, args...)...)
}

// findings returns what doctor finds in the fixture.
func (h *fixture) findings() []finding {
	h.T.Helper()
	h.examine("--json")
	var all []finding
	for line := range bytes.Lines(h.console.Out.Bytes()) {
		var f finding
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&f); err != nil {
			h.T.Fatalf("%v: %s", err, line)
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		h.T.Fatalf("doctor says nothing: %s", h.console.Err.String())
	}
	return all
}

// phone sets a phone up with the ntfy server at address.
func (h *fixture) phone(address string) {
	h.Write(".config/thoughtgate/phone.json", fmt.Sprintf(`{"v":1,"server":%q,"topic":"tg-questions-0123456789","answers":"tg-answers-0123456789","key":%q}`,
		address, base64.StdEncoding.EncodeToString(make([]byte, 32))), 0o600)
}

// inFleet makes the machine a member of a fleet, whose courier has that state.
func (h *fixture) inFleet(c fleet.CourierState) {
	h.fake.Status.Fleet = &pb.FleetState{Device: "UABC", Fleet: "acme", Group: "dev"}
	h.world.courier = c
}
