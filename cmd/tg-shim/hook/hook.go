// Package hook is `tg-shim hook`, the program that an agent runs before it uses a tool of its
// own. It hands the event to the daemon and prints the answer. It makes no decisions itself:
// whatever keeps it from getting an answer in time denies the call, since agents take a hook
// that fails or is late for consent.
package hook

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const (
	// maxEvent is the maximum size of an event, in bytes.
	maxEvent = 8 << 20
	// margin is how long before the agent gives up the answer must be there. Half of a limit
	// that is shorter than twice that is used.
	margin = 10 * time.Second
	// defaultLimit is for an entry without --limit: no agent waits less by default.
	defaultLimit = 30 * time.Second
	// startTimeout is how long to wait for a daemon to listen, restartTimeout how long for the
	// next one after a daemon that ended. In between it is tried again after each pause.
	startTimeout, restartTimeout, pause = 2 * time.Second, 30 * time.Second, 50 * time.Millisecond
	// statusDeny is the exit code that denies the call at every agent.
	statusDeny = 2
)

// Usage describes the command line.
const Usage = `Usage: tg-shim hook --socket PATH [--session ID] [--limit D] [--report] AGENT

Reads what AGENT is about to do from standard input, has ThoughtGate judge it,
and prints the answer. Agents run it before they use a tool of their own; there
is no need to run it by hand.

Options:
  --socket PATH  the daemon's shim.sock
  --session ID   the protection that wrote the entry
  --limit D      how long the agent waits for the answer, such as 1h
  --report       the event can't be denied
`

// Options are the arguments of `tg-shim hook`.
type Options struct {
	Agent   string
	Socket  string // absolute
	Session string
	Limit   time.Duration
	Report  bool
	Build   string
}

// Parse parses the arguments. Neither the environment nor the working directory decides
// anything: a project can set both, and a daemon of its own would say yes.
func Parse(args []string) (Options, error) {
	var o Options
	flags := flag.NewFlagSet("tg-shim hook", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.Socket, "socket", "", "")
	flags.StringVar(&o.Session, "session", "", "")
	flags.DurationVar(&o.Limit, "limit", defaultLimit, "")
	flags.BoolVar(&o.Report, "report", false, "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() != 1:
		return o, errors.New("exactly one AGENT is needed")
	case !filepath.IsAbs(o.Socket):
		return o, fmt.Errorf("--socket is %q; it must be an absolute path", o.Socket)
	case o.Limit <= 0:
		return o, fmt.Errorf("--limit is %v; it must be more than 0", o.Limit)
	}
	o.Agent = flags.Arg(0)
	return o, nil
}

// Run handles one event and returns the exit code.
func Run(o Options, stdin io.Reader, stdout, stderr io.Writer) int {
	patience := max(o.Limit-margin, o.Limit/2)
	ctx, cancel := context.WithTimeout(context.Background(), max(o.Limit-margin/2, o.Limit*3/4))
	defer cancel()
	answer, err := ask(ctx, o, patience, stdin)
	if err == nil {
		if _, err = stdout.Write(answer.Stdout); err == nil {
			_, err = stderr.Write(answer.Stderr)
		}
	}
	switch {
	case err == nil:
		return answer.Status
	case o.Report:
		return 0 // it has happened, and agents would show their models the failure of the hook
	}
	return refuse(o.Agent, fmt.Sprintf("Not executed: ThoughtGate could not judge it (%v). Start its daemon with `tgctl daemon start`, or release the agent with `tgctl unprotect`.", err), stdout, stderr)
}

// refuse denies the call and returns the exit code.
func refuse(agent, reason string, stdout, stderr io.Writer) int {
	if agent == "copilot-cli" { // its model reads what a hook answers, but not why it has failed
		answer := wire.AppendQuote([]byte(`{"permissionDecision":"deny","permissionDecisionReason":`), reason)
		if _, err := stdout.Write(append(answer, "}\n"...)); err == nil {
			return 0
		}
	}
	fmt.Fprintln(stderr, reason)
	return statusDeny
}

func ask(ctx context.Context, o Options, patience time.Duration, stdin io.Reader) (*attach.HookAnswer, error) {
	event, err := readEvent(ctx, stdin)
	if err != nil {
		return nil, err
	}
	cwd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	request := &attach.HookEvent{Build: o.Build, Agent: o.Agent, Event: event, Session: o.Session, Cwd: cwd}
	giveUp, end := time.Now().Add(patience), time.Now().Add(startTimeout)
	for {
		request.Patience = time.Until(giveUp)
		answer, err := attach.Daemon(o.Socket).Hook(ctx, request)
		var refused *attach.Status
		switch isStatus := errors.As(err, &refused); {
		case err == nil || ctx.Err() != nil || isStatus && !refused.IsTemporary():
			return answer, err
		case isStatus || errors.Is(err, attach.ErrLost): // a daemon was there, and the next one asks the same question
			end = time.Now().Add(restartTimeout)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if now := time.Now(); now.After(end) || now.After(giveUp) {
			return nil, err
		}
	}
}

// readEvent reads the event. Some agents leave the hook's input open, so the reading ends with
// ctx; the process ends soon after.
func readEvent(ctx context.Context, stdin io.Reader) ([]byte, error) {
	type result struct {
		event []byte
		err   error
	}
	read := make(chan result, 1)
	go func() {
		event, err := io.ReadAll(io.LimitReader(stdin, maxEvent+1))
		read <- result{event, err}
	}()
	select {
	case r := <-read:
		if r.err != nil {
			return nil, fmt.Errorf("read the event: %w", r.err)
		}
		if len(r.event) > maxEvent {
			return nil, fmt.Errorf("the event has more than %d bytes", maxEvent)
		}
		return r.event, nil
	case <-ctx.Done():
		return nil, errors.New("the agent does not close the event")
	}
}
