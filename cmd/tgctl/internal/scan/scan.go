// Package scan has the command that says what the default would have done, from what agents have left
// on this machine: their transcripts and their configuration files. It only reads, and keeps nothing.
package scan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/agentenv"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/policy"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/agenthook"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

const (
	defaultDays = 90
	maxDays     = 3650
)

// options holds the flags.
type options struct {
	days          int
	agent, config string
	all           bool
}

// Command returns the command scan.
func Command(a *connect.App) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "scan [flags]",
		Short: "Say what the default would have asked about so far",
		Long: `Read what the agents on this machine have left, their transcripts and their
configuration files, and say which servers are not governed, where keys stand in
configuration files (never the keys), and what the built-in default would have
denied or asked about. Nothing is changed, sent or kept. No daemon is needed.
Transcripts are read of ` + strings.Join(withTranscripts(), ", ") + `.

The calls of a conversation are judged in order by the same gate as live calls,
results included. Nothing on the disk is looked at, since it is not what it was:
whether a call that deleted or discarded something would have been asked about
depends on what was in no commit then, and is said to be unclear. What servers
said in other messages than results, such as definitions of their tools, is in
no transcript, so what it would have added is missing.`,
		Example: `  $ tgctl scan
  $ tgctl scan --days 30 --agent codex
  $ tgctl scan --policy ~/.config/thoughtgate/thoughtgate.yaml
  $ tgctl scan --json | jq 'select(.verdict == "ask") | .reason'`,
		Args: ui.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.days < 1 || o.days > maxDays {
				return ui.Misuse("--days is a number from 1 to %d", maxDays)
			}
			if o.agent != "" && !slices.Contains(agentconf.Names(), o.agent) {
				return ui.Misuse("unknown agent %q: use one of %s", o.agent, strings.Join(agentconf.Names(), ", "))
			}
			return (&scan{App: a, options: o, since: a.Now().AddDate(0, 0, -o.days)}).run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.days, "days", defaultDays, "only calls of the last `N` days")
	flags.StringVar(&o.agent, "agent", "", "only the agent of this `TYPE`, as claude-code")
	flags.StringVar(&o.config, "policy", "", "judge by the configuration `FILE` instead of the built-in default")
	flags.BoolVar(&o.all, "all", false, "list all calls, also those that would have been forwarded")
	_ = cmd.RegisterFlagCompletionFunc("agent", cobra.FixedCompletions(agentconf.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("days", cobra.FixedCompletions([]string{"7", "30", "90", "365"}, cobra.ShellCompDirectiveNoFileComp))
	return a.WithJSON(cmd, server{}, key{}, call{}, summary{})
}

// withTranscripts returns the agents whose transcripts can be read.
func withTranscripts() []string {
	return slices.DeleteFunc(agenthook.Agents(), func(name string) bool {
		t := agenthook.Of(name).Transcript
		return t == nil || t.Table != nil
	})
}

// scan is one run of the command, and what it has found.
type scan struct {
	*connect.App
	*options
	since time.Time
	env   agentconf.Env
	gate  *asking

	servers []server
	agents  []agentconf.Survey
	keys    []key
	calls   []call // those that are listed
	summary summary

	progressed time.Time // when the progress was drawn
}

// server is a server that is not governed.
type server struct {
	Kind  string `json:"kind"` // server
	Agent string `json:"agent"`
	ID    string `json:"id"`
	File  string `json:"file"`
	Why   string `json:"why"` // why it can't be governed; empty if it can
}

// key is a key, token or password that stands in a configuration file.
type key struct {
	Kind  string `json:"kind"` // key
	Agent string `json:"agent"`
	File  string `json:"file"`
	Place string `json:"place"` // path of names in the file
	What  string `json:"what"`
}

// call is a call of a tool, with what would have become of it.
type call struct {
	Kind         string    `json:"kind"` // call
	Agent        string    `json:"agent"`
	At           time.Time `json:"at"`
	Project      string    `json:"project"`
	Conversation string    `json:"conversation"` // path of its transcript
	ID           string    `json:"id"`           // the agent's
	Server       string    `json:"server"`
	Tool         string    `json:"tool"`
	Arguments    rawJSON   `json:"arguments"`   // with secrets replaced; null if it would have been forwarded
	Verdict      string    `json:"verdict"`     // forward, ask, deny
	Unclear      string    `json:"may_destroy"` // what it may have destroyed; then perhaps is the verdict if it did
	Perhaps      string    `json:"perhaps"`
	Reason       string    `json:"reason"`
	Rule         string    `json:"rule"`
	Facts        []string  `json:"facts"`
}

// summary counts.
type summary struct {
	Kind          string         `json:"kind"` // summary
	Since         time.Time      `json:"since"`
	Calls         int            `json:"calls"`
	Conversations int            `json:"conversations"`
	ByAgent       map[string]int `json:"by_agent"`
	Denied        int            `json:"denied"`
	Asked         int            `json:"asked"`
	Unclear       int            `json:"unclear"`
	Unread        []string       `json:"unread"` // what was not read, or only in part
}

func (s *scan) run(ctx context.Context) error {
	var err error
	if s.env, err = agentenv.Env(s.App); err != nil {
		return err
	}
	if s.config, err = connect.Absolute(s.config); err != nil {
		return err
	}
	// What a protection governs is known to the daemon alone. It is not needed otherwise.
	if c, err := client.Dial(ctx, client.WithEnv(s.Getenv)); err == nil {
		s.env.Protections, _ = agentenv.Protections(ctx, c)
		c.Close()
	}
	c, done, err := policy.Offline(ctx, s.App)
	if err != nil {
		return err
	}
	defer done()
	explaining, err := c.Explain(ctx)
	if err != nil {
		return err
	}
	defer explaining.Close()
	s.gate = newAsking(explaining, s.config)
	s.lookAtServers()
	err = s.lookForKeys()
	if err == nil {
		err = s.replay(ctx)
	}
	err = cmp.Or(s.gate.finish(), err)
	s.progress("")
	if err != nil {
		return policy.BadConfig(s.App, err)
	}
	slices.SortStableFunc(s.calls, func(x, y call) int { return x.At.Compare(y.At) })
	slices.SortFunc(s.keys, func(x, y key) int { return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Place, y.Place)) })
	return s.print()
}

