package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/agentconf"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// explainOptions holds the flags of explain.
type explainOptions struct {
	server, tool, uri, prompt, args, agent, config, project string
}

func (a *app) explainCmd() *cobra.Command {
	o := &explainOptions{}
	cmd := &cobra.Command{
		Use:   "explain --server S (--tool T | --uri U | --prompt P) | -",
		Short: "Explain how a call would be judged",
		Long: `Explain how a call would be judged under the rules in force: the verdict, the
gate that decides, the rule and the policies with file and line, the facts of
the call, and what would have to change for another verdict. Nobody is asked,
nothing is recorded, and earlier output of servers is not considered. Extensions
that would see the call are named but not run. Works without a daemon, but then
extensions are not known.

With - it reads JSON lines and prints one JSON line for each, in order. A call:
  {"server","method","tool","arguments","agent","session","definition"}
method defaults to tools/call; prompt, uri or params may replace tool. A past
call also has "result", as {"content":[...]}, or for the method tools/list
{"tools":[...]}. Later lines of a session are judged with what its servers sent,
as long as the session is among the last 4,096 with a line. The output has
verdict (forward, ask, deny), rule, facts and, for ask, grant: what a lasting
approval would cover. For a list, ask means that a definition is withheld. An
invalid line gets an error and no verdict.`,
		Example: `  $ tgctl policy explain --server git --tool push --args '{"force": true}'
  $ tgctl policy explain --server fs --uri file:///etc/hosts --config new.yaml
  $ tgctl policy explain - < calls.jsonl | jq -r .verdict | sort | uniq -c`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "-" {
				return nil
			}
			return ui.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.explainLines(cmd.Context(), o)
			}
			return a.explain(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.server, "server", "", "the server's `ID`")
	flags.StringVar(&o.tool, "tool", "", "call the tool `NAME`")
	flags.StringVar(&o.uri, "uri", "", "read the resource `URI`")
	flags.StringVar(&o.prompt, "prompt", "", "get the prompt `NAME`")
	flags.StringVar(&o.args, "args", "", "arguments, a `JSON` object")
	flags.StringVar(&o.agent, "agent", "", "the agent's `TYPE`, as claude-code")
	flags.StringVar(&o.config, "config", "", "judge by `FILE` instead of the configuration in force")
	flags.StringVar(&o.project, "project", "", "the agent works in `DIR`, whose .thoughtgate.yaml counts (default: here)")
	ui.CompleteFlag(cmd, "agent", ui.OneOf(agentconf.Names()...))
	_ = cmd.RegisterFlagCompletionFunc("server", a.completeFrom(serverOf))
	_ = cmd.RegisterFlagCompletionFunc("tool", a.completeFrom(subjectOf(ui.ToolCall)))
	_ = cmd.RegisterFlagCompletionFunc("uri", a.completeFrom(subjectOf("resources/read")))
	_ = cmd.RegisterFlagCompletionFunc("prompt", a.completeFrom(subjectOf("prompts/get")))
	return a.WithJSON(cmd, explanationJSON(&pb.Explanation{}, nil))
}

// request returns the request that the flags describe.
func (o *explainOptions) request() (*pb.ExplainRequest, error) {
	q := &pb.ExplainRequest{Server: o.server, Agent: o.agent}
	given := 0
	for _, s := range []struct{ is, method string }{{o.tool, ui.ToolCall}, {o.uri, "resources/read"}, {o.prompt, "prompts/get"}} {
		if s.is != "" {
			given++
			q.Subject, q.Method = s.is, s.method
		}
	}
	switch {
	case o.server == "":
		return nil, ui.Misuse("--server is missing")
	case given != 1:
		return nil, ui.Misuse("name one of --tool, --uri and --prompt")
	case o.args != "" && !json.Valid([]byte(o.args)):
		return nil, ui.Misuse("--args is not valid JSON")
	case o.args != "" && !strings.HasPrefix(strings.TrimLeft(o.args, " \t\r\n"), "{"):
		return nil, ui.Misuse(`--args must be a JSON object, such as {"path": "/tmp/x"}`)
	}
	if o.args != "" {
		q.Arguments = []byte(o.args)
	}
	return q, o.begin(q)
}

// begin sets the configuration and, if it is not set yet, the project of a request.
func (o *explainOptions) begin(q *pb.ExplainRequest) (err error) {
	if q.Config, err = connect.Absolute(o.config); err != nil {
		return err
	}
	if q.Project == "" {
		q.Project, err = o.folder()
	}
	return err
}

// folder returns the agent's working directory.
func (o *explainOptions) folder() (string, error) {
	if o.project == "" {
		return os.Getwd()
	}
	return connect.Absolute(o.project)
}

func (a *app) explain(ctx context.Context, o *explainOptions) error {
	q, err := o.request()
	if err != nil {
		return err
	}
	return a.explaining(ctx, o, func(ask asker) error {
		e, err := ask(q)
		switch {
		case err != nil:
			return a.badConfig(err)
		case e.GetError() != "":
			return errors.New(e.GetError())
		}
		return a.PrintOne(explanationJSON(e, nil), explanationSheet(e))
	})
}

