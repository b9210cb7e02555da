package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// sessionJSON is a session as --json shows it.
type sessionJSON struct {
	ID       string     `json:"id"`
	Agent    string     `json:"agent"`
	Command  []string   `json:"command"`
	Project  string     `json:"project"`
	Profile  string     `json:"profile,omitempty"` // as the wrap asked for it; empty: the configuration's
	Files    []string   `json:"files"`             // configurations that are rewritten while it lasts
	Keep     bool       `json:"keep,omitempty"`    // they stay rewritten
	Opened   *time.Time `json:"opened,omitempty"`
	PID      int32      `json:"pid"`      // of the wrap; 0 when it is gone
	Attached uint32     `json:"attached"` // shims
	Orphaned bool       `json:"orphaned,omitempty"`
	Problem  string     `json:"problem,omitempty"` // why a file could not be put back yet

	Ungoverned []ungovernedJSON `json:"ungoverned,omitempty"` // servers that run past the session
	Protection string           `json:"protection,omitempty"` // the agent is protected, and was started without wrap; pid is its own
}

// ungovernedJSON is a server that runs past a session as --json shows it.
type ungovernedJSON struct {
	Server string `json:"server"`
	Path   string `json:"path"` // of the configuration
	How    string `json:"how"`  // added or changed
}

func sessionToJSON(s *pb.Session) sessionJSON {
	spec := s.GetSpec()
	out := sessionJSON{
		ID: spec.GetId(), Agent: spec.GetAgent(), Command: list(spec.GetCommand()), Project: spec.GetProject(),
		Profile: profileName(spec.GetProfile()), Files: []string{}, Keep: spec.GetKeep(), Opened: stamp(s.GetOpened()),
		PID: s.GetPid(), Attached: s.GetAttached(), Orphaned: s.GetOrphaned(), Problem: s.GetProblem(), Protection: s.GetProtection(),
	}
	for _, f := range spec.GetFiles() {
		out.Files = append(out.Files, f.GetPath())
	}
	for _, u := range spec.GetUngoverned() {
		out.Ungoverned = append(out.Ungoverned, ungovernedJSON{u.GetServer(), u.GetPath(), u.GetHow()})
	}
	return out
}

// profileName is the name of a profile in configurations, empty for none.
func profileName(p pb.Profile) string {
	if p == pb.Profile_PROFILE_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(p.String(), "PROFILE_"))
}

func (a *app) sessionsCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sessions [flags]",
		Short: "List the wrapped and protected agents that run",
		Long: `List the wrapped agents that run, those that have gone and whose configuration
could not be put back yet, and the protected agents that have started a server.`,
		Example: `  $ tgctl sessions
  $ tgctl sessions --json | jq -r .project`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			sessions, err := c.ListSessions(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				for _, s := range sessions {
					if err := a.printJSON(sessionToJSON(s)); err != nil {
						return err
					}
				}
				return nil
			}
			if len(sessions) == 0 {
				a.say("No agent is wrapped, and none that is protected runs. Wrap one: tgctl wrap -- COMMAND")
				return nil
			}
			return a.sessionsTable(sessions).Write(a.out, a.width())
		},
	}
	jsonFlag(cmd, &asJSON, sessionJSON{})
	return cmd
}

func (a *app) sessionsTable(sessions []*pb.Session) *display.Table {
	t := &display.Table{Columns: []display.Column{
		{Head: "AGENT", Shrink: 8}, {Head: "AGE", Right: true}, {Head: "SERVERS", Right: true},
		{Head: "PID", Right: true}, {Head: "PROFILE"}, {Head: "ID"},
	}}
	for _, s := range sessions {
		spec := s.GetSpec()
		t.Add(display.Name(spec.GetAgent()), display.Span(a.now().Sub(s.GetOpened().AsTime())),
			display.Count(s.GetAttached()), pidOrDash(s.GetPid()), orDash(profileName(spec.GetProfile())),
			display.Name(spec.GetId()))
		where := "in " + display.Text(spec.GetProject())
		if s.GetProtection() != "" {
			where += ", protected: started without wrap"
		}
		t.Note(where)
		for _, u := range spec.GetUngoverned() {
			t.Note(ungovernedText(u))
		}
		if s.GetOrphaned() {
			t.Note("its wrap is gone and a configuration could not be put back: " + display.Text(s.GetProblem()) + "; try `tgctl unwrap`")
		}
	}
	return t
}

// ungovernedText says of a server that it runs past its session.
func ungovernedText(u *pb.UngovernedServer) display.Safe {
	what := display.Safe(" was added while the agent runs and is not governed")
	if u.GetHow() == string(agentconf.Changed) {
		what = " does not name the shim any more and is not governed"
	}
	return "server " + display.Name(u.GetServer()) + " in " + display.Text(u.GetPath()) + what
}

func pidOrDash(pid int32) display.Safe {
	if pid == 0 {
		return "-"
	}
	return display.Safe(strings.ReplaceAll(string(display.Count(int64(pid))), ",", ""))
}