// isWanted reports whether an agent is one of those that are looked at.
func (s *scan) isWanted(agent string) bool { return s.agent == "" || s.agent == agent }

// lookAtServers finds the servers that are not governed.
func (s *scan) lookAtServers() {
	for _, survey := range agentconf.Look(s.env) {
		if !s.isWanted(survey.Agent) {
			continue
		}
		s.agents = append(s.agents, survey)
		if survey.Problem != "" {
			s.unread("configuration of %s: %s", survey.Agent, survey.Problem)
		}
		for _, one := range survey.Servers {
			if one.Governed == agentconf.NotGoverned && (one.Off == agentconf.Starts || one.Off == agentconf.Pending) {
				s.servers = append(s.servers, server{"server", survey.Agent, one.ID, one.Path, one.Why})
			}
		}
	}
}

// maxObjects is how many objects of configuration files are searched for keys.
const maxObjects = 20_000

// lookForKeys finds keys in configuration files, as the gate finds them in the arguments of a call.
func (s *scan) lookForKeys() error {
	n := 0
	for v := range agentconf.EachValues(s.env) {
		if !s.isWanted(v.Agent) {
			continue
		}
		if n++; n > maxObjects {
			s.unread("configuration files: only the first %d objects were searched for keys", maxObjects)
			return nil
		}
		q := &request{Server: "configuration", Subject: "read", Arguments: v.JSON, Session: fmt.Sprint("file ", n)}
		err := s.gate.ask(q, func(a *answer) {
			for _, f := range a.GetFacts() {
				if f.GetName() == "secret" {
					place := strings.Join(append(slices.Clip(v.Path), f.GetMember()), ".")
					s.keys = append(s.keys, key{"key", v.Agent, v.File, place, f.GetDetail()})
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxUnread is how many sentences are kept about what was not read.
const maxUnread = 20

func (s *scan) unread(format string, args ...any) {
	if len(s.summary.Unread) < maxUnread {
		s.summary.Unread = append(s.summary.Unread, fmt.Sprintf(format, args...))
	}
}

// progress replaces the line that says how far the scan is, if there is a terminal.
func (s *scan) progress(text display.Safe) {
	if !s.ErrTerminal || text != "" && time.Since(s.progressed) < 100*time.Millisecond {
		return
	}
	s.progressed = time.Now()
	columns := cmp.Or(s.ErrColumns, 80)
	fmt.Fprint(s.Err, "\r", display.Fit(text, max(columns-1, 1)), "\x1b[K")
}
