package service

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"howett.net/plist"

	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

// place is a user's home with a service manager that a script plays: it logs its arguments and
// answers from files.
type place struct {
	t      *testing.T
	root   string
	env    map[string]string
	getenv func(string) string
}

func newPlace(t *testing.T, program, script string) *place {
	t.Helper()
	root := tempdir.New(t, "", "tg-service-")
	p := &place{t: t, root: root, env: map[string]string{"HOME": root + "/home", "USER": "ana"}}
	p.getenv = func(name string) string { return p.env[name] }
	p.write("bin/"+program, "#!/bin/sh\nROOT="+root+"\necho \"$*\" >> $ROOT/calls\n"+script)
	if err := os.Chmod(root+"/bin/"+program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root+"/home", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", root+"/bin:/usr/bin:/bin")
	return p
}

func (p *place) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) read(name string) string {
	raw, err := os.ReadFile(filepath.Join(p.root, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	return string(raw)
}

// calls returns the commands that the manager got since the previous call, without queries.
func (p *place) calls() []string {
	var told []string
	for line := range strings.Lines(p.read("calls")) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "--user "))
		if !strings.HasPrefix(line, "show") && !strings.HasPrefix(line, "print") {
			told = append(told, line)
		}
	}
	if err := os.Remove(p.root + "/calls"); err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	return told
}

// systemctl answers queries from the files env and unit; without the latter there is no unit.
const systemctl = `case "$*" in
*show-environment) echo HOME=$ROOT/home; cat $ROOT/env 2>/dev/null; exit 0 ;;
*show*thoughtgated.service) cat $ROOT/unit 2>/dev/null || echo LoadState=not-found; exit 0 ;;
*show*) echo ActiveState=inactive; exit 0 ;;
esac
[ ! -e $ROOT/fail ] || { cat $ROOT/fail >&2; exit 1; }
`

func newSystemd(t *testing.T) (*place, Manager) {
	p := newPlace(t, "systemctl", systemctl)
	p.env["XDG_RUNTIME_DIR"] = p.root + "/run"
	p.write("run/systemd/private", "")
	p.write("bin/loginctl", "#!/bin/sh\necho no\n")
	if err := os.Chmod(p.root+"/bin/loginctl", 0o755); err != nil {
		t.Fatal(err)
	}
	m := For("linux", p.getenv).(*systemd)
	m.booted = p.root
	return p, m
}

