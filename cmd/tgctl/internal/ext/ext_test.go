package ext

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/programs"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// newConsole returns a terminal of 80 columns whose tgctl has only these commands, and logs.
func newConsole(socket string) *consoletest.Console {
	return consoletest.New(socket, Command, programs.LogsCommand)
}

// extensionFolder creates a directory with a manifest. The fake daemon does not read it.
func extensionFolder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(consoletest.ShortDir(t), "scrubber")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "extension.yaml"), []byte("schema: 1\n\nnmae: scrubber\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// anOlderOne is a version that may do less.
func anOlderOne() *pb.Extension {
	old := consoletest.Scrubber()
	m := old.GetManifest()
	m.Version, m.Permissions, m.Pass = "1.0.0", []string{"hooks.after", "tools"}, nil
	m.After.Tools, m.After.Open = []string{"read_*"}, true
	return old
}

func TestExtensionsOnATerminal(t *testing.T) {
	for _, test := range []struct {
		golden string
		args   []string
		fill   func(*consoletest.Daemon)
	}{
		{"ext-none", []string{"ext"}, func(*consoletest.Daemon) {}},
		{"ext", []string{"ext"}, func(f *consoletest.Daemon) { f.Ext.Installed = consoletest.InstalledExtensions() }},
		{"ext-json", []string{"ext", "list", "--json"}, func(f *consoletest.Daemon) { f.Ext.Installed = consoletest.InstalledExtensions() }},
		{"ext-show", []string{"ext", "show", "scrubber"}, func(f *consoletest.Daemon) { f.Ext.Installed = consoletest.InstalledExtensions() }},
		{"ext-show-failed", []string{"ext", "show", "pathguard"}, func(f *consoletest.Daemon) { f.Ext.Installed = consoletest.InstalledExtensions() }},
		{"ext-config", []string{"ext", "config", "scrubber"}, func(f *consoletest.Daemon) { f.Ext.Installed = consoletest.InstalledExtensions() }},
		{"ext-install", []string{"ext", "install", "--yes", "DIR"}, func(f *consoletest.Daemon) { f.Ext.Look = consoletest.LookAtScrubber() }},
		{"ext-install-upgrade", []string{"ext", "install", "--yes", "DIR"}, func(f *consoletest.Daemon) {
			f.Ext.Look = consoletest.LookAtScrubber()
			f.Ext.Look.Installed = anOlderOne()
		}},
		{"ext-install-dry-run-json", []string{"ext", "install", "--dry-run", "--json", "DIR"}, func(f *consoletest.Daemon) {
			f.Ext.Look = consoletest.LookAtScrubber()
			f.Ext.Look.Installed, f.Ext.Look.Program = anOlderOne(), ""
		}},
		{"ext-install-same", []string{"ext", "install", "--yes", "DIR"}, func(f *consoletest.Daemon) {
			f.Ext.Look = consoletest.LookAtScrubber()
			f.Ext.Look.Installed = consoletest.Scrubber()
			f.Ext.Look.Installed.Digest = f.Ext.Look.Digest
		}},
		{"ext-remove", []string{"ext", "remove", "--yes", "scrubber"}, func(f *consoletest.Daemon) { f.Ext.Installed = consoletest.InstalledExtensions() }},
		{"ext-remove-purge", []string{"ext", "remove", "--yes", "--purge", "scrubber"}, func(f *consoletest.Daemon) { f.Ext.Installed = consoletest.InstalledExtensions() }},
	} {
		t.Run(test.golden, func(t *testing.T) {
			f := consoletest.Start(t)
			test.fill(f)
			dir := extensionFolder(t)
			c := newConsole(f.Socket)
			c.App.ErrColumns = 80
			args := make([]string, len(test.args))
			for i, arg := range test.args {
				args[i] = strings.ReplaceAll(arg, "DIR", dir)
			}
			if code := c.Run(t, args...); code != 0 {
				t.Fatalf("exit %d: %s", code, c.Err.String())
			}
			both := strings.ReplaceAll(c.Out.String()+"--- stderr\n"+c.Err.String(), dir, "/tmp/scrubber")
			if !strings.Contains(test.golden, "json") {
				consoletest.MustFit(t, both, 80)
			}
			if strings.ContainsAny(both, "\x1b\u202e") {
				t.Errorf("something is shown as it is: %q", both)
			}
			consoletest.Golden(t, test.golden, both)
		})
	}
}

// An install asks. It does nothing unless the answer is yes, nor without a terminal to
// ask at.
func TestInstallAsks(t *testing.T) {
	dir := extensionFolder(t)
	for answer, installs := range map[string]int{"y\n": 1, "YES\n": 1, "n\n": 0, "\n": 0, "": 0, "yes, do\n": 0} {
		f := consoletest.Start(t)
		f.Ext.Look = consoletest.LookAtScrubber()
		c := newConsole(f.Socket)
		c.App.In = strings.NewReader(answer)
		code := c.Run(t, "ext", "install", dir)
		if len(f.Ext.Installs) != installs || (code == 0) != (installs == 1) || !strings.Contains(c.Err.String(), "Install it? [y/N]") {
			t.Errorf("%q: exit %d, %d installs: %s", answer, code, len(f.Ext.Installs), c.Err.String())
		}
		if installs == 1 && (f.Ext.Installs[0].GetDigest() != f.Ext.Look.GetDigest() || f.Ext.Installs[0].GetDir() != dir || f.Ext.Installs[0].GetSurface() != "terminal") {
			t.Errorf("%q: installs %v", answer, f.Ext.Installs[0])
		}
	}
	f := consoletest.Start(t)
	f.Ext.Look, f.Ext.Installed = consoletest.LookAtScrubber(), consoletest.InstalledExtensions()
	c := newConsole(f.Socket).Pipe()
	if code := c.Run(t, "ext", "install", "/nonexistent"); code != ui.ExitFailed || !strings.Contains(c.Err.String(), "/nonexistent: no such folder") || strings.Contains(c.Err.String(), "agreement") {
		t.Errorf("exit %d: %s", code, c.Err.String()) // what is wrong comes first
	}
	for _, line := range [][]string{{"ext", "install", dir}, {"ext", "remove", "scrubber"}} {
		c := newConsole(f.Socket).Pipe()
		if code := c.Run(t, line...); code != ui.ExitFailed || !strings.Contains(c.Err.String(), "needs your agreement") || len(f.Ext.Looked) > 0 {
			t.Errorf("%v: exit %d: %s", line, code, c.Err.String())
		}
	}
	if c := newConsole(f.Socket).Pipe(); c.Run(t, "ext", "install", "--dry-run", dir) != 0 || len(f.Ext.Installs) > 0 || !strings.Contains(c.Err.String(), "scrubber 1.1.0") {
		t.Errorf("a dry run: %d installs: %s", len(f.Ext.Installs), c.Err.String())
	}
}

// A removal says what will be lost, and asks.
func TestRemoveAsks(t *testing.T) {
	for answer, removals := range map[string]int{"y\n": 1, "n\n": 0} {
		f := consoletest.Start(t)
		f.Ext.Installed = consoletest.InstalledExtensions()
		c := newConsole(f.Socket)
		c.App.In = strings.NewReader(answer)
		code := c.Run(t, "ext", "remove", "pathguard")
		if len(f.Ext.Removals) != removals || (code == 0) != (removals == 1) ||
			!strings.Contains(c.Err.String(), "pathguard sees every call of write_*, delete_*, on files, prod-*. They will be\njudged without it.") && !strings.Contains(c.Err.String(), "They will be judged without it.") {
			t.Errorf("%q: exit %d, %v: %s", answer, code, f.Ext.Removals, c.Err.String())
		}
	}
}

// Errors come with a hint. Errors in a manifest come with their positions.
func TestExtensionFailures(t *testing.T) {
	dir := extensionFolder(t)
	for _, test := range []struct {
		line string
		fill func(*consoletest.Daemon)
		code int
		says []string
	}{
		{"ext install --yes " + dir, func(*consoletest.Daemon) {}, ui.ExitCheck, []string{"extension.yaml:3:1: error: unknown key \"nmae\"", "     3 | nmae: scrubber", "did you mean \"name\"?", "its manifest has 1 error"}},
		{"ext install --yes /nowhere/at/all", func(*consoletest.Daemon) {}, ui.ExitFailed, []string{"no such folder", "Name a folder with an extension.yaml."}},
		{"ext install --yes " + dir, func(f *consoletest.Daemon) {
			f.Ext.Look, f.Ext.Err = consoletest.LookAtScrubber(), client.NewError(client.ReasonForbidden, "installing an extension: forbidden to an agent")
		}, ui.ExitFailed, []string{"forbidden to an agent", "Use another terminal."}},
		{"ext install --yes " + dir, func(f *consoletest.Daemon) {
			f.Ext.Look, f.Ext.Err = consoletest.LookAtScrubber(), client.NewError(client.ReasonChanged, "the folder changed")
		}, ui.ExitFailed, []string{"the folder changed", "Review it again"}},
		{"ext show nobody", func(*consoletest.Daemon) {}, ui.ExitFailed, []string{`no extension "nobody" is installed`, "tgctl ext"}},
		{"ext remove --yes nobody", func(*consoletest.Daemon) {}, ui.ExitFailed, []string{`no extension "nobody" is installed`}},
		{"ext config scrubber get colour", func(*consoletest.Daemon) {}, ui.ExitFailed, []string{`no value for "colour"`, "tgctl ext config scrubber"}},
		{"ext config scrubber set limit 0", func(f *consoletest.Daemon) {
			f.Ext.Err = client.NewError(client.ReasonForbidden, "forbidden")
		}, ui.ExitFailed, []string{"Use another terminal."}},
		{"ext config scrubber put limit 0", func(*consoletest.Daemon) {}, ui.ExitUsage, []string{`unknown action "put": use get or set`}},
		{"ext config scrubber set limit", func(*consoletest.Daemon) {}, ui.ExitUsage, []string{"VALUE is missing"}},
		{"ext run scrubber", func(*consoletest.Daemon) {}, ui.ExitUsage, []string{"COMMAND is missing"}},
	} {
		f := consoletest.Start(t)
		f.Ext.Installed = consoletest.InstalledExtensions()
		test.fill(f)
		c := newConsole(f.Socket)
		code := c.Run(t, strings.Fields(test.line)...)
		for _, want := range test.says {
			if code != test.code || !strings.Contains(c.Err.String(), want) {
				t.Errorf("tgctl %s: exit %d, %q, want %q", test.line, code, c.Err.String(), want)
			}
		}
	}
}

// A plain name is an included extension, which a directory of that name here never
// replaces. A name with a slash is a path.
func TestExtensionDir(t *testing.T) {
	prefix := consoletest.ShortDir(t)
	shipped := filepath.Join(prefix, "libexec", "thoughtgate", "extensions", "scrubber")
	here := filepath.Join(prefix, "here")
	for _, dir := range []string{shipped, filepath.Join(here, "scrubber"), filepath.Join(here, "mine"), filepath.Join(prefix, "bin")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(shipped, "extension.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(here)
	a := &app{newConsole("").App}
	a.Executable = func() (string, error) { return filepath.Join(prefix, "bin", "tgctl"), nil }
	for named, want := range map[string]string{
		"scrubber": shipped, "./scrubber": filepath.Join(here, "scrubber"), "mine": filepath.Join(here, "mine"), ".": here, "none": "",
	} {
		if got, err := a.extensionDir(named); got != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.(*ui.HintError).Hint, "scrubber") {
			t.Errorf("%s: %q, %v, want %q", named, got, err, want)
		}
	}
	c := newConsole("")
	c.App.Executable = a.Executable
	if c.Run(t, "__complete", "ext", "install", ""); !strings.HasPrefix(c.Out.String(), "scrubber\n") {
		t.Errorf("completes to %q", c.Out.String())
	}
}

// The differences between two versions, and which of them are wider.
func TestExtChanges(t *testing.T) {
	hook := func(change func(*pb.ExtensionHook)) func(*pb.ExtensionManifest) {
		return func(m *pb.ExtensionManifest) { change(m.After) }
	}
	for name, test := range map[string]struct {
		change func(*pb.ExtensionManifest)
		want   string
	}{
		"nothing":    {func(*pb.ExtensionManifest) {}, ""},
		"version":    {func(m *pb.ExtensionManifest) { m.Version = "9" }, ""},
		"permission": {func(m *pb.ExtensionManifest) { m.Permissions = append(m.Permissions, "tools") }, "+it may now: offer tools to agents"},
		"less":       {func(m *pb.ExtensionManifest) { m.Permissions = m.Permissions[:2] }, "-it may no longer: offer commands that you can run: tgctl ext run"},
		"variable":   {func(m *pb.ExtensionManifest) { m.Pass = []string{"GITHUB_TOKEN"} }, "+it now gets from the environment: GITHUB_TOKEN|-it no longer gets from the environment: SCRUBBER_KEY"},
		"command":    {func(m *pb.ExtensionManifest) { m.Command = []string{"sh"} }, "+it runs sh instead of ./scrubber --rules rules.toml"},
		"env":        {func(m *pb.ExtensionManifest) { m.Env = map[string]string{"MODE": "lax"} }, "+other variables are set for it"},
		"new hook": {func(m *pb.ExtensionManifest) {
			m.Before = &pb.ExtensionHook{Servers: []string{"*"}, Tools: []string{"*"}, Methods: []string{"tools/call"}, Open: true}
		}, "+it now sees calls: every call, on any server|+calls are forwarded without it when it fails"},
		"no hook":       {func(m *pb.ExtensionManifest) { m.After = nil }, "-it no longer sees or guards results"},
		"wider tools":   {hook(func(h *pb.ExtensionHook) { h.Tools = []string{"*", "x"} }), "+it now sees results of tools x"},
		"other servers": {hook(func(h *pb.ExtensionHook) { h.Servers = []string{"files"} }), "+it now sees results of servers files|-it no longer sees results of servers *"},
		"goes on":       {hook(func(h *pb.ExtensionHook) { h.Open = true }), "+results are now forwarded without it when it fails"},
	} {
		is := consoletest.ScrubberManifest()
		test.change(is)
		var got []string
		for _, c := range changes(consoletest.ScrubberManifest(), is) {
			sign := "-"
			if c.Wider {
				sign = "+"
			}
			got = append(got, sign+c.What)
		}
		if strings.Join(got, "|") != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	was := consoletest.ScrubberManifest()
	was.After.Open = true
	if got := changes(was, consoletest.ScrubberManifest()); len(got) != 1 || got[0].Wider || got[0].What != "results are no longer forwarded without it when it fails" {
		t.Errorf("stricter: %v", got)
	}
}

// ext logs is logs of an extension.
func TestExtensionLogs(t *testing.T) {
	f := consoletest.Start(t)
	f.Processes, f.Ext.Logs = consoletest.KeptProcesses(), consoletest.LogLines()
	c := newConsole(f.Socket)
	if code := c.Run(t, "ext", "logs", "scrubber", "-n", "1"); code != 0 || c.Out.String() != "11:59:59  done\n" || f.Ext.Logged[0].GetKind() != "extension" {
		t.Errorf("exit %d: %q %s", code, c.Out.String(), c.Err.String())
	}
}

func TestExtensionConfig(t *testing.T) {
	f := consoletest.Start(t)
	f.Ext.Installed = []*pb.Extension{consoletest.Scrubber()}
	c := newConsole(f.Socket).Pipe()
	if code := c.Run(t, "ext", "config", "scrubber", "get", "mode"); code != 0 || c.Out.String() != "strict\n" {
		t.Errorf("exit %d: %q %s", code, c.Out.String(), c.Err.String())
	}
	if code := c.Run(t, "ext", "config", "scrubber", "set", "colour", "dark red"); code != 0 || c.Out.String() != "set colour of scrubber to 'dark red'\n" ||
		!proto.Equal(f.Ext.Set[0], &pb.SetExtensionConfigRequest{Name: "scrubber", Key: "colour", Value: "dark red"}) {
		t.Errorf("exit %d: %q %s, %v", code, c.Out.String(), c.Err.String(), f.Ext.Set)
	}
	var v pb.ExtensionValue
	if code := c.Run(t, "ext", "config", "--json", "scrubber", "get", "colour"); code != 0 || json.Unmarshal(c.Out.Bytes(), &v) != nil || !proto.Equal(&v, &pb.ExtensionValue{Key: "colour", Value: "dark red", Set: true}) {
		t.Errorf("exit %d: %q %s", code, c.Out.String(), c.Err.String())
	}
	for line, want := range map[string]string{
		"ext config |": "scrubber\ttakes secrets out of what servers answer\n", "ext config scrubber |": "get\nset\n",
		"ext config scrubber get |": "limit\nmode\ncolour\n", "ext run scrubber |": "stats\n", "ext show |": "scrubber\t", "logs |": ":4\n",
	} {
		c.Run(t, append([]string{"__complete"}, strings.Split(strings.ReplaceAll(line, "|", ""), " ")...)...)
		if !strings.HasPrefix(c.Out.String(), want) {
			t.Errorf("%s completes to %q, want %q first", line, c.Out.String(), want)
		}
	}
}

func task(t *pb.TaskEvent) *pb.InvokeEvent {
	return &pb.InvokeEvent{Event: &pb.InvokeEvent_Task{Task: t}}
}

// download returns the events of a command with output, progress, and a failure.
func download() []*pb.InvokeEvent {
	return []*pb.InvokeEvent{
		consoletest.Output("text", "one\ntw"), consoletest.Output("text", "o\x1b[2J\n"), consoletest.Output("system", "working"),
		task(&pb.TaskEvent{Phase: "start", Id: "dl", Label: "Downloading", Kind: "download"}),
		task(&pb.TaskEvent{Phase: "update", Id: "dl", Current: 50, Total: 100}),
		task(&pb.TaskEvent{Phase: "log", Id: "dl", Line: "from a mirror"}),
		task(&pb.TaskEvent{Phase: "start", Id: "x", Label: "Checking"}),
		task(&pb.TaskEvent{Phase: "done", Id: "x", Error: "bad sum"}),
		task(&pb.TaskEvent{Phase: "done", Id: "dl"}),
		consoletest.Output("later", "a\x1bb"), consoletest.Output("done", ""), consoletest.End(3),
	}
}

// In a pipe the text is unchanged, and only failed tasks are reported.
func TestExtRunInAPipe(t *testing.T) {
	f := consoletest.Start(t)
	f.Ext.Events = download()
	c := newConsole(f.Socket).Pipe()
	code := c.Run(t, "ext", "run", "scrubber", "fetch", "--json", "-x", "a b")
	if want := "one\ntwo\x1b[2J\n"; code != 3 || c.Out.String() != want {
		t.Errorf("exit %d, stdout %q, want %q", code, c.Out.String(), want)
	}
	if want := "working\nChecking failed: bad sum\na\\u{1b}b\n"; c.Err.String() != want {
		t.Errorf("stderr %q, want %q", c.Err.String(), want)
	}
	if want := []string{"--json", "-x", "a b"}; strings.Join(f.Ext.Invoked[0].GetArgs(), "|") != strings.Join(want, "|") {
		t.Errorf("called with %v", f.Ext.Invoked[0])
	}
	if code := c.Run(t, "ext", "run", "--json", "scrubber", "fetch"); code != 3 || strings.Count(c.Out.String(), "\n") != len(f.Ext.Events) ||
		!strings.HasSuffix(c.Out.String(), `{"output":null,"task":null,"end":{"exit_code":3}}`+"\n") || c.Err.Len() > 0 {
		t.Errorf("exit %d: %s%s", code, c.Out.String(), c.Err.String())
	}
	for line := range strings.Lines(c.Out.String()) {
		var e struct{ Output, Task, End any }
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Output == nil && e.Task == nil && e.End == nil {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// On a terminal there is a progress line. It is removed before other output and at the
// end.
func TestExtRunOnATerminal(t *testing.T) {
	f := consoletest.Start(t)
	f.Ext.Events = download()
	c := newConsole(f.Socket)
	both := &c.Out
	c.App.Err, c.App.ErrColumns = both, 60
	code := c.Run(t, "ext", "run", "scrubber", "fetch")
	consoletest.Golden(t, "ext-run", strings.NewReplacer("\x1b[K", "<erase>\n", "\r", "<home>").Replace(both.String()))
	if code != 3 || strings.Contains(both.String(), "\x1b[2J") {
		t.Errorf("exit %d: %q", code, both.String())
	}
	f.Ext.Events = []*pb.InvokeEvent{consoletest.Output("text", "no newline"), consoletest.Output("system", "by the way"), consoletest.End(0)}
	if code := c.Run(t, "ext", "run", "scrubber", "fetch"); code != 0 || both.String() != "no newline\nby the way\n" {
		t.Errorf("exit %d: %q", code, both.String())
	}
	f.Ext.Events = []*pb.InvokeEvent{consoletest.End(4711)}
	if code := c.Run(t, "ext", "run", "scrubber", "fetch"); code != ui.ExitFailed || !strings.Contains(both.String(), "not a valid") {
		t.Errorf("exit %d: %q", code, both.String())
	}
	f.Ext.Events = nil
	if code := c.Run(t, "ext", "run", "scrubber", "fetch"); code != ui.ExitFailed || !strings.Contains(both.String(), "did not report how") {
		t.Errorf("exit %d: %q", code, both.String())
	}
}

func TestProgressLine(t *testing.T) {
	long := strings.Repeat("a long label ", 9)
	for _, test := range []struct {
		tasks []*shownTask
		want  string
	}{
		{[]*shownTask{{label: "Work"}}, "Work  ..."},
		{[]*shownTask{{label: "Work", current: 7}}, "Work  7"},
		{[]*shownTask{{label: "Work", current: 1, total: 4}}, "Work  [######------------------]  25%"},
		{[]*shownTask{{}, {label: "Work", current: 9, total: 4}}, "Work  [########################] 100%  and 1 more"},
		{[]*shownTask{{label: "Work", message: "file 1", total: 4}}, "Work: file 1  [------------------------]   0%"},
		{[]*shownTask{{label: long, current: 4, total: 4}}, "a long label a long label …  [########################] 100%"},
		{[]*shownTask{{label: "\x1b[2J"}}, `\u{1b}[2J  ...`},
	} {
		if got := string(progressLine(test.tasks, 60)); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}

// Ctrl-C cancels the command at the daemon.
func TestExtRunCancelled(t *testing.T) {
	f := consoletest.Start(t)
	f.Ext.Events = []*pb.InvokeEvent{consoletest.Output("text", "begun\n")}
	f.Ext.Hang, f.Ext.Cancelled = true, make(chan struct{})
	c := newConsole(f.Socket)
	ctx, cancel := context.WithCancel(t.Context())
	c.App.Out = consoletest.WriterFunc(func(b []byte) (int, error) { cancel(); return len(b), nil })
	if code := c.Execute(ctx, "ext", "run", "scrubber", "fetch"); code != exitInterrupted || !strings.Contains(c.Err.String(), "was cancelled") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
	<-f.Ext.Cancelled
}
