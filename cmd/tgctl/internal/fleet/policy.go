package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/policy"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/fleet"
)

func (a *app) policyCmd() *cobra.Command {
	cmd := ui.Group("policy COMMAND", "Publish the policies of groups", a.publishCmd(), a.promoteCmd(), a.historyCmd(), a.confirmCmd(), a.renewCmd(), a.exportCmd())
	cmd.Example = "  $ tgctl fleet policy publish acme --group dev --rules dev.yaml"
	return cmd
}

// edits are what publish changes of a policy. What is not set stays.
type edits struct {
	rules, approvers, values, overflow string
	cedar                              []string
}

func (a *app) publishCmd() *cobra.Command {
	var group string
	var e edits
	cmd := &cobra.Command{
		Use:   "publish FOLDER --group GROUP [flags]",
		Short: "Publish a policy for a group",
		Long: `Sign a policy and send it to every machine of a group, where it comes into force
within a second if the machine is connected. What is not named stays as it was.

The rules are those of a thoughtgate.yaml: of a group of mode floor only the
keys schema, sources, governance and approval, and nothing in them may loosen.
They are checked first, and nothing is published if there is an error.

Approvers answer questions of the group. Each is a line of "tgctl fleet key":
name, ssh key, and the key to which questions are sealed.`,
		Example: `  $ tgctl fleet policy publish acme --group dev --rules dev.yaml
  $ tgctl fleet policy publish acme --group dev --approvers leads.txt`,
		Args: ui.Exactly("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), args[0], func(r *repository) ([]string, error) {
				b, err := r.latest(group)
				if err != nil {
					return nil, err
				}
				if err := e.apply(b); err != nil {
					return nil, err
				}
				return a.publish(cmd.Context(), r, group, b)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&group, "group", "", "the `GROUP`")
	flags.StringVar(&e.rules, "rules", "", "the `FILE` with the rules")
	flags.StringArrayVar(&e.cedar, "cedar", nil, "a `FILE` with Cedar policies; it replaces all that there are; may be repeated")
	flags.StringVar(&e.approvers, "approvers", "", "the `FILE` with the approvers")
	flags.StringVar(&e.values, "values", "", "what leaves besides records: `VALUES`, none or previews")
	flags.StringVar(&e.overflow, "overflow", "", "what a full log does with records that were not sent: `OVERFLOW`, refuse or drop")
	_ = cmd.MarkFlagRequired("group")
	ui.CompleteFlag(cmd, "values", ui.OneOf(string(fleet.ValuesNone), string(fleet.ValuesPreviews)))
	ui.CompleteFlag(cmd, "overflow", ui.OneOf(string(fleet.OverflowRefuse), string(fleet.OverflowDrop)))
	return cmd
}

// apply makes the changes to b.
func (e *edits) apply(b *fleet.Bundle) error {
	if e.rules != "" {
		text, err := os.ReadFile(e.rules)
		if err != nil {
			return fmt.Errorf("read the rules: %w", err)
		}
		b.Rules = string(text)
	}
	if e.cedar != nil {
		b.Cedar = nil
	}
	for _, file := range e.cedar {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the Cedar policies: %w", err)
		}
		b.Cedar = append(b.Cedar, fleet.File{Name: filepath.Base(file), Text: string(text)})
	}
	if e.approvers != "" {
		text, err := os.ReadFile(e.approvers)
		if err != nil {
			return fmt.Errorf("read the approvers: %w", err)
		}
		if b.Approvers, err = parseApprovers(e.approvers, string(text)); err != nil {
			return err
		}
	}
	b.Values = cmp.Or(fleet.Values(e.values), b.Values)
	b.Overflow = cmp.Or(fleet.Overflow(e.overflow), b.Overflow)
	return nil
}

// approverLine returns the line of an approver.
func approverLine(a fleet.Approver) string {
	return strings.Join(append([]string{a.Name, a.SSH, a.Age}, a.Devices...), " ")
}

// parseApprovers parses the lines of a file of approvers: name, type and key of ssh, key of age, and the
// approver's own devices. A line that begins with # is a comment.
func parseApprovers(path, text string) ([]fleet.Approver, error) {
	all := []fleet.Approver{}
	for i, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || strings.HasPrefix(f[0], "#"):
		case len(f) < 4:
			return nil, &ui.HintError{Err: fmt.Errorf("%s:%d: a line has a name, an ssh key in two words, and a key of age", display.Text(path), i+1), Hint: "Get the line from the approver: tgctl fleet key --name NAME --ssh-key FILE"}
		default:
			all = append(all, fleet.Approver{Name: f[0], SSH: f[1] + " " + f[2], Age: f[3], Devices: slices.Clone(f[4:])})
		}
	}
	return all, nil
}

// publish checks b, publishes it, and says so.
func (a *app) publish(ctx context.Context, r *repository, group string, b *fleet.Bundle) ([]string, error) {
	if err := r.publish(group, *b, a.Now()); err != nil {
		return nil, err
	}
	now, err := r.latest(group)
	if err != nil {
		return nil, err
	}
	if err := policy.CheckBundle(ctx, a.App, now.Encode()); err != nil {
		return nil, err
	}
	return []string{group}, a.PrintLines([]display.Safe{"published version " + display.Safe(fmt.Sprint(now.Version)) + " for " + display.Name(group)})
}

