package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// statusJSON is what `status --json` prints. When no daemon runs only Running
// is there.
type statusJSON struct {
	Running       bool           `json:"running"`
	Build         string         `json:"build,omitempty"`
	Protocol      uint32         `json:"protocol,omitempty"`
	PID           int32          `json:"pid,omitempty"`
	Started       *time.Time     `json:"started,omitempty"`
	Activated     bool           `json:"activated,omitempty"` // its sockets are the service manager's
	ControlSocket string         `json:"control_socket,omitempty"`
	ShimSocket    string         `json:"shim_socket,omitempty"`
	Set           *policySetJSON `json:"policy_set,omitempty"`
	ReloadFailure string         `json:"reload_failure,omitempty"`
	ReloadFailed  *time.Time     `json:"reload_failed,omitempty"`
	Sessions      uint32         `json:"sessions"`
	Attachments   uint32         `json:"attachments"`
	OtherShims    uint32         `json:"other_shims,omitempty"` // of them, whose tg-shim is of another version than the daemon
	Ungoverned    uint32         `json:"ungoverned"`            // servers that agents start past their sessions
	Pending       uint32         `json:"pending"`
	Held          uint32         `json:"held_definitions"` // of tools, prompts and templates
	Withheld      uint32         `json:"withheld_starts"`  // of servers of projects
	AuditDir      string         `json:"audit_dir,omitempty"`
	AuditSeq      uint64         `json:"audit_seq,omitempty"`
	AuditFailure  string         `json:"audit_failure,omitempty"` // why nothing can be recorded
	Kept          []keptJSON     `json:"kept,omitempty"`          // programs that the daemon keeps, by kind
	Warnings      []string       `json:"warnings,omitempty"`
	Presence      *presenceJSON  `json:"presence,omitempty"`
	Projects      []projectJSON  `json:"projects,omitempty"` // files of the projects that agents work in now

	Folders     []string         `json:"folder_problems,omitempty"` // a disk that is full, a folder that can't be written
	Agents      []agentJSON      `json:"agents,omitempty"`          // that are found from here
	Protections []protectionJSON `json:"protections,omitempty"`
}

// projectJSON is a project's own file as --json shows it.
type projectJSON struct {
	Path     string           `json:"path"`
	Digest   string           `json:"digest,omitempty"` // hex SHA-256; left out when it can't be used
	Rules    uint32           `json:"rules"`
	Problems []diagnosticJSON `json:"problems,omitempty"` // why every call in the project is refused
}

func statusToJSON(s *pb.StatusResponse) statusJSON {
	set := policySetToJSON(s.GetSet())
	var projects []projectJSON
	for _, f := range s.GetProjects() {
		one := projectJSON{Path: f.GetPath(), Digest: f.GetDigest(), Rules: f.GetRules()}
		for _, d := range f.GetProblems() {
			one.Problems = append(one.Problems, diagnosticToJSON(d))
		}
		projects = append(projects, one)
	}
	return statusJSON{
		Running: true, Build: s.GetBuild(), Protocol: s.GetProtocol(), PID: s.GetPid(), Started: stamp(s.GetStarted()),
		Activated: s.GetActivated(), ControlSocket: s.GetControlSocket(), ShimSocket: s.GetShimSocket(), Set: &set,
		ReloadFailure: s.GetReloadFailure(), ReloadFailed: stamp(s.GetReloadFailed()), Sessions: s.GetSessions(),
		Attachments: s.GetAttachments(), OtherShims: s.GetOtherShims(), Ungoverned: s.GetUngoverned(), Pending: s.GetPending(), Held: s.GetHeldDefinitions(), Withheld: s.GetWithheldStarts(), AuditDir: s.GetAuditDir(), AuditSeq: s.GetAuditSeq(),
		AuditFailure: s.GetAuditFailure(), Kept: keptToJSON(s.GetKept()), Warnings: s.GetWarnings(), Presence: presenceToJSON(s.GetPresence()), Projects: projects,
	}
}

func (a *app) statusCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [flags]",
		Short: "Say whether the daemon runs, and what is in force",
		Long: `Say whether the daemon runs, which configuration is in force, what goes on, and
what is wrong; then which agents are found, which of their servers are governed
and why others are not, and what earlier runs have left behind, each with the
command that puts it right. Never starts the daemon; exits 3 when none runs.`,
		Example: `  $ tgctl status
  $ tgctl status --json | jq .pending`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, around, err := a.statusAndAround(cmd.Context())
			if err != nil && !errors.Is(err, client.ErrNotRunning) {
				return err
			}
			troubles := a.folderTroubles(st.GetAuditDir())
			switch {
			case err != nil && asJSON:
				if err := a.printJSON(stoppedJSON{Folders: troubles, Agents: around.agentsToJSON()}); err != nil {
					return err
				}
				return &exitError{code: exitNotRunning}
			case asJSON:
				out := statusToJSON(st)
				out.Folders, out.Agents, out.Protections = troubles, around.agentsToJSON(), around.protections
				return a.printJSON(out)
			}
			sheet := &sheet{}
			if err == nil {
				sheet = a.statusSheet(st)
			}
			addFolders(sheet, troubles)
			a.addAgents(sheet, around)
			return errors.Join(a.printSheet(sheet), err)
		},
	}
	jsonFlag(cmd, &asJSON, statusJSON{})
	return cmd
}

