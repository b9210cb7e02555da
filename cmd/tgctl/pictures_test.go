package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/test/browser"
	"github.com/thoughtgate/thoughtgated/internal/test/golden"
	"github.com/thoughtgate/thoughtgated/internal/test/pictures"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// startDay starts a daemon at noon of an ordinary day.
func startDay(t *testing.T) *consoletest.Daemon {
	was := ui.Release
	ui.Release = "v0.1.0"
	t.Cleanup(func() { ui.Release = was })
	d := consoletest.Start(t)
	consoletest.Day(d)
	return d
}

// What commands print of that day, and the report of it. `make pictures` makes these pictures, and those of TestPicturesOfTerminal.
func TestPictures(t *testing.T) {
	book := pictures.Open(t, "tgctl")
	daemon := startDay(t)
	home := consoletest.NewHome(t)
	home.Write(".claude.json", `{"mcpServers":{"files":{"command":"npx","args":["-y","files"]},"github":{"command":"npx","args":["-y","github"]}}}`, 0o600)
	home.Write(".codex/config.toml", "[mcp_servers.postgres]\ncommand = \"npx\"\n\n[mcp_servers.search]\ncommand = \"npx\"\n", 0o600)
	daemon.Protected = []*pb.Protection{home.Protect()}
	home.Write("src/shop/shop.test.yaml", "schema: 1\n", 0o600)

	c := newConsole(daemon.Socket)
	c.App.In = strings.NewReader(strings.Repeat("n\n", 1<<16))
	c.Main, c.Env["HOME"] = c.app.run, home.Dir
	c.app.Executable = func() (string, error) { return filepath.Join(home.Dir, "bin", "tgctl"), nil }
	for _, screen := range []struct{ name, args string }{
		{"tgctl", ""}, {"status", "status"}, {"approvals", "approvals"}, {"approvals-show", "approvals show A-8"}, {"audit", "audit --limit 16"}, {"audit-show", "audit show 116"},
		{"sessions", "sessions"}, {"ps", "ps"}, {"servers", "servers"}, {"tools", "tools"}, {"grants", "grants"}, {"undo", "undo"}, {"undo-plan", "undo A-8"}, {"policy-show", "policy show"},
		{"policy-explain", `policy explain --server agent --tool shell --args {"command":"rm"}`}, {"policy-test", "policy test shop.test.yaml"}, {"policy-backtest", "policy backtest --config new.yaml"},
	} {
		c.Pictured(book, screen.name, strings.Fields(screen.args)...)
	}
	c.PicturedPlain(book, "status", "status")
	c.PicturedPlain(book, "approvals-show", "approvals", "show", "A-8")

	c.Pipe()
	report := filepath.Join(t.TempDir(), "report.html")
	if code := c.Run(t, "audit", "report", "-o", report); code != 0 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, look := range []struct {
		name   string
		width  int
		scheme string
	}{{"report-390", 390, "light"}, {"report-1280", 1280, "light"}, {"report-1280-dark", 1280, "dark"}, {"report-print", 800, "print"}} {
		book.Page(look.name, page+look.scheme, func(b *browser.Browser) []byte {
			b.Look(look.width, 900, look.scheme)
			b.Show(page)
			return b.PNG("html")
		})
	}
}

// playTgctlAtNoon runs tgctl at the time of the tests.
func playTgctlAtNoon() int {
	a := newApp()
	ui.Release = "v0.1.0"
	a.Now = func() time.Time { return consoletest.Noon }
	ctx, stop := a.UntilInterrupted()
	defer stop()
	return a.run(ctx, os.Args[1:])
}

// picturedTerminal is a terminal in which tgctl runs at noon.
type picturedTerminal struct {
	*tmuxFixture
	book  *pictures.Book
	shots map[string][]pictures.Shot // by screen

	daemon *consoletest.Daemon
	look   int // an index of consoletest.Looks
	plain  bool
	runs   int
}

// session returns the name of the terminal's session in tmux.
func (p *picturedTerminal) session() string { return fmt.Sprint("run", p.runs) }

