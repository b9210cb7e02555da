package doctor

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/status"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// An agent's hook has a canary, too: what the agent would run before it uses its shell is run with
// a command that the daemon always denies. Nobody runs that command.

// maxAnswer is how much of a hook's answer is shown, in runes.
const maxAnswer = 60

// runHookCanaries examines the hooks of each protected agent.
func (x *examination) runHookCanaries(ctx context.Context, w *status.Surroundings) {
	for _, s := range w.Agents {
		c := agenthook.Of(s.Agent)
		if c == nil || s.Tools == nil || s.Tools.Governed != agentconf.ByProtect || x.client == nil {
			continue
		}
		if len(s.Tools.Canary) == 0 {
			x.addFinding("hooks.passed", s.Agent, "%s has no hook for %s, so its own tools ARE NOT JUDGED", s.Agent, c.Judging())
		}
		for _, hook := range s.Tools.Canary {
			x.runHookCanary(ctx, s.Agent, c, hook)
		}
	}
}

// runHookCanary runs one hook and reports what it answered.
func (x *examination) runHookCanary(ctx context.Context, agent string, c *agenthook.Contract, hook agentconf.HookCommand) {
	before := x.status.GetAuditSeq()
	answer, err := x.ask(ctx, hook, c.CanaryEvent(record.CanaryCommand))
	said := string(answer.Stdout) + string(answer.Stderr)
	switch {
	case err != nil:
		x.addFinding("hooks.silent", agent, "the hook of %s gave no answer: %v", agent, err)
		return
	case !c.Denies(answer):
		x.addFinding("hooks.passed", agent, "the hook of %s let pass what must be denied, so its own tools ARE NOT JUDGED; it answered %q, exit code %d", agent, shorten(said), answer.Status)
		return
	}
	r, err := x.recordOfCanary(ctx, before, agenthook.Server, said)
	switch {
	case err != nil:
		x.addFinding("hooks.unrecorded", agent, "the hook of %s denied a command without this daemon: it answered %q, and %v", agent, shorten(said), err)
	case r.Rule != record.CanaryRule:
		x.addFinding("hooks.unrecorded", agent, "the hook of %s denied a command that could not be judged: %s", agent, r.Reason)
	default:
		x.addOK("hooks", "the hook of %s denied a command; it is record %d", agent, r.Seq)
	}
}

// askHook runs a hook as its agent would, with an event, and returns its answer.
func askHook(ctx context.Context, hook agentconf.HookCommand, event []byte) (agenthook.Output, error) {
	ctx, cancel := context.WithTimeout(ctx, canaryTimeout)
	defer cancel()
	argv := hook.Argv
	if hook.Shell {
		argv = append([]string{"/bin/sh", "-c"}, argv...)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.WaitDelay = bytes.NewReader(event), &stdout, &stderr, "/", time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		err = nil
	}
	if err != nil {
		return agenthook.Output{}, err
	}
	return agenthook.Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Status: cmd.ProcessState.ExitCode()}, nil
}

// shorten returns the beginning of text on one line.
func shorten(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > maxAnswer {
		runes = append(runes[:maxAnswer], []rune("...")...)
	}
	return string(display.Text(string(runes)))
}
