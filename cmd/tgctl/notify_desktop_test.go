package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/test/sessionbus"
)

// notifications is the name of notification daemons on the bus.
const notifications = "org.freedesktop.Notifications"

// dunstConfig lets a click open a menu of the buttons, and has the program choose select
// from it.
const dunstConfig = `[global]
    mouse_left_click = context
    dmenu = %s/choose
    markup = full
`

// chooser is the program that dunst runs as its menu: it reads one button a line, and
// prints the one that the test wants to press.
const chooser = `#!/bin/sh
label=$(cat %[1]s/choice)
cat >%[1]s/menu
while IFS= read -r line || [ -n "$line" ]; do
	case $line in "#$label "*) printf '%%s\n' "$line"; break ;; esac
done <%[1]s/menu
`

// A real notification daemon on its own screen, started by the bus on demand: its buttons
// decide about the calls of an agent.
func TestNotifyOnADesktop(t *testing.T) {
	for program, of := range map[string]string{"Xvfb": "xvfb", "dunst": "dunst", "xdotool": "xdotool", "dbus-daemon": "dbus-daemon"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s; it comes with the package %s", program, of)
		}
	}
	h := newDesktop(t)
	h.must("tgctl", "daemon", "start")
	t.Cleanup(func() { _ = h.command("tgctl", "daemon", "stop").Run() })
	notify := h.begin(h.command("tgctl", "notify", "--no-start"))

	agent := h.command("tgctl", "wrap", "--agent-type", "custom", "--config-path", "mcp.json", "--", "fake-agent", "mcp.json", "script.txt")
	said := h.begin(agent)
	h.click("Approve")
	await(t, "the first call was made", func() bool { return strings.Contains(said.String(), "error false, <nil>: Written.") })
	h.window()
	h.forge()
	await(t, "a record of what an agent pretended", func() bool {
		record := h.must("tgctl", "audit", "list", "--kind", "denied", "--json")
		return strings.Contains(record, `"surface":"desktop"`) && strings.Contains(record, "did not come from the notification daemon")
	})
	h.click("Deny")
	await(t, "the second call was refused", func() bool { return strings.Contains(said.String(), "A person denied it (A-2)") })
	h.window()
	h.must("tgctl", "approvals", "deny", "A-3", "--reason", "by hand")
	await(t, "the third call was refused", func() bool { return strings.Contains(said.String(), "A person denied it (A-3): by hand") })
	await(t, "an empty screen", func() bool { return h.windows() == "" })

	const forged = "refused a forged button press"
	record := h.must("tgctl", "audit", "list", "--kind", "decision", "--json")
	for i, want := range []string{`"verdict":"approved".*"surface":"desktop"`, `"verdict":"rejected".*"surface":"desktop"`, `"verdict":"rejected".*"surface":"script"`} {
		line := strings.Split(record, "\n")[i]
		for part := range strings.SplitSeq(want, ".*") {
			if !strings.Contains(line, part) {
				t.Errorf("decision %d is recorded as %s, want %s", i+1, line, part)
			}
		}
	}
	// What is left of the forged presses is reported when ten seconds are over.
	if log := notify.String(); !strings.Contains(log, "questions are shown by dunst") || !strings.Contains(log, forged) || strings.Count(log, "WARN") != strings.Count(log, forged) {
		t.Errorf("notify said:\n%s", log)
	}
}

// forge sends signals, as any program on the bus can, that Approve was pressed in each
// possible notification.
func (h *desktopFixture) forge() {
	h.t.Helper()
	_, address, _ := strings.Cut(h.env[len(h.env)-1], "=")
	bus, err := dbus.Connect(address)
	if err != nil {
		h.t.Fatal(err)
	}
	defer bus.Close()
	for id := range uint32(10) {
		if err := bus.Emit("/org/freedesktop/Notifications", notifications+".ActionInvoked", id, "approve:0"); err != nil {
			h.t.Fatal(err)
		}
	}
}

// desktopFixture is a home with a screen, a session bus and a daemon.
type desktopFixture struct{ tmuxFixture }

