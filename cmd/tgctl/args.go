package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
)

// completionTimeout is the timeout for completing a word with names from the daemon.
const completionTimeout = time.Second

// exactly requires one argument for each name.
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

// atLeastOne requires one or more arguments of the kind that name names.
func atLeastOne(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s is missing", name)
		}
		return nil
	}
}

// atMostOne allows at most one argument.
func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("unexpected argument %q", args[1])
	}
	return nil
}

// completeApprovals completes the ids of open questions.
func (a *app) completeApprovals(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completeIDs(cmd, func(ctx context.Context, c *client.Client) (ids []string, err error) {
		questions, err := c.ListApprovals(ctx, false)
		for _, q := range questions {
			about := ui.CallName(q.GetMethod(), q.GetTool()) + " on " + display.Name(q.GetServer())
			ids = append(ids, described(q.GetId(), about))
		}
		return ids, err
	})
}

// listed completes with the results of list, converted by word. Empty words are left out.
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

// described returns a completion with a description.
func described(word string, about display.Safe) string {
	return cobra.CompletionWithDesc(string(display.Name(word)), string(about))
}

// completeIDs completes with what list returns. It offers nothing if no daemon runs.
func (a *app) completeIDs(cmd *cobra.Command, list func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
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