// run starts a command line in the terminal.
func (p *picturedTerminal) run(args string) {
	p.t.Helper()
	look := consoletest.Looks[p.look]
	env := []string{"THOUGHTGATE_CONTROL=" + p.daemon.Socket, "EDITOR=sed -i s/.notes//"}
	for name, value := range look.Env() {
		env = append(env, name+"="+value)
	}
	if p.plain {
		env = append(env, "NO_COLOR=1")
	}
	last := p.session()
	p.runs++
	p.must("tmux", "-f", "/dev/null", "-u", "new-session", "-d", "-s", p.session(), "-x", strconv.Itoa(look.Columns), "-y", strconv.Itoa(look.Rows),
		"unset NO_COLOR; env '"+strings.Join(env, "' '")+"' ./tgctl-at-noon "+args+"; exec cat")
	p.tmux("kill-session", "-t", last) // a new one has no past to scroll to
}

// escape presses the key Escape and waits until the screen has a text that was not there: a key that follows at
// once would be taken with it.
func (p *picturedTerminal) escape(text string) {
	p.t.Helper()
	p.press("Escape")
	p.sees(text)
}

// take waits until the screen has these texts and is as it is kept, or at rest where it is made, and keeps it.
func (p *picturedTerminal) take(name string, texts ...string) {
	p.t.Helper()
	p.sees(texts...)
	look := consoletest.Looks[p.look]
	shot := pictures.Shot{Look: look.Name, Light: look.Light, Columns: look.Columns}
	if p.plain {
		shot.Look += "-plain"
	}
	atRest := 0
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(30 * time.Millisecond) {
		now := pictures.Canonical(p.tmux("capture-pane", "-p", "-e", "-S", "-"))
		atRest++
		if now != shot.Screen {
			atRest, shot.Screen = 0, now
		}
		if *golden.Update && atRest == 10 || !*golden.Update && p.book.Has(name, shot) {
			break
		}
	}
	p.shots[name] = append(p.shots[name], shot)
}

// The queue, and what else a person does on a terminal.
func TestPicturesOfTerminal(t *testing.T) {
	h := newTerminal(t, t.TempDir())
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(h.dir, "tgctl-at-noon"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.tmux("kill-server") })
	p := &picturedTerminal{tmuxFixture: h, book: pictures.Open(t, "terminal"), shots: map[string][]pictures.Shot{}}
	for p.look = range consoletest.Looks {
		p.daemon = startDay(t)
		p.daemon.Approvals = append(p.daemon.Approvals, consoletest.LongQuestion())
		p.tour()
	}
	p.look, p.plain = 0, true
	p.daemon = startDay(t)
	p.queue()
	for name, shots := range p.shots {
		p.book.Screen(name, shots...)
	}
}

// queue opens the queue and selects the second question.
func (p *picturedTerminal) queue() {
	p.run("queue")
	p.sees("> A-7 ", "A-6")
	p.press("Down")
	p.take("queue", "> A-8 ")
}

// tour goes through the screens in one terminal.
func (p *picturedTerminal) tour() {
	p.queue()
	if consoletest.Looks[p.look].Light { // the others would be the same
		return
	}
	p.press("Enter")
	p.take("queue-question", "3 of them in no commit")
	p.press("End", "a")
	p.take("queue-approve", "Approve A-8")
	p.press("n")
	p.sees("esc back")
	p.escape("? help")
	p.press("?")
	p.take("queue-help", "mark")
	p.escape("> A-8 ")
	p.press("/")
	p.press("-l", "git")
	p.take("queue-filter", "git_")
	p.escape("A-9")
	p.press("Home", "Space", "Space")
	p.take("queue-marked", "*A-7", "*A-8")
	p.escape("q quit")
	p.press("End")
	p.take("queue-moved-on", "> A-6 ")
	p.press("Up", "Enter", "a")
	p.take("queue-must-read", "A-10")

	p.run("approvals approve A-8 --edit")
	p.take("approve-edit", "approved A-8")
	p.run("audit --follow --limit 6")
	p.take("audit-follow", "denied")
}