// stoppedJSON is what `status --json` prints when no daemon runs.
type stoppedJSON struct {
	Running bool        `json:"running"` // false
	Folders []string    `json:"folder_problems,omitempty"`
	Agents  []agentJSON `json:"agents,omitempty"`
}

// statusAndAround asks a daemon that runs, and looks around. The error is
// client.ErrNotRunning when there is none; then what was found is there all the
// same.
func (a *app) statusAndAround(ctx context.Context) (*pb.StatusResponse, *surroundings, error) {
	c, missing := a.dialRunning(ctx)
	if missing != nil {
		if !errors.Is(missing, client.ErrNotRunning) {
			return nil, nil, missing
		}
		around, err := a.surroundings(ctx, nil, "")
		if err != nil {
			return nil, nil, err
		}
		return nil, around, missing
	}
	defer c.Close()
	st, err := c.Status(ctx)
	if err != nil {
		return nil, nil, err
	}
	around, err := a.surroundings(ctx, c, st.GetBuild())
	return st, around, err
}

// status asks a daemon that runs.
func (a *app) status(ctx context.Context) (*pb.StatusResponse, error) {
	c, err := a.dialRunning(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Status(ctx)
}

func (a *app) statusSheet(st *pb.StatusResponse) *sheet {
	s := &sheet{}
	up := "running since " + display.Moment(st.GetStarted().AsTime(), a.now())
	up += ", pid " + display.Safe(strconv.Itoa(int(st.GetPid())))
	if st.GetActivated() {
		up += ", sockets from the service manager"
	}
	s.add("daemon", up)
	s.add("version", display.Name(st.GetBuild()))
	if what := versionSkew(st.GetBuild()); what != "" {
		s.add("", what)
		a.skew.told() // here, and not once more below
	}
	if n := st.GetOtherShims(); n > 0 {
		s.add("", plural(n, "server is", "servers are")+" governed by a tg-shim of another version until the agent is started anew; see: tgctl ps")
	}
	a.addSet(s, st.GetSet())
	for _, f := range st.GetProjects() {
		what := ": " + plural(f.GetRules(), "rule", "rules") + " of the repository, which can only tighten"
		if len(f.GetProblems()) > 0 {
			what = " IS NOT VALID, so every call in the project is refused; see: tgctl policy check " + display.Text(f.GetPath())
		}
		s.add("project", display.Text(f.GetPath())+what)
	}
	if failure := st.GetReloadFailure(); failure != "" {
		s.add("reload", "failed "+display.Span(a.now().Sub(st.GetReloadFailed().AsTime()))+" ago, so the set above stayed: "+display.Text(failure))
	}
	s.add("sessions", display.Count(st.GetSessions())+" open, "+plural(st.GetAttachments(), "server", "servers")+" governed")
	if n := st.GetUngoverned(); n > 0 {
		s.add("", plural(n, "server runs", "servers run")+" past a session, NOT GOVERNED; see: tgctl sessions")
	}
	addKept(s, st.GetKept())
	questions := display.Safe("none open")
	if n := st.GetPending(); n > 0 {
		questions = display.Count(n) + " open; see: tgctl approvals"
	}
	s.add("questions", questions)
	s.add("presence", presenceLine(st.GetPresence()))
	if n := st.GetHeldDefinitions(); n > 0 {
		s.add("tools", plural(n, "definition waits", "definitions wait")+" for you; see: tgctl tools --waiting")
	}
	if n := st.GetWithheldStarts(); n > 0 {
		s.add("servers", plural(n, "server of a project is", "servers of projects are")+" withheld until you agree; see: tgctl servers")
	}
	s.add("record", display.Text(st.GetAuditDir())+", "+plural(st.GetAuditSeq(), "record", "records"))
	if failure := st.GetAuditFailure(); failure != "" {
		s.add("", "NOTHING CAN BE RECORDED, so what is governed is refused: "+display.Text(failure))
	}
	s.add("sockets", display.Text(st.GetControlSocket()))
	s.add("", display.Text(st.GetShimSocket()))
	for _, warning := range st.GetWarnings() {
		s.add("warning", display.Text(warning))
	}
	return s
}
