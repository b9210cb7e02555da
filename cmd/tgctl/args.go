package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// completePatience is how long the shell waits for names from the daemon.
const completePatience = time.Second

// exactly takes one argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return fmt.Errorf("%s is missing", names[len(args)])
		case len(args) > len(names):
			return fmt.Errorf("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// atLeastOne takes one argument or more of what name stands for.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s is missing", name)
		}
		return nil
	}
}

// atMostOne takes one argument or none.
func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("unexpected argument %q", args[1])
	}
	return nil
}

// completeApprovals offers the ids of the open questions to the shell.
func (a *app) completeApprovals(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completeIDs(cmd, func(ctx context.Context, c *client.Client) (ids []string, err error) {
		questions, err := c.ListApprovals(ctx, false)
		for _, q := range questions {
			about := callName(q.GetMethod(), q.GetTool()) + " on " + display.Name(q.GetServer())
			ids = append(ids, cobra.CompletionWithDesc(q.GetId(), string(about)))
		}
		return ids, err
	})
}

// completeGrants offers the ids of grants in force.
func (a *app) completeGrants(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completeIDs(cmd, func(ctx context.Context, c *client.Client) (ids []string, err error) {
		grants, err := c.ListGrants(ctx, false)
		for _, g := range grants {
			about := callName(g.GetMethod(), g.GetTool()) + " on " + display.Name(g.GetServer())
			ids = append(ids, cobra.CompletionWithDesc(g.GetId(), string(about)))
		}
		return ids, err
	})
}

// completeIDs offers what a running daemon knows, and nothing without one.
func (a *app) completeIDs(cmd *cobra.Command, list func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completePatience)
	defer cancel()
	c, err := a.dialRunning(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	ids, err := list(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