// systemd is used only if it would use the same folders; otherwise the error says what to do.
func TestSystemdState(t *testing.T) {
	const loaded = "LoadState=loaded\nFragmentPath=/usr/lib/systemd/user/thoughtgated.service\nUnitFileState=enabled\n" +
		"ActiveState=active\nSubState=running\nMainPID=77\nNRestarts=2\nExecStart={ path=/usr/bin/thoughtgated ; argv[]=/usr/bin/thoughtgated ; }\n"
	for _, test := range []struct {
		name string
		set  func(p *place)
		bare bool   // systemd is not the init of the machine
		none bool   // ErrNone
		hint string // of the error
		want State
	}{
		{name: "installed", set: func(p *place) { p.write("unit", loaded) }, want: State{
			Manager: "systemd", Definition: "/usr/lib/systemd/user/thoughtgated.service", Program: "/usr/bin/thoughtgated",
			Enabled: true, Active: true, Detail: "active (running)", PID: 77, Restarts: 2, Log: journal,
		}},
		{name: "not installed", set: func(*place) {}, want: State{Manager: "systemd", Detail: " ()", Log: journal}},
		{name: "masked", set: func(p *place) { p.write("unit", "LoadState=masked\n") }, none: true, hint: "systemctl --user unmask thoughtgated"},
		{name: "no user manager", set: func(p *place) { os.Remove(p.root + "/run/systemd/private") }, none: true, hint: "loginctl enable-linger ana"},
		{name: "no runtime folder", set: func(p *place) { delete(p.env, "XDG_RUNTIME_DIR") }, none: true, hint: "machinectl shell ana@"},
		{name: "no user manager, no systemd", bare: true, set: func(p *place) { os.Remove(p.root + "/run/systemd/private") }, none: true, hint: "tgctl starts the daemon when needed"},
		{name: "no runtime folder, no systemd", bare: true, set: func(p *place) { delete(p.env, "XDG_RUNTIME_DIR") }, none: true, hint: "tgctl starts the daemon when needed"},
		{name: "a user manager, no systemd", bare: true, set: func(*place) {}, want: State{Manager: "systemd", Detail: " ()", Log: journal}},
		{name: "no systemctl", set: func(p *place) { p.t.Setenv("PATH", "/nowhere") }, none: true, hint: "tgctl starts the daemon when needed"},
		{name: "another state folder", set: func(p *place) { p.env["XDG_STATE_HOME"] = "/elsewhere" }, none: true, hint: "import-environment XDG_STATE_HOME"},
		{name: "another one there", set: func(p *place) { p.write("env", "XDG_CONFIG_HOME=/elsewhere\n") }, none: true, hint: "unset-environment XDG_CONFIG_HOME"},
		{name: "another home", set: func(p *place) { p.env["HOME"] = "/elsewhere" }, none: true, hint: "import-environment HOME"},
		{name: "the same state folder", set: func(p *place) {
			p.env["XDG_STATE_HOME"] = "/elsewhere"
			p.write("env", "XDG_STATE_HOME=/elsewhere\n")
		}, want: State{Manager: "systemd", Detail: " ()", Log: journal}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, m := newSystemd(t)
			test.set(p)
			if test.bare {
				m.(*systemd).booted = p.root + "/nowhere"
			}
			got, err := m.State(t.Context())
			var failed *Error
			if errors.Is(err, ErrNone) != test.none || test.none && (!errors.As(err, &failed) || !strings.Contains(failed.Hint, test.hint)) {
				t.Fatalf("error %v, want one of no manager: %v, with the hint %q", err, test.none, test.hint)
			}
			if !test.none && got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

// Install writes units that start our programs, once; Uninstall removes them.
func TestSystemdInstall(t *testing.T) {
	p, m := newSystemd(t)
	programs := Programs{Daemon: "/opt/100% own/bin/thoughtgated", Tgctl: "/opt/own/bin/tgctl"}
	wrote, err := m.Install(t.Context(), programs)
	if err != nil {
		t.Fatal(err)
	}
	dir := p.root + "/home/.config/systemd/user/"
	all := []string{dir + "thoughtgated.service", dir + "thoughtgated.socket", dir + "thoughtgated-shim.socket"}
	if !slices.Equal(wrote, all) {
		t.Errorf("wrote %q, want %q", wrote, all)
	}
	unit := p.read("home/.config/systemd/user/thoughtgated.service")
	for _, line := range []string{"\nExecStart=\"/opt/100%% own/bin/thoughtgated\"\n", "\nExecReload=/opt/own/bin/tgctl daemon reload\n"} {
		if !strings.Contains(unit, line) {
			t.Errorf("the unit lacks %q:\n%s", line, unit)
		}
	}
	if wrote, err := m.Install(t.Context(), programs); err != nil || len(wrote) > 0 {
		t.Errorf("a second time: wrote %q, %v", wrote, err)
	}
	if got, want := p.calls(), []string{"daemon-reload", "daemon-reload"}; !slices.Equal(got, want) {
		t.Errorf("systemd was told %q, want %q", got, want)
	}
	p.write("unit", "LoadState=loaded\nFragmentPath="+all[0]+"\n")
	if st, err := m.State(t.Context()); err != nil || !st.Ours {
		t.Errorf("the unit counts as somebody else's: %+v, %v", st, err)
	}
	removed, err := m.Uninstall(t.Context())
	if err != nil || !slices.Equal(removed, all) {
		t.Errorf("removed %q, %v, want %q", removed, err, all)
	}
	if got, want := p.calls(), []string{"disable --now thoughtgated.service thoughtgated.socket thoughtgated-shim.socket", "daemon-reload"}; !slices.Equal(got, want) {
		t.Errorf("systemd was told %q, want %q", got, want)
	}
}

// Files that tgctl has not written are not changed, whether or not systemd has loaded them.
func TestSystemdInstallKeepsWhatIsThere(t *testing.T) {
	p, m := newSystemd(t)
	p.write("unit", "LoadState=loaded\nFragmentPath=/usr/lib/systemd/user/thoughtgated.service\n")
	if wrote, err := m.Install(t.Context(), Programs{"/a", "/b"}); err != nil || len(wrote) > 0 {
		t.Errorf("beside a package's: wrote %q, %v", wrote, err)
	}
	os.Remove(p.root + "/unit")
	p.write("home/.config/systemd/user/thoughtgated.service", "[Service]\n")
	if wrote, err := m.Install(t.Context(), Programs{"/a", "/b"}); err == nil || !strings.Contains(err.Error(), "was not written by tgctl") {
		t.Errorf("over somebody's own: wrote %q, %v", wrote, err)
	}
	if got := p.read("home/.config/systemd/user/thoughtgated.service"); got != "[Service]\n" {
		t.Errorf("somebody's own unit is now %q", got)
	}
}

func TestSystemdPathsThatCantBeStarted(t *testing.T) {
	_, m := newSystemd(t)
	for _, path := range []string{"bin/thoughtgated", "/a\nb", "/a$b", `/a"b`, "/a;b"} {
		if wrote, err := m.Install(t.Context(), Programs{path, "/b"}); err == nil || len(wrote) > 0 {
			t.Errorf("%q: wrote %q, %v", path, wrote, err)
		}
	}
}

func TestSystemdVerbs(t *testing.T) {
	const sockets = " thoughtgated.service thoughtgated.socket thoughtgated-shim.socket"
	for want, do := range map[string]func(Manager) error{
		"enable --now" + sockets:       func(m Manager) error { return m.Enable(t.Context()) },
		"start thoughtgated.service":   func(m Manager) error { return m.Start(t.Context()) },
		"stop" + sockets:               func(m Manager) error { return m.Stop(t.Context()) },
		"restart thoughtgated.service": func(m Manager) error { return m.Restart(t.Context()) },
	} {
		p, m := newSystemd(t)
		if err := do(m); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if got := p.calls(); !slices.Equal(got, []string{want}) {
			t.Errorf("systemd was told %q, want %q", got, want)
		}
		p.write("fail", "Job failed.")
		var failed *Error
		if err := do(m); !errors.As(err, &failed) || !strings.Contains(err.Error(), "Job failed.") || !strings.Contains(failed.Hint, "journalctl") {
			t.Errorf("%s failed: %v", want, err)
		}
	}
}

// The daemon is loaded in launchctl while the file loaded exists.
const launchctl = `case "$1" in
print) [ -e $ROOT/loaded ] || exit 113; printf 'gui/0/x = {\n\tpath = /x.plist\n\tstate = running\n\tprogram = /x/thoughtgated\n\tpid = 77\n\tsockets = {\n\t\tstate = odd\n\t}\n}\n' ;;
bootstrap) touch $ROOT/loaded ;;
bootout) rm $ROOT/loaded ;;
esac
`

// All operations with launchd, from installation to removal.
func TestLaunchd(t *testing.T) {
	p := newPlace(t, "launchctl", launchctl)
	m := &launchd{getenv: p.getenv, uid: 501}
	const target = "gui/501/io.github.thoughtgate.thoughtgated"
	file := p.root + "/home/Library/LaunchAgents/io.github.thoughtgate.thoughtgated.plist"
	step := func(name string, err error, want ...string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := p.calls(); !slices.Equal(got, want) {
			t.Errorf("%s: launchd was told %q, want %q", name, got, want)
		}
	}
	wrote, err := m.Install(t.Context(), Programs{Daemon: "/opt/a & b/thoughtgated"})
	step("install", err)
	if !slices.Equal(wrote, []string{file}) {
		t.Errorf("wrote %q, want %q", wrote, file)
	}
	var job struct {
		ProgramArguments []string
		Sockets          map[string]struct{ SockPathName string }
	}
	if _, err := plist.Unmarshal([]byte(p.read("home/Library/LaunchAgents/io.github.thoughtgate.thoughtgated.plist")), &job); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(job.ProgramArguments, []string{"/opt/a & b/thoughtgated", "--keep"}) || !strings.HasSuffix(job.Sockets["shim"].SockPathName, "/shim.sock") {
		t.Errorf("the property list says %+v", job)
	}
	if info, err := os.Stat(filepath.Dir(job.Sockets["shim"].SockPathName)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of the sockets, which launchd doesn't make: %v, %v", info, err)
	}
	step("enable", m.Enable(t.Context()), "bootstrap gui/501 "+file, "kickstart "+target)
	st, err := m.State(t.Context())
	want := State{Manager: "launchd", Definition: file, Ours: true, Program: "/x/thoughtgated", Enabled: true, Active: true,
		Detail: "running", PID: 77, Log: st.Log, Lingers: true}
	if step("state", err); st != want {
		t.Errorf("state\ngot  %+v\nwant %+v", st, want)
	}
	step("restart", m.Restart(t.Context()), "kill SIGUSR2 "+target, "kickstart "+target)
	_, err = m.Install(t.Context(), Programs{Daemon: "/opt/c/thoughtgated"})
	step("install after a move", err, "bootout "+target)
	step("start", m.Start(t.Context()), "bootstrap gui/501 "+file, "kickstart "+target)
	step("stop", m.Stop(t.Context()), "bootout "+target)
	removed, err := m.Uninstall(t.Context())
	step("uninstall", err)
	if !slices.Equal(removed, []string{file}) {
		t.Errorf("removed %q, want %q", removed, file)
	}
	if st, err := m.State(t.Context()); err != nil || st.Installed() || st.Active {
		t.Errorf("after that: %+v, %v", st, err)
	}
	p.env["XDG_STATE_HOME"] = "/elsewhere"
	if _, err := m.State(t.Context()); !errors.Is(err, ErrNone) {
		t.Errorf("with a state folder that launchd doesn't know: %v", err)
	}
}
