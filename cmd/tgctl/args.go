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
			ids = append(ids, described(q.GetId(), about))
		}
		return ids, err
	})
}

// listed completes with what the daemon lists: each as word has it, and none that is
// empty.
func listed[T any](a *app, list func(*client.Client, context.Context) ([]T, error), word func(T) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.completeIDs(cmd, func(ctx context.Context, c *client.Client) (words []string, err error) {
			all, err := list(c, ctx)
			for _, one := range all {
				if w := word(one); w != "" {
					words = append(words, w)
				}
			}
			return words, err
		})
	}
}

// firstAlone completes the first argument and no other.
func firstAlone(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

// described is a word that the shell completes to, with a description beside it.
func described(word string, about display.Safe) string {
	return cobra.CompletionWithDesc(string(display.Name(word)), string(about))
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
