package connect

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// completionTimeout is the timeout for completing a word with names from the daemon.
const completionTimeout = time.Second

// CompleteApprovals completes the ids of open questions.
func (a *App) CompleteApprovals() cobra.CompletionFunc {
	open := func(c *client.Client, ctx context.Context) ([]*pb.Approval, error) {
		return c.ListApprovals(ctx, false)
	}
	return Listed(a, open, func(q *pb.Approval) string {
		return Described(q.GetId(), ui.CallName(q.GetMethod(), q.GetTool())+" on "+display.Name(q.GetServer()))
	})
}

// Listed completes with the results of list, converted by word. Empty words are left out.
func Listed[T any](a *App, list func(*client.Client, context.Context) ([]T, error), word func(T) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.CompleteIDs(cmd, func(ctx context.Context, c *client.Client) (words []string, err error) {
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

// FirstAlone completes the first argument and no other.
func FirstAlone(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

// Described returns a completion with a description.
func Described(word string, about display.Safe) string {
	return cobra.CompletionWithDesc(string(display.Name(word)), string(about))
}

// CompleteIDs completes with what list returns. It offers nothing if no daemon runs.
func (a *App) CompleteIDs(cmd *cobra.Command, list func(context.Context, *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), cmp.Or(a.Completing, completionTimeout))
	defer cancel()
	c, err := a.DialRunning(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	ids, err := list(ctx, c)
	if err != nil {
		ids = nil
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
