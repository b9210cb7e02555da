// Package dashboard has the command of tgctl that serves a page about the daemon to one browser of this
// user: what waits, with answers, calls as they are judged, counts, the record, and what is in force.
//
// It is a client of the daemon like any other and keeps nothing. The page is three files, embedded here.
// Its script builds everything from JSON whose texts package display has made visible, and puts them in
// as text, never as HTML. See door.go for who is let in, feed.go for what the page gets as it happens, and
// page/page.js for what it does.
package dashboard

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/browse"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// surface is the surface of answers given on the page.
const surface = "page"

const (
	headerTimeout = 5 * time.Second  // for a request to arrive
	idleTimeout   = 30 * time.Second // for the next request of a connection
	maxHeader     = 16 << 10         // bytes
)

// app holds what the command uses.
type app struct{ *connect.App }

// Command returns the command dashboard.
func Command(base *connect.App) *cobra.Command {
	a := &app{base}
	var typed bool
	cmd := &cobra.Command{
		Use:   "dashboard [flags]",
		Short: "Show what waits and what is called on a page in your browser",
		Long: `Serve a page on 127.0.0.1 as long as this command runs, and open it: what waits,
with answers; calls as they are judged; counts by hour, agent, server and tool;
the record; servers and tools, sessions, grants, and the policy in force, with a
backtest. On the page, ? lists its keys.

The page lets in one browser, by a secret that is valid once: a file that only
you can read posts it, or with --no-browser you type it. Any program of yours
can press a button of a page. So it offers to approve only where the workflow
lists "page" among its surfaces, or, where it lists "terminal", with your
passphrase or a code typed for that question. To deny needs neither.`,
		Example: `  $ tgctl dashboard
  $ tgctl dashboard --no-browser`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.dashboard(cmd.Context(), typed)
		},
	}
	cmd.Flags().BoolVar(&typed, "no-browser", false, "open no browser; print the address, and the code to type there")
	return cmd
}

// dashboard serves the page until ctx ends, or something ends it for the person's safety.
func (a *app) dashboard(ctx context.Context, typed bool) error {
	if a.Getenv("THOUGHTGATE_ACTIVE") != "" {
		return &ui.HintError{Err: errors.New("dashboard runs below a wrapped agent, so the daemon would refuse its answers"), Hint: "Start it from your own terminal."}
	}
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.PresenceStatus(ctx, true); err != nil { // what answers must not be an agent's
		return ui.WithHint(err, ui.Hint{Err: client.ErrForbidden, Text: "Agents and the processes they start can't answer. Start it from your own terminal."})
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for your browser: %w", err)
	}
	s := newServer(a, c, l.Addr().String())
	return s.run(ctx, l, typed)
}

// server is one dashboard.
type server struct {
	app    *app
	client *client.Client
	door   *door
	feed   *feed

	streams  chan struct{} // a place for each reader of the stream
	pace     time.Duration // between two updates of a reader
	patience time.Duration // for a reader to take an update

	mu     sync.Mutex
	hidden bool // the memory of this process can't be read, and a daemon that is new to it would not know who it is
	busy   bool // a backtest runs
}

func newServer(a *app, c *client.Client, host string) *server {
	return &server{
		app: a, client: c, door: newDoor(host, a.Now), feed: newFeed(a.Now),
		streams: make(chan struct{}, maxStreams), pace: streamPace, patience: streamWrite,
	}
}

// run serves l, lets one browser in, and returns when ctx ends or the door was closed for good. Everything
// that it starts has ended when it returns.
func (s *server) run(ctx context.Context, l net.Listener, typed bool) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.door.closed = stop
	var work sync.WaitGroup
	defer work.Wait()
	web := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), BaseContext: func(net.Listener) context.Context { return ctx },
	}
	work.Go(func() { _ = web.Serve(l) }) // it says that the server was closed
	defer web.Close()
	work.Go(func() { s.feed.watch(ctx, s.client) })
	work.Go(func() { s.feed.follow(ctx, s.client) })
	defer stop(nil) // before the others are waited for
	if err := s.invite(ctx, typed); err != nil {
		return err
	}
	<-ctx.Done()
	if err := context.Cause(ctx); errors.Is(err, errDoor) {
		s.reportAlarm(context.WithoutCancel(ctx), err)
		// Whoever brought the secret a second time may be the person, and reads why there is nothing to see.
		answers, cancel := context.WithTimeout(context.WithoutCancel(ctx), headerTimeout)
		defer cancel()
		_ = web.Shutdown(answers)
		return err
	}
	return nil
}

// invite tells the person's browser the secret, and waits until somebody has used it.
func (s *server) invite(ctx context.Context, typed bool) error {
	address := "http://" + s.door.host + "/"
	if typed {
		s.app.PrintMessage("Open %s and enter the code\n%s\nStop with Ctrl-C.", address, s.door.pass)
	} else {
		path, err := s.writeLetter()
		if err != nil {
			return err
		}
		defer os.Remove(path)
		s.app.PrintMessage("The dashboard is at %s for the browser that opens now. Stop with Ctrl-C.", address)
		if err := browse.OpenFile(ctx, path); err != nil && ctx.Err() == nil {
			return &ui.HintError{Err: err, Hint: "To type a code instead: tgctl dashboard --no-browser"}
		}
	}
	late := time.NewTimer(passTime)
	defer late.Stop()
	select {
	case <-s.door.entered:
		return nil
	case <-ctx.Done():
		return nil
	case <-late.C:
		return &ui.HintError{Err: fmt.Errorf("no browser came within %s, and the secret has expired", passTime),
			Hint: "A sandboxed browser may not be able to read the file. To type a code instead: tgctl dashboard --no-browser"}
	}
}

// writeLetter writes the file that posts the secret, beside the daemon's socket, where only this user may
// look. The caller removes it.
func (s *server) writeLetter() (path string, err error) {
	f, err := os.CreateTemp(filepath.Dir(s.client.Socket()), "dashboard-*.html") // 0600
	if err != nil {
		return "", fmt.Errorf("write the file that opens the dashboard: %w", err)
	}
	_, err = fmt.Fprintf(f, `<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>ThoughtGate</title>
<form method="post" action="http://%s/enter"><input type="hidden" name="pass" value="%s"><button>Open the dashboard</button></form>
<script>document.forms[0].submit()</script>
`, html.EscapeString(s.door.host), html.EscapeString(s.door.pass))
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", fmt.Errorf("write the file that opens the dashboard: %w", err)
	}
	return f.Name(), nil
}

// reportAlarm has the daemon record why the dashboard was closed.
func (s *server) reportAlarm(ctx context.Context, why error) {
	ctx, cancel := context.WithTimeout(ctx, headerTimeout)
	defer cancel()
	if err := s.client.Report(ctx, &pb.ReportRequest{Surface: surface, Reason: why.Error()}); err != nil {
		s.app.PrintError(fmt.Errorf("record it: %w", err))
	}
}
