package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
)

// demoRun is a demo that runs on a terminal, or without one.
type demoRun struct {
	*process
	t    *testing.T
	keys *os.File

	mu  sync.Mutex // guards what follows
	out bytes.Buffer
}

func (d *demoRun) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.Write(p)
}

func (d *demoRun) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.ReplaceAll(d.out.String(), "\r\n", "\n")
}

// startDemo starts the demo in a fixture without a daemon: it brings its own.
func startDemo(t *testing.T, h *fixture, terminal bool) *demoRun {
	t.Helper()
	d := &demoRun{t: t}
	cmd := exec.Command(filepath.Join(h.bin, "tgctl"), "demo")
	cmd.Env = append(h.env, "TERM=xterm", "TMPDIR="+h.path("tmp"))
	if err := os.Mkdir(h.path("tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if !terminal {
		cmd.Stdout, cmd.Stderr = d, d
		d.process = h.start(cmd)
		return d
	}
	master, tty, err := pty.Open()
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	d.keys = master
	d.process = h.start(cmd)
	tty.Close()
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			d.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { master.Close() })
	return d
}

// until waits until the demo has said something.
func (d *demoRun) until(what string) {
	d.t.Helper()
	if !eventually(func() bool { return strings.Contains(d.text(), what) }, patience) {
		d.t.Fatalf("the demo never says %q:\n%s", what, d.text())
	}
}

func (d *demoRun) press(keys string) {
	d.t.Helper()
	if _, err := d.keys.WriteString(keys); err != nil {
		d.t.Fatal(err)
	}
}

// wantNothing fails if the demo left a file or a process.
func (h *fixture) wantNothing() {
	h.t.Helper()
	for _, dir := range []string{"tmp", "home", "state", "run", "config/thoughtgate"} {
		wantOnly(h.t, h.path(dir))
	}
	if !eventually(func() bool { return len(h.pids()) == 0 }, patience) {
		h.t.Errorf("left running: %q", h.processes())
	}
}

func TestDemo(t *testing.T) {
	for _, test := range []struct {
		name, keys string
		want       []string
	}{
		{"without a terminal", "", []string{"forwarded", "denied", "held → approved", "Stdin is not a terminal", "verified: "}},
		{"yes", "y\r", []string{"forwarded", "denied", "held → approved by you", "verified: "}},
		{"no", "maybe\rno\r", []string{"forwarded", "denied", "held → denied by you", "verified: "}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			d := startDemo(t, h, test.keys != "")
			if test.keys != "" {
				for key := range strings.SplitAfterSeq(test.keys, "\r") {
					if key != "" {
						d.until("[y/n] ")
						d.press(key)
					}
				}
			}
			if code := d.wait(t); code != 0 {
				t.Errorf("exit %d", code)
			}
			if test.keys != "" {
				d.until("tgctl scan")
			}
			text := d.text()
			at := 0
			for _, want := range test.want {
				i := strings.Index(text, want)
				if i < 0 {
					t.Errorf("%q is not said", want)
				}
				if want == "forwarded" || want == "denied" || strings.HasPrefix(want, "held") || strings.HasPrefix(want, "verified") {
					if i < at {
						t.Errorf("%q comes too early", want)
					}
					at = i
				}
			}
			if strings.Index(text, "held as question") < strings.Index(text, "3. It wants to send") {
				t.Error("the question comes before its call")
			}
			escapes := regexp.MustCompile(`\x1b\[[0-9;]*m`)
			for line := range strings.Lines(escapes.ReplaceAllString(text, "")) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
					t.Errorf("a line of %d columns: %s", n, line)
				}
			}
			if t.Failed() {
				t.Log(text)
			}
			h.wantNothing()
		})
	}
}

// However it is broken off, nothing of it is left.
func TestDemoBrokenOff(t *testing.T) {
	needProc(t)
	for name, off := range map[string]func(d *demoRun){
		"Ctrl-C":  func(d *demoRun) { d.press("\x03") },
		"SIGTERM": func(d *demoRun) { _ = d.cmd.Process.Signal(syscall.SIGTERM) },
		"the terminal closes": func(d *demoRun) {
			d.keys.Close()
			_ = d.cmd.Process.Signal(syscall.SIGHUP)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "the terminal closes" && signal.Ignored(syscall.SIGHUP) {
				t.Skip("hang-ups are ignored here, as under nohup, and so by the demo")
			}
			h := newFixture(t)
			d := startDemo(t, h, true)
			d.until("[y/n] ")
			off(d)
			if code := d.wait(t); code == 0 {
				t.Error("exit 0")
			}
			h.wantNothing()
		})
	}
}

// A demo that is killed leaves its folder, but nothing that runs.
func TestDemoKilled(t *testing.T) {
	needProc(t)
	t.Parallel()
	h := newFixture(t)
	d := startDemo(t, h, true)
	d.until("[y/n] ")
	d.kill()
	if !eventually(func() bool { return len(h.pids()) == 0 }, patience) {
		t.Errorf("left running: %q", h.processes())
	}
}
