package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func (a *app) extConfigCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "config NAME [get KEY | set KEY VALUE] [flags]",
		Short: "See or set the configuration of an extension",
		Long: `List the configuration of an extension, print one value, or set one. It is the
extension's own and means what its description says; values are text. An
extension that wants to know is told of a change at once.

To set is not for an agent, nor for what an agent starts.`,
		Example: `  $ tgctl ext config quota
  $ tgctl ext config quota get limit
  $ tgctl ext config quota set limit 50`,
		Args:              configArgs,
		ValidArgsFunction: a.completeConfig,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			switch len(args) {
			case 1:
				return a.listConfig(cmd.Context(), c, args[0], asJSON)
			case 3:
				return a.getConfig(cmd.Context(), c, args[0], args[2], asJSON)
			}
			return a.setConfig(cmd.Context(), c, args[0], args[2], args[3], asJSON)
		},
	}
	jsonFlag(cmd, &asJSON, &pb.ExtensionValue{})
	return cmd
}

// configArgs takes a name, and what to do with it.
func configArgs(_ *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("NAME is missing")
	case len(args) == 1:
		return nil
	case args[1] == "get":
		return exactly("NAME", "get", "KEY")(nil, args)
	case args[1] == "set":
		return exactly("NAME", "set", "KEY", "VALUE")(nil, args)
	}
	return fmt.Errorf("%q is neither get nor set", args[1])
}

func (a *app) listConfig(ctx context.Context, c *client.Client, name string, asJSON bool) error {
	values, err := c.ExtensionConfig(ctx, name)
	if err != nil {
		return extFailure(err)
	}
	if asJSON {
		return printAllJSON(a, values)
	}
	if len(values) == 0 {
		a.say("%s has no configuration.", display.Name(name))
		return nil
	}
	t := &display.Table{Columns: []display.Column{{Head: "KEY", Shrink: 12}, {Head: "VALUE", Shrink: 20}, {Head: "FROM"}}}
	for _, v := range values {
		from := display.Safe("its manifest")
		if v.GetSet() {
			from = "set here"
		}
		t.Add(display.Name(v.GetKey()), shownValue(v.GetValue()), from)
	}
	return t.Write(a.out, a.width())
}

// shownValue is a value in one line, where none is seen to be none.
func shownValue(value string) display.Safe {
	if value == "" {
		return `""`
	}
	return display.Text(value)
}

func (a *app) getConfig(ctx context.Context, c *client.Client, name, key string, asJSON bool) error {
	values, err := c.ExtensionConfig(ctx, name)
	if err != nil {
		return extFailure(err)
	}
	for _, v := range values {
		switch {
		case v.GetKey() != key:
		case asJSON:
			return a.printJSON(v)
		case a.outTerminal:
			return a.printLines([]display.Safe{display.Text(v.GetValue())})
		default:
			_, err := fmt.Fprintln(a.out, v.GetValue())
			return err
		}
	}
	return &hintError{
		err:  fmt.Errorf("%s has no value for %q: %w", name, key, client.ErrNotFound),
		hint: "See what there is: tgctl ext config " + string(shellWord(display.Name(name))),
	}
}

func (a *app) setConfig(ctx context.Context, c *client.Client, name, key, value string, asJSON bool) error {
	values, err := c.SetExtensionConfig(ctx, &pb.SetExtensionConfigRequest{Name: name, Key: key, Value: value})
	if err != nil {
		return extFailure(err)
	}
	for _, v := range values {
		if v.GetKey() != key {
			continue
		}
		if asJSON {
			return a.printJSON(v)
		}
		if _, err = fmt.Fprintf(a.out, "set %s of %s to %s\n", display.Name(key), display.Name(name), shellWord(display.Text(v.GetValue()))); err != nil {
			return err
		}
		return a.afterSet(ctx, c, name, key)
	}
	return fmt.Errorf("set %s of %s: the daemon does not have it now", key, name)
}

// afterSet tells what may keep a value from having an effect: only the extension
// knows what its values mean.
func (a *app) afterSet(ctx context.Context, c *client.Client, name, key string) error {
	e, err := c.GetExtension(ctx, name)
	if errors.Is(err, client.ErrNotFound) { // removed; its configuration stays
		return nil
	}
	if err != nil {
		return extFailure(err)
	}
	if _, known := e.GetManifest().GetConfig()[key]; !known {
		a.say("Its manifest knows no %s, so that it may never look at it.", display.Name(key))
	}
	word := shellWord(display.Name(name))
	if e.GetProcess().GetState() == "failed" {
		a.say("It has failed; start it again: tgctl restart %s", word)
		return nil
	}
	a.say("If it can't use that it says so: tgctl ext logs %s", word)
	return nil
}

// completeConfig offers names, then what to do, then keys.
func (a *app) completeConfig(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.completeExtensions(cmd, args, typed)
	case 1:
		return []string{"get", "set"}, cobra.ShellCompDirectiveNoFileComp
	case 2:
		return a.completeIDs(cmd, func(ctx context.Context, c *client.Client) (keys []string, err error) {
			values, err := c.ExtensionConfig(ctx, args[0])
			for _, v := range values {
				keys = append(keys, string(display.Name(v.GetKey())))
			}
			return keys, err
		})
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