// newDesktop starts a screen and a bus on which dunst can be started.
func newDesktop(t *testing.T) *desktopFixture {
	t.Helper()
	bin, err := builtPrograms()
	if err != nil {
		t.Fatal(err)
	}
	h := &desktopFixture{tmuxFixture{t: t, dir: consoletest.ShortDir(t)}}
	t.Cleanup(func() { nothingLeft(t, h.dir) })
	h.env = []string{"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "LANG=C.UTF-8",
		"HOME=" + filepath.Join(h.dir, "home"), "XDG_CONFIG_HOME=" + filepath.Join(h.dir, "config"),
		"XDG_STATE_HOME=" + filepath.Join(h.dir, "state"), "XDG_RUNTIME_DIR=" + filepath.Join(h.dir, "run"), "GORACE=" + os.Getenv("GORACE")}
	h.write("config/thoughtgate/thoughtgate.yaml", "schema: 1\ngovernance:\n  rules:\n    - {match: \"write_*\", action: approve}\n"+
		"approval:\n  me: {destination: {type: local}, timeout: 1h, surfaces: [desktop]}\n")
	h.write("mcp.json", `{"mcpServers": {"notes": {"command": "fake-server"}}}`)
	h.write("script.txt", "call notes write_note {\"name\": \"a\", \"text\": \"<b>1</b>\"}\n"+
		"call notes write_note {\"name\": \"b\", \"text\": \"2\"}\ncall notes write_note {\"name\": \"c\", \"text\": \"3\"}\n")
	h.write("dunstrc", fmt.Sprintf(dunstConfig, h.dir))
	h.write("choose", fmt.Sprintf(chooser, h.dir))
	h.write("services/notifications.service", fmt.Sprintf("[D-BUS Service]\nName=%s\nExec=%s/dunst\n", notifications, h.dir))
	h.write("dunst", fmt.Sprintf("#!/bin/sh\nDISPLAY=$(cat %[1]s/display) exec dunst -config %[1]s/dunstrc\n", h.dir))
	for _, dir := range []string{"home", "state", "run"} {
		if err := os.MkdirAll(filepath.Join(h.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"choose", "dunst"} {
		if err := os.Chmod(filepath.Join(h.dir, program), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The cleanup ends the screen before the bus, and dunst with the screen, so that the
	// bus is there to reap dunst.
	bus := sessionbus.Start(t, h.dir, h.env...)
	display := ":" + h.screen()
	h.write("display", display)
	h.env = append(h.env, "DISPLAY="+display, "DBUS_SESSION_BUS_ADDRESS="+bus.Address)
	return h
}

// screen starts a screen and returns its number.
func (h *desktopFixture) screen() string {
	h.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	defer r.Close()
	x := h.command("Xvfb", "-displayfd", "3", "-screen", "0", "800x600x24", "-nolisten", "tcp", "-noreset")
	x.ExtraFiles = []*os.File{w}
	said := h.begin(x)
	w.Close()
	number, err := io.ReadAll(io.LimitReader(r, 16)) // the server closes the file when it is ready
	if err != nil || len(number) == 0 {
		h.t.Fatalf("the screen does not start: %v\n%s", err, said)
	}
	return strings.TrimSpace(string(number))
}

// begin starts a program that is ended with the test, and returns its output.
func (h *desktopFixture) begin(cmd *exec.Cmd) *rig.Buffer {
	h.t.Helper()
	said := &rig.Buffer{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // its exit state is checked where it matters
		if h.t.Failed() {
			h.t.Logf("%s said:\n%s", cmd.Path, said)
		}
	})
	return said
}

// windows returns the windows of the notifications on the screen.
func (h *desktopFixture) windows() string {
	out, _ := h.command("xdotool", "search", "--onlyvisible", "--class", "dunst").Output()
	return strings.TrimSpace(string(out))
}

// window waits for a notification and returns its window.
func (h *desktopFixture) window() string {
	h.t.Helper()
	var window string
	await(h.t, "a notification on the screen", func() bool {
		window, _, _ = strings.Cut(h.windows(), "\n")
		return window != ""
	})
	return window
}

// click presses the button with the given label with the mouse.
func (h *desktopFixture) click(label string) {
	h.t.Helper()
	h.write("choice", label)
	window := h.window()
	h.must("sleep", "0.3") // at the speed of a person
	h.must("xdotool", "mousemove", "--window", window, "20", "20", "click", "1")
}

// await waits until holds returns true.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("this never came: " + what)
		}
	}
}