// asker sends one request and returns its explanation.
type asker func(*pb.ExplainRequest) (*pb.Explanation, error)

// explaining calls do with an asker that is connected to a server for policy queries.
func (a *app) explaining(ctx context.Context, o *explainOptions, do func(asker) error) error {
	c, done, err := a.policies(ctx)
	if err != nil {
		return err
	}
	defer done()
	if o.config == "" {
		a.ReportUnloadedConfig(ctx, c)
	}
	asking, err := c.Explain(ctx)
	if err != nil {
		return err
	}
	defer asking.Close()
	return do(asking.Ask)
}

// explanationSheet lays out an explanation for a person.
func explanationSheet(e *pb.Explanation) *ui.Sheet {
	s := &ui.Sheet{}
	s.Add("verdict", verdictOf(e))
	s.Add("reason", display.Text(e.GetReason()))
	s.Add("gate", display.Name(e.GetGate()))
	s.Add("rule", ui.Choose(len(e.GetCited()) == 0, display.Text(e.GetRule()), ""))
	for _, c := range e.GetCited() {
		s.Add(c.GetKind(), citation(c))
	}
	s.Add("fact", ui.Map(e.GetFacts(), factLine)...)
	if e.GetVerdict() == "ask" {
		limit, surfaces := e.GetTimeout().AsDuration(), strings.Join(e.GetSurfaces(), ", ")
		s.Add("asks", display.Name(cmp.Or(e.GetWorkflow(), "on every surface"))+ui.Choose(limit > 0, ", for "+display.Span(limit), "")+
			ui.Choose(surfaces != "", "; approved from "+display.Text(surfaces), ""))
		s.Add("or", ui.Choose(e.GetNatively(), "the agent asks its own user, if it says that it can", ""))
		s.Add("approval", ui.Choose(e.GetLevel() == approval.LevelPresence, "requires a passphrase or a code (presence)", ""))
	}
	before, after := strings.Join(e.GetHooks(), ", "), strings.Join(e.GetResultHooks(), ", ")
	s.Add("before", ui.Choose(before != "", "extensions "+display.Text(before)+", not run here, may change or deny the call", ""))
	s.Add("after", ui.Choose(after != "", "extensions "+display.Text(after)+" see the result before the agent", ""))
	s.Add("covers", display.Text(e.GetGrant()))
	for _, g := range e.GetGrants() {
		s.Add("grant", display.Name(g.GetId())+" approves it: calls "+approval.GrantBounds(g))
	}
	for _, n := range e.GetNear() {
		s.Add("no match", citation(n.GetRule())+"\n"+display.Text(n.GetBecause()))
	}
	s.Add("change", ui.Map(e.GetChanges(), change)...)
	s.Add("profile", display.Name(e.GetProfile()))
	return s
}

func verdictOf(e *pb.Explanation) display.Safe {
	return display.Name(e.GetVerdict()) + ui.Choose(e.GetHidden(), ", as if it did not exist", "") +
		ui.Choose(e.GetForwarded(), "; the development profile only records that, and forwards the call", "")
}

// citation says what a rule or policy is, what it does, and where it is defined.
func citation(c *pb.Citation) display.Safe {
	line := ui.Choose(c.GetProject(), "the repository's", display.Text(c.GetName())) // the repository chose the name, so it is not shown
	line += ui.Choose(c.GetDoes() != c.GetKind(), ui.AfterColon(display.Name(c.GetDoes())), "")
	line += ui.Choose(c.GetFleet(), ", of the fleet", "")
	line += ui.Choose(c.GetSays() != "", ", \""+display.Text(c.GetSays())+"\"", "")
	if c.GetFile() == "" {
		return line
	}
	return line + "\n" + display.Text(c.GetFile()) + ui.Choose(c.GetLine() > 0, display.Safe(fmt.Sprintf(":%d:%d", c.GetLine(), c.GetColumn())), "")
}

func factLine(f *pb.CallFact) display.Safe {
	return display.Name(f.GetName()) + ui.Choose(f.GetMember() != "", " in "+display.Name(f.GetMember()), "") + ui.AfterColon(display.Text(f.GetDetail())) +
		ui.Choose(f.GetPlace() != "", ", "+display.Name(f.GetPlace()), "") + ui.Choose(f.GetBy() != "", ", by server "+display.Name(f.GetBy()), "")
}

func change(c *pb.PolicyChange) display.Safe {
	then := ui.Choose(c.GetVerdict() == "", "the call can be judged", display.Name(c.GetVerdict())+ui.Choose(c.GetBy() != "", ", by "+display.Text(c.GetBy()), ""))
	return ui.Choose(c.GetAlternative(), "or ", "") + display.Text(c.GetChange()) + ": " + then
}
