// Package notify has the command of tgctl that shows questions as notifications, on the desktop or on a phone, and
// takes the answers that a person gives with the buttons of those on the desktop.
package notify

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/phone"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// app holds what the command uses.
type app struct{ *connect.App }

// Ways in which questions are shown.
const (
	viaDesktop = "desktop"
	viaNtfy    = "ntfy"
)

// how is what the flags say.
type how struct {
	via, server, tokenFile string
	setup, values          bool
}

// Command returns the command notify.
func Command(base *connect.App) *cobra.Command {
	a, h := &app{base}, how{}
	cmd := &cobra.Command{
		Use:   "notify [flags]",
		Short: "Show questions as notifications, on the desktop or a phone",
		Long: `Show each waiting question as a desktop notification, with buttons to deny it
and to show it in a terminal, and withdraw the notification when the question
ends. Runs until it is stopped. To run it as a systemd service:
systemctl --user enable --now tgctl-notify

A program can press a button as well as you can. So a notification offers to
approve only if the workflow allows it, as "surfaces: [terminal, desktop]", and
requires no presence, and if the whole call can be shown; otherwise it says how
to approve in a terminal. Closing a notification decides nothing.

More than three questions at a time become one notification. If the desktop has
no buttons, the text names the command to run. If the daemon, the session bus or
the notification daemon is not running, notify logs that and waits for it.

With --via ntfy questions go to a phone, through an ntfy server, and its buttons
answer them. First set it up, in your own terminal: tgctl notify --via ntfy
--setup asks which server, shows a QR code to subscribe with, and tries the way
there and back. Whoever reads the topic, as the server does, reads the questions
and can press the buttons. So the arguments of calls are sent only with
--values, and a message offers to approve only if the workflow lists the surface
"phone", requires no presence, and all of the call is in the message. The record
has such an answer as a claim. docs/phone.md says more; as a service:
tgctl-phone.`,
		Example: `  $ tgctl notify
  $ TERMINAL=xterm tgctl notify --no-start
  $ tgctl notify --via ntfy --setup --server https://ntfy.example.com
  $ tgctl notify --via ntfy`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := h.check(); err != nil {
				return err
			}
			return a.run(cmd.Context(), h)
		},
	}
	f := cmd.Flags()
	f.StringVar(&h.via, "via", viaDesktop, "where to show questions: desktop or ntfy")
	f.BoolVar(&h.setup, "setup", false, "set a phone up, with --via ntfy")
	f.StringVar(&h.server, "server", "", "address of the ntfy server, with --setup; asked for if left out")
	f.StringVar(&h.tokenFile, "token-file", "", "file with an access token for the server, with --setup")
	f.BoolVar(&h.values, "values", false, "send the arguments of calls, too; with --setup from now on, else in this run")
	ui.CompleteFlag(cmd, "via", ui.OneOf(viaDesktop, viaNtfy))
	ui.CompleteFlag(cmd, "server", cobra.NoFileCompletions)
	return cmd
}

// check checks that the flags fit together.
func (h how) check() error {
	switch {
	case h.via != viaDesktop && h.via != viaNtfy:
		return ui.CheckWord("way", h.via, []string{viaDesktop, viaNtfy})
	case h.via != viaNtfy && (h.setup || h.values):
		return ui.Misuse("--setup and --values need --via ntfy")
	case !h.setup && (h.server != "" || h.tokenFile != ""):
		return ui.Misuse("--server and --token-file need --setup")
	}
	return nil
}

// run does what the flags say, until ctx ends.
func (a *app) run(ctx context.Context, h how) error {
	if a.Getenv("THOUGHTGATE_ACTIVE") != "" {
		return &ui.HintError{
			Err:  errors.New("notify runs below a wrapped agent, so the daemon would refuse its answers"),
			Hint: "Start it from your own terminal, or as a systemd service: systemctl --user enable --now tgctl-notify",
		}
	}
	if h.via == viaDesktop {
		return a.notify(ctx)
	}
	paths, err := sock.DefaultPaths(a.Getenv)
	if err != nil {
		return err
	}
	if h.setup {
		return phone.Setup(ctx, phone.SetupOptions{App: a.App.App, Paths: paths, Server: h.server, TokenFile: h.tokenFile, Values: h.values})
	}
	log := a.logger().With("component", "phone")
	c, err := a.dialWaiting(ctx, log)
	if err != nil {
		if ctx.Err() != nil {
			return nil // it was stopped while it waited
		}
		return err
	}
	defer c.Close()
	return phone.Run(ctx, phone.Options{Daemon: c, Paths: paths, Log: log, Now: a.Now, Values: h.values})
}

