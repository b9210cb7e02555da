package status

import (
	"context"
	"errors"
	"fmt"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Brief prints the state in three lines: the daemon, what is governed, and what waits. It never starts
// the daemon, and what can't be found out is said in place of a line.
func Brief(ctx context.Context, c *connect.App) error {
	a := &app{c}
	st, around, err := a.statusAndAround(ctx)
	s := &ui.Sheet{}
	switch {
	case errors.Is(err, client.ErrNotRunning):
		s.AddIn(display.Warn, "daemon", "not running; to start it: tgctl daemon start")
	case err != nil:
		s.AddIn(display.Deny, "daemon", display.Text(err.Error())+"; see: tgctl doctor")
	default:
		s.Add("daemon", "running, "+display.Name(st.GetBuild())+ui.Choose(st.GetSet().GetProfile() == "development", ", development profile: nothing is denied", ""))
		if st.GetAuditFailure() != "" {
			s.AddIn(display.Deny, "", "NOTHING CAN BE RECORDED, so every governed call is denied; see: tgctl status")
		}
	}
	if around != nil {
		s.Add("governed", around.governed())
	}
	if err == nil {
		s.AddIn(display.Held, "waiting", waiting(st))
		s.Add("waiting", ui.Choose(waiting(st) == "", "nothing", ""))
	}
	if err := a.PrintSheet(s); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Out)
	return err
}

// waiting says what waits for a person; it is empty if nothing does.
func waiting(st *pb.StatusResponse) display.Safe {
	return ui.Join(ui.NonEmpty(
		ui.Some(st.GetPending(), "question", "questions", " (tgctl approvals)"),
		ui.Some(st.GetHeldDefinitions(), "definition of a tool", "definitions of tools", " (tgctl tools --waiting)"),
		ui.Some(st.GetWithheldStarts(), "server of a project", "servers of projects", " (tgctl servers)"),
	), ", ")
}

// governed says how much of each agent is governed.
func (w *Surroundings) governed() display.Safe {
	var all []display.Safe
	for _, agent := range w.Agents {
		governed, startable := 0, 0
		for _, server := range agent.Servers {
			switch server.Off {
			case agentconf.Disabled, agentconf.Shadowed, agentconf.Inactive, agentconf.Denied:
				continue
			}
			startable++
			switch server.Governed {
			case agentconf.ByProtect, agentconf.ByWrap, agentconf.ByItself:
				governed++
			}
		}
		count := display.Safe(fmt.Sprintf("%d of %s", governed, ui.Plural(startable, "server", "servers")))
		all = append(all, display.Name(agent.Agent)+" "+ui.Parens(ui.Choose(agent.Protected, "protected, ", "")+count))
	}
	if len(all) == 0 {
		return "no agent was found here; to wrap one: tgctl wrap -- COMMAND"
	}
	return ui.Join(all, ", ")
}
