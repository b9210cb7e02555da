// Package systemd_test checks the user units as `make install` installs them.
package systemd_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/keep"
)

// setting is one line of a unit, with a key such as "Socket.ListenStream", in file order; a
// unit may set a key several times.
type setting struct{ key, value string }

func readUnit(t *testing.T, path string) []setting {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var unit []setting
	section := ""
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok {
				t.Errorf("%s: not a setting: %q", path, line)
			}
			unit = append(unit, setting{section + "." + key, value})
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return unit
}

// values returns all words of the lines that set key.
func values(unit []setting, key string) []string {
	var found []string
	for _, s := range unit {
		if s.key == key {
			found = append(found, strings.Fields(s.value)...)
		}
	}
	return found
}

func TestUnitsSayWhatTheDaemonReliesOn(t *testing.T) {
	service, control, shim := "thoughtgated.service", "thoughtgated.socket", "thoughtgated-shim.socket"
	notify, slack, phone := "tgctl-notify.service", "tgctl-slack.service", "tgctl-phone.service"
	tests := []struct {
		unit, key string
		want      []string
	}{
		// `systemctl --user enable --now thoughtgated` must start the sockets too, and a
		// started daemon must get both.
		{service, "Install.Also", []string{control, shim}},
		{service, "Unit.Requires", []string{control, shim}},
		{service, "Unit.After", []string{control, shim}},
		{service, "Service.Type", []string{"notify"}},
		{service, "Service.NotifyAccess", []string{"main"}},
		{service, "Service.FileDescriptorStoreMax", []string{strconv.Itoa(keep.MaxKept)}},
		{service, "Service.Restart", []string{"on-failure"}},
		{service, "Service.RestartSec", []string{"0"}},
		{service, "Service.ExecReload", []string{"/usr/bin/tgctl", "daemon", "reload"}},
		{service, "Service.WatchdogSec", []string{"30s"}},
		{service, "Unit.StartLimitIntervalSec", []string{"0"}},
		{service, "Service.NoNewPrivileges", []string{"yes"}},
		{service, "Service.UMask", []string{"0077"}},
		{service, "Service.LimitCORE", []string{"0"}},
		// Shared servers list network interfaces, set priorities, and may sandbox what they
		// start.
		{service, "Service.RestrictAddressFamilies", []string{"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"}},
		{service, "Service.RestrictNamespaces", nil},
		{service, "Service.SystemCallFilter", []string{"@system-service", "~@privileged", "@obsolete", "@chown", "@mount", "chroot",
			"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"}},

		{control, "Socket.ListenStream", []string{"%t/thoughtgate/control.sock"}},
		{control, "Socket.FileDescriptorName", []string{"control"}},
		{control, "Socket.DirectoryMode", []string{"0700"}},
		{control, "Socket.SocketMode", []string{"0600"}},

		// One unit with both sockets would give both the same name.
		{shim, "Socket.ListenStream", []string{"%t/thoughtgate/shim.sock"}},
		{shim, "Socket.FileDescriptorName", []string{"shim"}},
		{shim, "Socket.Service", []string{service}},
		{shim, "Socket.DirectoryMode", []string{"0700"}},
		{shim, "Socket.SocketMode", []string{"0600"}},

		// It runs while the desktop does. A daemon that it started would end with it.
		{notify, "Install.WantedBy", []string{"graphical-session.target"}},
		{notify, "Unit.PartOf", []string{"graphical-session.target"}},
		{notify, "Service.ExecStart", []string{"/usr/bin/tgctl", "notify", "--no-start"}},
		{notify, "Service.Restart", []string{"on-failure"}},
		{notify, "Service.NoNewPrivileges", []string{"yes"}},
		{notify, "Service.UMask", []string{"0077"}},
		{notify, "Service.LimitCORE", []string{"0"}},

		// Tokens are neither in its environment nor on its command line.
		{slack, "Service.LoadCredential", []string{"SLACK_BOT_TOKEN:%E/thoughtgate/slack-bot-token", "SLACK_APP_TOKEN:%E/thoughtgate/slack-app-token"}},
		{slack, "Service.Environment", nil},
		{slack, "Service.ExecStart", []string{"/usr/bin/tgctl", "slack", "--no-start"}},
		{slack, "Service.NoNewPrivileges", []string{"yes"}},
		{slack, "Service.LimitCORE", []string{"0"}},

		// Its topics, its key and its token are in a file, and nowhere else.
		{phone, "Service.ExecStart", []string{"/usr/bin/tgctl", "notify", "--via", "ntfy", "--no-start"}},
		{phone, "Service.Environment", nil},
		{phone, "Service.NoNewPrivileges", []string{"yes"}},
		{phone, "Service.UMask", []string{"0077"}},
		{phone, "Service.LimitCORE", []string{"0"}},
	}
	for _, test := range tests {
		if got := values(readUnit(t, test.unit), test.key); !slices.Equal(got, test.want) {
			t.Errorf("%s: %s = %q, want %q", test.unit, test.key, got, test.want)
		}
	}
}