// notify shows questions on the desktop until ctx ends.
func (a *app) notify(ctx context.Context) error {
	address, err := a.busAddress()
	if err != nil {
		return err
	}
	log := a.logger().With("component", "notify")
	c, err := a.dialWaiting(ctx, log)
	if err != nil {
		if ctx.Err() != nil {
			return nil // it was stopped while it waited
		}
		return err
	}
	defer c.Close()
	newNotifier(a, c, log, address).run(ctx)
	return nil
}

// logger returns a logger that writes text to a terminal, otherwise JSON.
func (a *app) logger() *slog.Logger {
	if a.ErrTerminal {
		return slog.New(slog.NewTextHandler(a.Err, nil))
	}
	return slog.New(slog.NewJSONHandler(a.Err, nil))
}

// busAddress returns the address of the session bus. It starts none: a bus started here
// would have no desktop on it.
func (a *app) busAddress() (string, error) {
	if address := a.Getenv("DBUS_SESSION_BUS_ADDRESS"); address != "" && address != "autolaunch:" {
		return address, nil
	}
	if dir := a.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		path := filepath.Join(dir, "bus")
		if _, err := os.Stat(path); err == nil {
			return "unix:path=" + path, nil
		}
	}
	return "", &ui.HintError{
		Err:  errors.New("no session bus found, which desktop notifications need"),
		Hint: "Run it in your desktop session. Elsewhere, use: tgctl approvals watch",
	}
}

// dialWaiting connects to the daemon. If it may not start one, it waits for one.
func (a *app) dialWaiting(ctx context.Context, log *slog.Logger) (*client.Client, error) {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		c, err := a.Dial(ctx)
		if !a.NoStart || !errors.Is(err, client.ErrNotRunning) {
			return c, err
		}
		if pause == firstLook {
			log.Info("the daemon is not running; waiting for it")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// run shows questions until ctx ends. Only this goroutine uses the notifier's state: it
// handles events of the daemon, the desktop and the clock one by one, and after each it
// updates what is shown.
func (n *notifier) run(ctx context.Context) {
	defer n.work.Wait()
	n.work.Go(func() {
		for e := range inbox.Watch(ctx, n.client) {
			n.later(ctx, func() { n.asked(ctx, e) })
		}
	})
	defer n.closeDesktop(context.WithoutCancel(ctx))
	for {
		n.arrange(ctx)
		var events, forged <-chan deskEvent
		var changed, lost <-chan struct{}
		if d := n.desk; d != nil {
			events, changed, lost = d.events, d.changed, d.lost()
			if !n.now().Before(n.quietUntil) {
				forged = d.forged
			}
		}
		select {
		case <-ctx.Done():
			return
		case f := <-n.todo:
			f()
		case e := <-events:
			n.event(ctx, e)
		case e := <-forged:
			n.forgery(ctx, e)
		case <-changed:
			n.serverChanged()
		case <-lost:
			n.busLost()
		case <-n.alarm():
		}
	}
}

// later has run call f, unless ctx ends first. It may be called from other goroutines.
func (n *notifier) later(ctx context.Context, f func()) {
	select {
	case n.todo <- f:
	case <-ctx.Done():
	}
}

// asked handles an event of the inbox.
func (n *notifier) asked(ctx context.Context, e inbox.Event) {
	q := n.find(e.Question.GetId())
	switch {
	case e.Kind == inbox.Connected:
		if n.offline {
			n.log.Info("connected to the daemon again")
		}
		n.offline = false
	case e.Kind == inbox.Lost: // notifications stay: the daemon keeps its questions
		n.log.Warn("lost the connection to the daemon; waiting for it", "err", e.Err)
		n.offline = true
	case e.Kind == inbox.Open && q != nil:
		q.row = approval.NewRow(e.Question)
	case e.Kind == inbox.Open:
		n.questions = append(n.questions, &question{row: approval.NewRow(e.Question), came: n.now()})
	case q != nil:
		n.retire(ctx, q, approval.EndLine(e.Question))
		n.questions = slices.DeleteFunc(n.questions, func(o *question) bool { return o == q })
	}
}
