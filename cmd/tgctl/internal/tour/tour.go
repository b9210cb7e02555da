// Package tour has the command demo of tgctl: a small tour with the real daemon, the real tg-shim and the
// real wrap, in a temporary home. Only the agent and its MCP server are part of tgctl, so that it needs no
// network.
package tour

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/audit"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/demo"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// app holds what the demo uses.
type app struct{ *connect.App }

// Command returns the command demo.
func Command(c *connect.App) *cobra.Command {
	a := &app{c}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show ThoughtGate at work in a temporary home",
		Long: `Wrap a scripted agent in a temporary home: one of its calls is forwarded, one is
denied, and one is held until you answer. Then the audit log is verified.
Everything is real except the agent and its server. The demo reads and changes
none of your files, uses no network, and removes its home at the end. If stdin
is not a terminal, the demo answers for you and says so.`,
		Example: `  $ tgctl demo`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if !signal.Ignored(syscall.SIGHUP) { // the terminal is closed: clean up in that case, too
				var stop context.CancelFunc
				ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
				defer stop()
			}
			return a.demo(ctx)
		},
	}
	cmd.AddCommand(a.demoAgentCmd(), a.demoServerCmd())
	return cmd
}

// demoCalls are the calls that the agent makes.
var demoCalls = []demo.Call{
	{Tool: "read_note", Arguments: json.RawMessage(`{"name":"plan"}`)},
	{Tool: "delete_note", Arguments: json.RawMessage(`{"name":"plan"}`)},
	{Tool: "send_mail", Arguments: json.RawMessage(`{"to":"ana@example.com","text":"We release on Friday."}`)},
}

// demoConfig is the thoughtgate.yaml of the demo.
const demoConfig = `schema: 1
governance:
  defaults: {action: forward}
  rules:
    - {match: "delete_*", action: deny, description: "nothing is deleted in this demo"}
    - {match: "send_*", action: approve, description: "mail leaves this machine"}
approval:
  you: {destination: {type: local}, timeout: 10m}
`

// demoTitles describe the calls.
var demoTitles = []string{"The agent reads a note.", "It wants to delete one.", "It wants to send a mail."}

// tour is one run of the demo.
type tour struct {
	*demoHome
	out      *app // what the person sees; the app of the home is another one
	step     int
	held     chan *pb.Approval
	decision string // the person's answer to the question: approved or denied
	notes    []string
}

func (a *app) demo(ctx context.Context) (err error) {
	home, err := a.newDemoHome()
	if err != nil {
		return fmt.Errorf("prepare the demo: %w", err)
	}
	t := &tour{demoHome: home, out: a, held: make(chan *pb.Approval)}
	defer func() {
		if err != nil && ctx.Err() == nil {
			t.tellLog()
		}
		if closeErr := home.close(); closeErr != nil && err == nil {
			err = closeErr
		}
		if ctx.Err() != nil {
			err = &ui.ExitError{Code: 130, Err: errors.New("the demo was interrupted; its home was removed")}
		}
	}()
	if err := home.startDaemon(ctx); err != nil {
		return err
	}
	t.introduce()
	if err := t.run(ctx); err != nil {
		return err
	}
	if err := t.verify(ctx); err != nil {
		return err
	}
	return t.conclude()
}

func (t *tour) print(format string, args ...any) {
	fmt.Fprintf(t.out.Out, format+"\n", args...)
}

func (t *tour) introduce() {
	t.print(`A tour in a temporary home: the programs are real, your files are not touched.

An agent calls the tools of its MCP server "notes", under these rules:

    delete_*        deny      nothing is deleted in this demo
    send_*          approve   mail leaves this machine: a person is asked
    anything else   forward

    $ tgctl wrap -- agent
`)
}

// run wraps the agent and follows it until it has ended.
func (t *tour) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := t.app.DialRunning(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var watching sync.WaitGroup
	watching.Go(func() {
		for event := range c.WatchApprovals(ctx) { // after an error nothing more is asked
			if q := event.GetApproval(); approval.IsOpen(q) {
				select {
				case t.held <- q:
				case <-ctx.Done():
				}
			}
		}
	})
	lines, ended, err := t.startWrap(ctx)
	if err != nil {
		return err
	}
	err = t.follow(ctx, lines, func(q *pb.Approval) error {
		answer, word, err := t.ask(ctx, q)
		if err != nil {
			return err
		}
		t.decision = word
		_, err = c.Decide(ctx, &pb.Decision{Id: q.GetId(), Subject: q.GetSubject(), Answer: answer, Surface: t.out.Surface()})
		return err
	})
	cancel()
	watching.Wait()
	if endErr := ended(err != nil); err == nil && endErr != nil {
		err = fmt.Errorf("tgctl wrap: %w", endErr)
	}
	return err
}

