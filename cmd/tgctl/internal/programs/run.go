package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// maxPrompt is the maximum length of a prompt in bytes.
const maxPrompt = 1 << 20

// runOptions holds the flags of run.
type runOptions struct {
	timeout string
	list    bool
	verbose bool
}

// RunCommand returns the command run.
func RunCommand(c *connect.App) *cobra.Command {
	a := &app{c}
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] NAME -- PROMPT...",
		Short: "Run an agent headless, under your rules",
		Long: `Run an agent of the configuration once, without a terminal: it is started in
this folder and given PROMPT (with - standard input), and its answer is printed
as it arrives. Its stderr is passed on, together with messages about the run.

Agents are listed in thoughtgate.yaml under agents:, each with its command and
its protocol. The daemon starts a new process for each run, up to limits.runs at
once. Requests of the agent for files, terminals and permissions are judged by
your rules, as calls of a server with the agent's name; tgctl approvals lists
the questions. The servers that its configuration names are governed too. Each
run is a session: tgctl sessions.

Ctrl-C asks the agent to stop; a second Ctrl-C ends it.

Exits 0 if the agent has answered; otherwise with the agent's exit code, or 1 if
its answer is an error, 124 if it timed out, 125 if ThoughtGate failed or
refused to run it, 126 if it cannot be run, 127 if it was not found, 130 if it
was cancelled.`,
		Example: `  $ tgctl run --list
  $ tgctl run fixer -- "fix the failing test in ./parser"
  $ git diff | tgctl run --timeout 5m reviewer -- -`,
		Args: o.args,
		ValidArgsFunction: connect.FirstAlone(connect.Listed(a.App, (*client.Client).ListAgents, func(g *pb.Agent) string {
			return connect.Described(g.GetName(), cmp.Or(display.Text(g.GetDescription()), ui.CommandLine(g.GetCommand())))
		})),
		RunE: func(cmd *cobra.Command, args []string) error {
			timeout, err := o.limit()
			if err != nil {
				return err
			}
			if o.list {
				return connect.PrintListed(a.App, (*client.Client).ListAgents, nil,
					"No agents are configured. Add them under agents: in thoughtgate.yaml, then: tgctl daemon reload", agentsTable)(cmd, args)
			}
			prompt, err := a.prompt(args[1:])
			if err == nil {
				err = a.runHeadless(cmd.Context(), o, timeout, args[0], prompt)
			}
			return ui.OwnError(err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.timeout, "timeout", "", "stop the run after `TIME`, such as 90s or 10m, instead of the configured timeout")
	flags.BoolVar(&o.list, "list", false, "list the agents that can be run")
	flags.BoolVar(&o.verbose, "verbose", false, "also print thoughts, plans and tool calls to stderr")
	return a.WithJSON(cmd, &pb.RunEvent{}, &pb.Agent{})
}

// args validates the arguments.
func (o *runOptions) args(_ *cobra.Command, args []string) error {
	switch {
	case o.list && len(args) > 0:
		return fmt.Errorf("unexpected argument %q with --list", args[0])
	case o.list:
		return nil
	case len(args) == 0:
		return errors.New("NAME is missing: name the agent; see: tgctl run --list")
	case len(args) == 1:
		return errors.New("PROMPT is missing: give it after --")
	}
	return nil
}

// limit returns how long the run may take; 0 means no --timeout.
func (o *runOptions) limit() (time.Duration, error) {
	if o.timeout == "" {
		return 0, nil
	}
	limit, err := ui.ParseSpan(o.timeout)
	if err != nil || limit < time.Second {
		return 0, ui.Misuse("invalid --timeout %q: use a time of at least a second, such as 90s or 10m", o.timeout)
	}
	return limit, nil
}

