package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) policyCmd() *cobra.Command {
	cmd := group("policy", "Write, check and try a configuration, see the one in force", a.policyCheckCmd(), a.policyExplainCmd(), a.policyTestCmd(),
		a.policyBacktestCmd(), a.policyShowCmd(), a.policySchemaCmd(), a.policyInitCmd())
	cmd.Long = `What agents may do is said in thoughtgate.yaml and the Cedar policies it names.
Both are read when the daemon starts or is told to reload; a file that changed
on disk changes nothing before that.`
	cmd.Example = `  $ tgctl policy init
  $ tgctl policy check && tgctl policy backtest
  $ tgctl daemon reload`
	return cmd
}

func (a *app) policyShowCmd() *cobra.Command {
	return a.withJSON(&cobra.Command{
		Use:   "show [flags]",
		Short: "Show which rules and policies are in force",
		Long: `Show the set that is in force: its rules in the order in which they are tried,
its policies, who is asked, and what is known of servers. Of a file that changed
on disk since, it shows how.`,
		Example: `  $ tgctl policy show
  $ tgctl policy show --json | jq -r '.files[] | select(.changed) | .path'`,
		RunE: a.onDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			set, err := c.PolicySet(ctx)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.printJSON(pbjson.Object{Message: set, More: diffsOf(set.GetFiles())})
			}
			s := &sheet{}
			a.addSet(s, set)
			s.add("since", a.moment(set.GetSince()))
			s.add("by", display.Text(set.GetBy()))
			s.add("digest", display.Name(set.GetDigest()))
			if err := a.printSheet(s); err != nil {
				return err
			}
			return a.printDetail(set)
		}),
	}, pbjson.Object{Message: &pb.PolicySet{}, More: diffsJSON{}})
}

// addSet adds which policy set is in force, and which of its files have changed on disk.
func (a *app) addSet(s *sheet, set *pb.PolicySet) {
	s.add("config", display.Text(cmp.Or(set.GetSource(), "built-in default; there is no configuration file")))
	s.add("profile", display.Name(set.GetProfile()))
	s.add("holds", plural(set.GetRules(), "rule", "rules")+", "+plural(set.GetPolicies(), "Cedar policy", "Cedar policies"))
	addChecked(s, set)
	for _, f := range set.GetFiles() {
		s.add("changed", choose(f.GetChanged(), display.Text(f.GetPath())+" is not what is in force; `tgctl policy check`, then `tgctl daemon reload`", ""))
	}
}

// inShort summarizes a set: its profile, and how many rules and policies it has.
func inShort(set *pb.PolicySet) string {
	return fmt.Sprintf("profile %s, %s, %s", display.Name(set.GetProfile()),
		plural(set.GetRules(), "rule", "rules"), plural(set.GetPolicies(), "Cedar policy", "Cedar policies"))
}

// sourceName names the configuration at path.
func sourceName(path string) display.Safe { return display.Text(cmp.Or(path, "the built-in default")) }

func filesTable(files []*pb.PolicyFile) *display.Table {
	t := &display.Table{Columns: []display.Column{{Head: "FILE"}, {Head: "SHA-256", Shrink: 13}, {Head: "ON DISK"}}}
	for _, f := range files {
		t.Add(display.Text(f.GetPath()), display.Name(f.GetDigest()), choose(f.GetChanged(), "changed", "same"))
	}
	return t
}
