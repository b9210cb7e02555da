package ext

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) configCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "config NAME [get KEY | set KEY VALUE] [flags]",
		Short: "Show or set the configuration of an extension",
		Long: `List the configuration of an extension, print one value, or set one. Its
description says what the values mean; they are text. An extension that
subscribes to changes is notified at once.

Agents and the processes they start cannot set values.`,
		Example: `  $ tgctl ext config quota
  $ tgctl ext config quota get limit
  $ tgctl ext config quota set limit 50`,
		Args:              configArgs,
		ValidArgsFunction: a.completeConfig,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, args []string) error {
			switch len(args) {
			case 1:
				return a.listConfig(ctx, c, args[0])
			case 3:
				return a.getConfig(ctx, c, args[0], args[2])
			}
			return a.setConfig(ctx, c, args[0], args[2], args[3])
		}),
	}, &pb.ExtensionValue{})
}

// configArgs requires a name, optionally followed by get or set and their arguments.
func configArgs(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("NAME is missing")
	case len(args) == 1:
		return nil
	case args[1] == "get":
		return ui.Exactly("NAME", "get", "KEY")(nil, args)
	case args[1] == "set":
		return ui.Exactly("NAME", "set", "KEY", "VALUE")(nil, args)
	}
	return fmt.Errorf("unknown action %q: use get or set", args[1])
}

func (a *app) listConfig(ctx context.Context, c *client.Client, name string) error {
	values, err := c.ExtensionConfig(ctx, name)
	if err != nil {
		return ui.WithHint(err, hints...)
	}
	return ui.PrintList(a, values, nil, string(display.Name(name))+" has no configuration.", valuesTable)
}

func valuesTable(values []*pb.ExtensionValue) *display.Table {
	t := &display.Table{Columns: []display.Column{{Head: "KEY", Shrink: 12}, {Head: "VALUE", Shrink: 20}, {Head: "FROM"}}}
	for _, v := range values {
		t.Add(display.Name(v.GetKey()), shownValue(v.GetValue()), ui.Choose(v.GetSet(), "set", "manifest"))
	}
	return t
}

// shownValue formats a value in one line. An empty value is shown as "".
func shownValue(value string) display.Safe { return display.Text(cmp.Or(value, `""`)) }

func (a *app) getConfig(ctx context.Context, c *client.Client, name, key string) error {
	values, err := c.ExtensionConfig(ctx, name)
	if err != nil {
		return ui.WithHint(err, hints...)
	}
	for _, v := range values {
		switch {
		case v.GetKey() != key:
		case a.AsJSON:
			return a.PrintJSON(v)
		case a.OutTerminal:
			return a.PrintLines([]display.Safe{display.Text(v.GetValue())})
		default:
			_, err := fmt.Fprintln(a.Out, v.GetValue())
			return err
		}
	}
	return &ui.HintError{Err: fmt.Errorf("%s has no value for %q: %w", name, key, client.ErrNotFound),
		Hint: "List its values: tgctl ext config " + ui.Word(name)}
}

func (a *app) setConfig(ctx context.Context, c *client.Client, name, key, value string) error {
	values, err := c.SetExtensionConfig(ctx, &pb.SetExtensionConfigRequest{Name: name, Key: key, Value: value})
	if err != nil {
		return ui.WithHint(err, hints...)
	}
	for _, v := range values {
		if v.GetKey() != key {
			continue
		}
		if a.AsJSON {
			return a.PrintJSON(v)
		}
		if _, err = fmt.Fprintf(a.Out, "set %s of %s to %s\n", display.Name(key), display.Name(name), ui.ShellWord(display.Text(v.GetValue()))); err != nil {
			return err
		}
		return a.afterSet(ctx, c, name, key)
	}
	return fmt.Errorf("set %s of %s: the daemon did not store the value", key, name)
}

// afterSet reports what may keep a value from taking effect: only the extension knows
// what its values mean.
func (a *app) afterSet(ctx context.Context, c *client.Client, name, key string) error {
	e, err := c.GetExtension(ctx, name)
	if errors.Is(err, client.ErrNotFound) { // removed; its configuration stays
		return nil
	}
	if err != nil {
		return ui.WithHint(err, hints...)
	}
	if _, known := e.GetManifest().GetConfig()[key]; !known {
		a.PrintMessage("Its manifest does not declare %s; the extension may ignore it.", display.Name(key))
	}
	if e.GetProcess().GetState() == "failed" {
		a.PrintMessage("The extension has failed; restart it: tgctl restart %s", ui.Word(name))
		return nil
	}
	a.PrintMessage("If the extension cannot use the value, it logs that: tgctl ext logs %s", ui.Word(name))
	return nil
}

// completeConfig completes a name, then get or set, then a key.
func (a *app) completeConfig(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.completeExtensions()(cmd, args, typed)
	case 1:
		return []string{"get", "set"}, cobra.ShellCompDirectiveNoFileComp
	case 2:
		return connect.Listed(a.App, func(c *client.Client, ctx context.Context) ([]*pb.ExtensionValue, error) {
			return c.ExtensionConfig(ctx, args[0])
		},
			func(v *pb.ExtensionValue) string { return string(display.Name(v.GetKey())) })(cmd, args, typed)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
