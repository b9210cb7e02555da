package phone

import (
	"cmp"
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/secret"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// defaultServer is the server that is proposed.
const defaultServer = "https://ntfy.sh"

const (
	// probeTimeout is how long the server may take to hand out what was published to it.
	probeTimeout = 20 * time.Second

	// testTimeout is how long a person may take to press the button of the test message.
	testTimeout = 2 * time.Minute
)

// SetupOptions configures Setup.
type SetupOptions struct {
	App       *ui.App
	Paths     sock.Paths
	Server    string // address; it is asked for if empty
	TokenFile string // file with the token for the server; empty for none
	Values    bool   // arguments of calls are sent, too
}

// Setup sets a phone up: it makes topics and a key, tries them with the server, stores them, shows the address to
// subscribe to as a QR code, and sends a message whose button has to be pressed.
func Setup(ctx context.Context, o SetupOptions) error {
	if !o.App.InTerminal || !o.App.ErrTerminal {
		return &ui.HintError{Err: errors.New("the setup shows a secret address and asks, so it needs a terminal"), Hint: "Run this in your own terminal."}
	}
	path := settingsFile(o.Paths)
	if _, err := os.Lstat(path); err == nil {
		if err := o.App.AskYes(ctx, "A phone is set up already. Replace it? What it is subscribed to gets no more questions."); err != nil {
			return err
		}
	}
	s, err := askSettings(ctx, &o)
	if err != nil {
		return err
	}
	m, err := remember(o.Paths, s)
	if err != nil {
		return err
	}
	defer m.close()
	at, err := tryTopics(ctx, &o, s)
	if err != nil {
		return err
	}
	if err := errors.Join(s.save(path), m.handled(at, true)); err != nil {
		return err
	}
	return s.subscribe(ctx, o.App, at)
}

// askSettings returns settings for the server that the person chooses.
func askSettings(ctx context.Context, o *SetupOptions) (*settings, error) {
	if o.Server == "" {
		fmt.Fprintf(o.App.Err, "ntfy server [%s]: ", defaultServer)
		line, err := o.App.ReadTyped(ctx)
		if err != nil {
			return nil, err
		}
		o.Server = cmp.Or(strings.TrimSpace(line), defaultServer)
	}
	address, err := serverAddress(o.Server)
	if err != nil {
		return nil, err
	}
	token := ""
	if o.TokenFile != "" {
		text, err := secret.ReadFile(o.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("read the token: %w", err)
		}
		token = strings.TrimSpace(text)
	}
	if err := checkToken(token); err != nil {
		return nil, err
	}
	return newSettings(address, token, o.Values)
}

// tryTopics publishes to the topic for answers as a phone will, reads it as this program will, and returns the id of
// that message. If the server wants a token, it asks for one.
func tryTopics(ctx context.Context, o *SetupOptions, s *settings) (string, error) {
	server := newServer(s)
	defer server.close()
	at, err := server.anonymous().publish(ctx, &message{Topic: s.Answers, Message: "setup"})
	switch {
	case lasting(err):
		return "", &ui.HintError{
			Err:  fmt.Errorf("try the server: it lets nobody write to a topic without a token: %w", err),
			Hint: "A button on a phone has no token. Let everybody write to the topics for answers, which nobody can guess; on the server:\n  ntfy access everyone '" + answersPrefix + "*' write-only",
		}
	case err != nil:
		return "", fmt.Errorf("try the server %s: %w", display.Text(s.Server), err)
	case !eventForm.MatchString(at):
		return "", fmt.Errorf("try the server %s: its reply is not one of ntfy", display.Text(s.Server))
	}
	err = server.find(ctx, s.Answers, at)
	if lasting(err) && s.Token == "" {
		if s.Token, err = askToken(ctx, o.App); err != nil {
			return "", err
		}
		server.token = s.Token
		err = server.find(ctx, s.Answers, at)
	}
	if err != nil {
		return "", fmt.Errorf("read answers from the server %s: %w", display.Text(s.Server), err)
	}
	return at, nil
}

// errFound ends a stream.
var errFound = errors.New("found")

// find waits until the server has handed out a message.
func (s *server) find(ctx context.Context, topic, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, errors.New("it has not handed out what was published to it"))
	defer cancel()
	err := s.stream(ctx, topic, fromTheFirst, func(e *event) error {
		if e.ID == id {
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

// askToken asks for the token of the server, at the terminal and nowhere else.
func askToken(ctx context.Context, a *ui.App) (string, error) {
	t, err := ui.OpenTerminal()
	if err != nil {
		return "", err
	}
	defer t.Close()
	a.PrintMessage("The server wants a token to read a topic. One is made with: ntfy token add USER")
	token, err := t.Ask(ctx, "Token (not shown):")
	if err != nil {
		return "", err
	}
	return string(token), checkToken(string(token))
}

// The button of the test message.
const (
	pressWorks = "works"
	testID     = "test"
)

// subscribe shows the person what to subscribe to, and tries the way to the phone and back.
func (s *settings) subscribe(ctx context.Context, a *ui.App, at string) error {
	lines, err := ui.QRCode(s.link())
	if err != nil {
		return fmt.Errorf("draw the QR code: %w", err)
	}
	a.PrintText("\nScan this with the phone's camera; on Android, it opens ntfy's app. Elsewhere, subscribe in the app to this topic of the server " + string(display.Text(s.Server)) + ":\n\n  " + s.Topic +
		"\n\nWhoever sees it reads your questions and can press their buttons: clear the screen afterwards.\n")
	fmt.Fprintln(a.Err, strings.Join(lines, "\n"))
	fmt.Fprint(a.Err, "\nPress Enter once the phone is subscribed: ")
	if _, err := a.ReadTyped(ctx); err != nil {
		return err
	}
	server := newServer(s)
	defer server.close()
	m := &message{Topic: s.Topic, Title: "ThoughtGate", Message: "Questions will look like this. Press the button to try the way back.", Actions: []action{s.button("It works", pressWorks, testID, nil)}}
	if _, err := server.publish(ctx, m); err != nil {
		if lasting(err) {
			return notAllowed("publish questions", err)
		}
		return fmt.Errorf("send the test message: %w", err)
	}
	a.PrintText("A test message was sent. Waiting for you to press its button ...")
	return s.awaitTest(ctx, a, server, at)
}

// awaitTest waits for the answer to the test message.
func (s *settings) awaitTest(ctx context.Context, a *ui.App, server *server, at string) error {
	errLate := fmt.Errorf("no answer came within %s", display.Span(testTimeout))
	waiting, cancel := context.WithTimeoutCause(ctx, testTimeout, errLate)
	defer cancel()
	want := pressWorks + " " + testID + " " + s.code(pressWorks, testID, nil)
	err := server.stream(waiting, s.Answers, at, func(e *event) error {
		if hmac.Equal([]byte(e.Message), []byte(want)) {
			return errFound
		}
		return nil
	})
	switch {
	case errors.Is(err, errFound):
		a.PrintText("The phone is set up. To have it asked: tgctl notify --via ntfy, or as a service: systemctl --user enable --now tgctl-phone")
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return &ui.HintError{
		Err:  fmt.Errorf("the phone is set up, but it was not seen to work: %w", err),
		Hint: "Look whether the message has arrived, and set it up again if it has not: tgctl notify --via ntfy --setup",
	}
}

// Reach asks the server of the phone that is set up whether it works, and returns its address. The address is empty
// if no phone is set up.
func Reach(ctx context.Context, paths sock.Paths) (address string, err error) {
	s, err := loadSettings(settingsFile(paths))
	switch {
	case errors.Is(err, errNotSetUp):
		return "", nil
	case err != nil:
		return "", err
	}
	server := newServer(s)
	defer server.close()
	err = server.healthy(ctx)
	if r, ok := errors.AsType[*refusal](err); ok && r.status == http.StatusNotFound {
		err = nil // a server without that page, which is there
	}
	return s.Server, err
}
