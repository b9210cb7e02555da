// Package policy has the commands of tgctl that write, check and test a configuration, and show the one
// in force. To judge is the daemon's: it is asked, or one is run for the question.
package policy

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// app holds what these commands use.
type app struct{ *connect.App }

// Command returns the command policy.
func Command(c *connect.App) *cobra.Command {
	a := &app{c}
	cmd := ui.Group("policy", "Write, check and test a configuration, show the one in force", a.checkCmd(), a.explainCmd(), a.testCmd(),
		a.backtestCmd(), a.suggestCmd(), a.showCmd(), a.schemaCmd(), a.initCmd())
	cmd.Long = `thoughtgate.yaml and the Cedar policies it names define what agents may do. The
daemon reads them at its start and on "tgctl daemon reload"; a file changed on
disk has no effect before that.`
	cmd.Example = `  $ tgctl policy init
  $ tgctl policy check && tgctl policy backtest
  $ tgctl daemon reload`
	return cmd
}

func (a *app) showCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "show [flags]",
		Short: "Show the rules and policies in force",
		Long: `Show the configuration in force: its rules in the order of evaluation, policies,
workflows, agents that ask their own users, and servers. If a file has changed
on disk since it was loaded, the difference is shown.`,
		Example: `  $ tgctl policy show
  $ tgctl policy show --json | jq -r '.files[] | select(.changed) | .path'`,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			set, err := c.PolicySet(ctx)
			if err != nil {
				return err
			}
			if a.AsJSON {
				return a.PrintJSON(pbjson.Object{Message: set, More: diffsOf(set.GetFiles())})
			}
			s := &ui.Sheet{}
			AddSet(s, set)
			s.Add("fleet", fleetLine(set.GetFleet()))
			s.Add("since", a.Moment(set.GetSince()))
			s.Add("by", display.Text(set.GetBy()))
			s.Add("digest", display.Name(set.GetDigest()))
			if err := a.PrintSheet(s); err != nil {
				return err
			}
			return a.printDetail(set)
		}),
	}, pbjson.Object{Message: &pb.PolicySet{}, More: diffsJSON{}})
}

// fleetLine says what a fleet's policy does with the configuration.
func fleetLine(mode string) display.Safe {
	switch mode {
	case "floor":
		return "its policy is asked, too, and the stricter verdict counts; see: tgctl fleet status"
	case "full":
		return "its policy is in force in place of this configuration; see: tgctl fleet status"
	}
	return ""
}

// AddSet adds which policy set is in force, and which of its files have changed on disk.
func AddSet(s *ui.Sheet, set *pb.PolicySet) {
	s.Add("config", display.Text(cmp.Or(set.GetSource(), "built-in default (no configuration file)")))
	s.Add("profile", display.Name(set.GetProfile()))
	s.Add("contains", ui.Plural(set.GetRules(), "rule", "rules")+", "+ui.Plural(set.GetPolicies(), "Cedar policy", "Cedar policies"))
	addChecked(s, set)
	for _, f := range set.GetFiles() {
		s.Add("changed", ui.Choose(f.GetChanged(), display.Text(f.GetPath())+" has changed since it was loaded; `tgctl policy check`, then `tgctl daemon reload`", ""))
	}
}

// Summary summarizes a set: its profile, and how many rules and policies it has.
func Summary(set *pb.PolicySet) string {
	return fmt.Sprintf("profile %s, %s, %s", display.Name(set.GetProfile()),
		ui.Plural(set.GetRules(), "rule", "rules"), ui.Plural(set.GetPolicies(), "Cedar policy", "Cedar policies"))
}

// AsksNatively says whom an agent asks that is configured to do it itself.
const AsksNatively display.Safe = "its own user about its own tools, where it can"

// SourceName names the configuration at path.
func SourceName(path string) display.Safe { return display.Text(cmp.Or(path, "the built-in default")) }

func filesTable(files []*pb.PolicyFile) *display.Table {
	t := &display.Table{Columns: []display.Column{{Head: "FILE"}, {Head: "SHA-256", Shrink: 13}, {Head: "ON DISK", Tone: ui.ToneOf}}}
	for _, f := range files {
		t.Add(display.Text(f.GetPath()), display.Name(f.GetDigest()), ui.Choose(f.GetChanged(), "changed", "same"))
	}
	return t
}