func (a *app) promoteCmd() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "promote FOLDER --from GROUP --to GROUP",
		Short: "Give one group the policy of another",
		Long: `Publish for one group what another has: its rules, approvers and settings. Try a
policy with a few machines first, then promote it.`,
		Example: `  $ tgctl fleet policy promote acme --from canary --to dev`,
		Args:    ui.Exactly("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), args[0], func(r *repository) ([]string, error) {
				b, err := r.latest(from)
				if err != nil {
					return nil, err
				}
				target, err := r.find(to)
				if err != nil {
					return nil, err
				}
				if target.Mode != b.Mode {
					return nil, fmt.Errorf("%s has mode %s and %s has mode %s", display.Name(from), b.Mode, display.Name(to), target.Mode)
				}
				return a.publish(cmd.Context(), r, to, b)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the `GROUP` whose policy it is")
	cmd.Flags().StringVar(&to, "to", "", "the `GROUP` that gets it")
	_ = cmd.MarkFlagRequired("from")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

// published is a line of the history.
type published struct {
	Version   uint64    `json:"version"`
	At        time.Time `json:"at"`
	Digest    string    `json:"digest"`
	Rules     int       `json:"rules_bytes"`
	Cedar     int       `json:"cedar_files"`
	Approvers []string  `json:"approvers"`
}

func (a *app) historyCmd() *cobra.Command {
	var group string
	var show uint64
	cmd := a.WithJSON(&cobra.Command{
		Use:   "history FOLDER --group GROUP [flags]",
		Short: "List the policies that a group has had",
		Long: `List the last 20 policies of a group. With --show, print the rules of one; to
put an earlier one in force again, publish its rules.`,
		Example: `  $ tgctl fleet policy history acme --group dev
  $ tgctl fleet policy history acme --group dev --show 3 > dev.yaml`,
		Args: ui.Exactly("FOLDER"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := openRepository(args[0])
			if err != nil {
				return err
			}
			g, err := r.find(group)
			if err != nil {
				return err
			}
			var all []published
			for _, v := range slices.Backward(g.Published) {
				b, err := fleet.ParseBundle(v.Bundle)
				if err != nil {
					return err
				}
				if show == b.Version {
					_, err := fmt.Fprint(a.Out, b.Rules)
					return err
				}
				names := ui.Map(b.Approvers, func(x fleet.Approver) string { return x.Name })
				all = append(all, published{b.Version, v.At, fleet.Digest(v.Bundle), len(b.Rules), len(b.Cedar), names})
			}
			if show != 0 {
				return fmt.Errorf("%s has no version %d, or it is too old", display.Name(group), show)
			}
			return ui.PrintList(a, all, func(p published) any { return p }, "", a.historyTable)
		},
	}, published{})
	cmd.Flags().StringVar(&group, "group", "", "the `GROUP`")
	cmd.Flags().Uint64Var(&show, "show", 0, "print the rules of `VERSION`")
	_ = cmd.MarkFlagRequired("group")
	return cmd
}

func (a *app) historyTable(all []published) *display.Table {
	t := &display.Table{Columns: []display.Column{{Head: "VERSION"}, {Head: "PUBLISHED"}, {Head: "RULES"}, {Head: "CEDAR"}, {Head: "APPROVERS", Shrink: 8}, {Head: "SHA-256"}}}
	for _, p := range all {
		t.Add(display.Safe(fmt.Sprint(p.Version)), ui.Ago(p.At, a.Now()), display.Size(uint64(p.Rules)), display.Safe(fmt.Sprint(p.Cedar)), ui.OrDash(strings.Join(p.Approvers, ", ")), ui.ShortDigest(p.Digest))
	}
	return t
}

func (a *app) confirmCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "confirm FOLDER",
		Short: "Sign that the policies are the newest ones",
		Long: `Sign that the policies of all groups are the newest ones, and send that to the
machines. Without it, a machine says after a day that its policy is stale, and
takes no policy that was signed more than 7 days ago. Run it every few hours. It
also signs again what would expire within 90 days; only the root needs
"tgctl fleet policy renew-root", once a year.`,
		Example: `  $ tgctl fleet policy confirm acme`,
		Args:    ui.Exactly("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), args[0], func(r *repository) ([]string, error) { return r.names(), r.confirm(a.Now()) })
		},
	}
}

func (a *app) renewCmd() *cobra.Command {
	var keys []string
	cmd := &cobra.Command{
		Use:   "renew-root FOLDER --key FILE --key FILE",
		Short: "Sign the root of all keys for another year",
		Long: `Sign for another year which keys count, with two of the three root keys.
Machines take no new policy once the root has expired.`,
		Example: `  $ tgctl fleet policy renew-root acme --key a/root-1.pem --key b/root-2.pem`,
		Args:    ui.Exactly("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), args[0], func(r *repository) ([]string, error) {
				if err := r.renewRoot(keys, a.Now()); err != nil {
					return nil, err
				}
				return r.names(), r.confirm(a.Now())
			})
		},
	}
	cmd.Flags().StringArrayVar(&keys, "key", nil, "the `FILE` of a root key; name two")
	_ = cmd.MarkFlagRequired("key")
	return cmd
}

func (a *app) exportCmd() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "export FOLDER --to DIR",
		Short: "Write the signed policies for a web server",
		Long: `Write what is signed into a folder that any web server can hand out, for the
machines of a fleet without an engine. It has the layout of The Update Framework
for consistent snapshots. What is there already stays, and timestamp.json, by
which machines find the rest, is written last. Run it after each change and each
"tgctl fleet policy confirm".

The server must answer 404 for what is not there. Nothing in the folder is
secret, and nothing that the server does to it loosens a policy.`,
		Example: `  $ tgctl fleet policy export acme --to /var/www/acme`,
		Args:    ui.Exactly("FOLDER"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := openRepository(args[0])
			if err == nil && r.TUF.Timestamp == nil {
				err = &ui.HintError{Err: errors.New("the fleet has no policy yet"), Hint: "To add a group, which has one: tgctl fleet group " + ui.Word(args[0]) + " NAME --mode floor"}
			}
			if err != nil {
				return err
			}
			return r.export(to)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the `DIR` that the web server hands out")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}