// follow prints what the agent does as it happens, and has questions answered.
func (t *tour) follow(ctx context.Context, lines <-chan demoLine, answer func(*pb.Approval) error) error {
	for {
		held := t.held
		if t.step < len(demoTitles) { // the question overtakes the line of its call
			held = nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case q := <-held:
			if err := answer(q); err != nil {
				return err
			}
		case line, ok := <-lines:
			if !ok {
				if t.step < len(demoTitles) || len(t.notes) < len(demoTitles) {
					return errors.New("the agent ended before its script was complete")
				}
				return nil
			}
			if err := t.printLine(line); err != nil {
				return err
			}
		}
	}
}

// printLine prints a call when it is made, and then its outcome.
func (t *tour) printLine(line demoLine) error {
	switch {
	case line.Error != "":
		return fmt.Errorf("the agent failed: %s", line.Error)
	case line.Result == nil:
		if t.step == len(demoTitles) {
			return errors.New("the agent made a call that is not in its script")
		}
		t.step++
		t.print("%d. %s\n", t.step, demoTitles[t.step-1])
		t.print("     → %s %s", display.Name(line.Call.Tool), display.JSONLine(line.Call.Arguments, 60, ""))
		return nil
	}
	for i, part := range display.Wrap(display.Text(line.Result.Text), 72) {
		t.print("     %s %s", ui.Choose(i == 0, "←", " "), part)
	}
	outcome, err := t.outcome(line)
	if err != nil {
		return err
	}
	t.notes = append(t.notes, outcome)
	t.print("\n   %s\n", t.out.strong(outcome))
	return nil
}

// outcome describes the outcome of a call according to the server's log of what it
// executed. It fails if that contradicts the rules and the person's answer.
func (t *tour) outcome(line demoLine) (string, error) {
	all, err := demo.Executed(t.serverLog())
	if err != nil {
		return "", err
	}
	executed := slices.Contains(all, line.Call.Tool)
	want, outcome := true, "forwarded"
	switch t.step {
	case 2:
		want, outcome = false, "denied: the server never saw it"
	case 3:
		want, outcome = t.decision == "approved", "held → "+t.decision
		if t.out.InTerminal {
			outcome += " by you"
		}
		if !want {
			outcome += ": the server never saw it"
		}
	}
	if executed != want || line.Result.IsError == want {
		return "", fmt.Errorf("%s: executed %v, denied %v; the demo expected the opposite", line.Call.Tool, executed, line.Result.IsError)
	}
	return outcome, nil
}

// verify prints the records and verifies the audit log with the commands that a person
// would use.
func (t *tour) verify(ctx context.Context) error {
	t.print("The audit log:\n")
	list, err := t.audit(ctx, "list", "--kind", "call")
	if err != nil {
		return err
	}
	verified, err := t.audit(ctx, "verify")
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		fmt.Fprint(t.out.Out, "    ", line)
	}
	first, _, _ := strings.Cut(verified, "\n")
	t.print("\n    $ tgctl audit verify\n    %s\n", t.out.strong(first))
	return nil
}

// audit runs the command audit in the home and returns what it printed.
func (t *tour) audit(ctx context.Context, args ...string) (string, error) {
	var out strings.Builder
	t.app.Out = &out
	if code := t.app.ExecuteOnly(ctx, append([]string{"audit"}, args...), audit.Command); code != ui.ExitOK {
		return "", fmt.Errorf("tgctl audit %s: exit %d", args[0], code)
	}
	return out.String(), nil
}

func (t *tour) conclude() error {
	did, err := demo.Executed(t.serverLog())
	if err != nil {
		return err
	}
	t.print("According to the server's own log it executed only %s.", strings.Join(did, " and "))
	name := "tgctl"
	if _, err := exec.LookPath(name); err != nil {
		name = os.Args[0] // built and not installed yet
	}
	t.print("\nNext, see what it would have asked about so far: %s scan", ui.ShellWord(display.Text(name)))
	return nil
}

// strong writes text in bold on a terminal that supports it.
func (a *app) strong(text string) string {
	if !a.OutTerminal || a.Getenv("NO_COLOR") != "" || a.Getenv("TERM") == "dumb" {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}