// prompt returns the prompt: the words, or standard input if they are "-".
func (a *app) prompt(words []string) (string, error) {
	text := strings.Join(words, " ")
	if text == "-" {
		raw, err := io.ReadAll(io.LimitReader(a.In, maxPrompt+1))
		if err != nil {
			return "", fmt.Errorf("read the prompt: %w", err)
		}
		text = string(raw)
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "", errors.New("the prompt is empty")
	case len(text) > maxPrompt:
		return "", fmt.Errorf("the prompt is longer than %d bytes", maxPrompt)
	}
	return strings.ToValidUTF8(text, "\uFFFD"), nil
}

// handed lists the variables that every headless agent receives.
var handed = []string{"PATH", "HOME", "LANG", "TERM", "XDG_RUNTIME_DIR"}

// runHeadless runs an agent. The first signal cancels the run, the second one ends it.
func (a *app) runHeadless(ctx context.Context, o runOptions, timeout time.Duration, name, prompt string) error {
	signals, release := ui.CatchSignals()
	defer release()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the first signal must not end it
	defer cancel()
	c, err := a.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	agent, err := findAgent(ctx, c, name)
	if err != nil {
		return err
	}
	req := &pb.RunAgentRequest{Name: name, Prompt: prompt, Cwd: cwd, Env: a.handedOver(agent.GetPass())}
	if timeout > 0 {
		req.Timeout = durationpb.New(timeout)
	}
	show := &runPrinter{ui.Partial{App: a.App.App}, o}
	started := make(chan string, 1)
	stop := a.handleSignals(ctx, c, signals, started, cancel)
	defer stop()
	defer show.Close()
	for e, err := range c.RunAgent(ctx, req) {
		if err != nil {
			if errors.Is(err, context.Canceled) {
				return &ui.ExitError{Code: 128 + 2, Err: errors.New("the run was ended")}
			}
			return err
		}
		if s := e.GetStarted(); s != nil {
			started <- s.GetId()
		}
		if err := show.event(e); err != nil {
			return err
		}
		if end := e.GetEnded(); end != nil {
			return runEnd(name, end)
		}
	}
	return fmt.Errorf("the daemon did not report how the run of %s ended", name)
}

// runEnd returns the error that makes tgctl exit as the run did.
func runEnd(name string, end *pb.RunEnded) error {
	if end.GetExit() == ui.ExitOK {
		return nil
	}
	reason := end.GetReason()
	if !strings.Contains(reason, name) {
		reason = fmt.Sprintf("agent %q: %s", name, reason)
	}
	return &ui.ExitError{Code: int(end.GetExit()), Err: errors.New(reason)}
}

// findAgent returns the agent called name. Its Pass lists variables to hand over.
func findAgent(ctx context.Context, c *client.Client, name string) (*pb.Agent, error) {
	agents, err := c.ListAgents(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(agents, func(g *pb.Agent) bool { return g.GetName() == name }); i >= 0 {
		return agents[i], nil
	}
	return nil, &ui.HintError{Err: fmt.Errorf("no agent %q in the configuration in force", name),
		Hint: "List the agents with `tgctl run --list`; after a change of thoughtgate.yaml: `tgctl daemon reload`."}
}

// handedOver returns the environment variables for an agent: the common ones and those that its
// configuration names.
func (a *app) handedOver(pass []string) map[string]string {
	env := map[string]string{}
	for _, name := range append(append([]string(nil), handed...), pass...) {
		if value := a.Getenv(name); value != "" {
			env[name] = value
		}
	}
	return env
}

// handleSignals cancels the run on the first signal and calls end on the second. The caller must
// call stop.
func (a *app) handleSignals(ctx context.Context, c *client.Client, caught <-chan os.Signal, started <-chan string, end context.CancelFunc) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-caught:
		case <-quit:
			return
		}
		a.PrintMessage("thoughtgate: asking the agent to stop; interrupt again to end it")
		select {
		case id := <-started: // at once, or when the run has started
			if err := c.CancelRun(ctx, id); err != nil && !errors.Is(err, client.ErrNotFound) {
				end()
			}
		case <-caught:
			end()
		case <-quit:
			return
		}
		select {
		case <-caught:
			end()
		case <-quit:
		}
	}()
	return func() { close(quit); <-done }
}