// These settings would make a user service mount something. On systemd 252 they have no effect,
// and from 254 on the service either does not see its callers or is in another user namespace
// than the daemon, which then accepts no answer.
func TestServicesDoNotHide(t *testing.T) {
	for _, unit := range []string{"thoughtgated.service", "tgctl-notify.service", "tgctl-slack.service", "tgctl-phone.service"} {
		for _, s := range readUnit(t, unit) {
			name := strings.TrimPrefix(s.key, "Service.")
			// Programs that the daemon starts may need executable memory; those for Slack and the phone start none.
			if strings.HasPrefix(name, "Private") || strings.HasPrefix(name, "Protect") || name == "MemoryDenyWriteExecute" && !strings.HasSuffix(unit, "slack.service") && !strings.HasSuffix(unit, "phone.service") {
				t.Errorf("%s sets %s", unit, name)
			}
		}
	}
}

func TestInstalledUnits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd units are installed on Linux only")
	}
	prefix := t.TempDir()
	install(t, prefix)
	units := filepath.Join(prefix, "share/systemd/user")

	for _, test := range []struct{ unit, key, program string }{
		{"thoughtgated.service", "Service.ExecStart", "thoughtgated"},
		{"thoughtgated.service", "Service.ExecReload", "tgctl"},
		{"tgctl-notify.service", "Service.ExecStart", "tgctl"},
	} {
		got, want := values(readUnit(t, filepath.Join(units, test.unit)), test.key), filepath.Join(prefix, "bin", test.program)
		if len(got) == 0 || got[0] != want {
			t.Errorf("%s: %s = %q, want the program %s", test.unit, test.key, got, want)
		}
	}

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here to verify the units; it comes with systemd")
	}
	// systemd-analyze checks that the programs in the units exist.
	for _, program := range []string{"thoughtgated", "tgctl"} {
		path := filepath.Join(prefix, "bin", program)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	verify := []string{"--user", "verify"}
	for _, name := range []string{"thoughtgated.service", "thoughtgated.socket", "thoughtgated-shim.socket", "tgctl-notify.service", "tgctl-slack.service", "tgctl-phone.service"} {
		verify = append(verify, filepath.Join(units, name))
	}
	// The daemon gets the permissions that Node.js and other programs it starts need, see
	// docs/service.md; units that start nothing get fewer. make rig has the same limits.
	for _, args := range [][]string{
		verify,
		{"--user", "--no-pager", "security", "--offline=true", "--threshold=76", filepath.Join(units, "thoughtgated.service")},
		{"--user", "--no-pager", "security", "--offline=true", "--threshold=65", filepath.Join(units, "tgctl-notify.service")},
		{"--user", "--no-pager", "security", "--offline=true", "--threshold=65", filepath.Join(units, "tgctl-slack.service")},
		{"--user", "--no-pager", "security", "--offline=true", "--threshold=65", filepath.Join(units, "tgctl-phone.service")},
	} {
		cmd := exec.Command(analyze, args...)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil || args[1] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// install installs the units below prefix as a user would.
func install(t *testing.T, prefix string) {
	t.Helper()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not here to install the units")
	}
	cmd := exec.Command("make", "-s", "-C", "../..", "install-units", "PREFIX="+prefix, "DESTDIR=", "UNITDIR="+prefix+"/share/systemd/user")
	// A make that runs this test would pass on its flags and variables.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "MAKE") || strings.HasPrefix(s, "MFLAGS=")
	})
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make install-units: %v\n%s", err, out)
	}
}
