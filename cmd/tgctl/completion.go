package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

func (a *app) completionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a completion script for bash, zsh or fish",
		Long: `Print a script for your shell. With it, the shell completes commands, flags, and
the ids of waiting questions.`,
		Example: `  $ tgctl completion bash > ~/.local/share/bash-completion/completions/tgctl
  $ tgctl completion zsh > "${fpath[1]}/_tgctl"
  $ tgctl completion fish > ~/.config/fish/completions/tgctl.fish`,
		ValidArgs: slices.Sorted(maps.Keys(completions)),
		Args: func(_ *cobra.Command, args []string) error {
			if err := ui.Exactly("the name of a shell")(nil, args); err != nil {
				return err
			}
			if completions[args[0]] == nil {
				return fmt.Errorf("unsupported shell %q: use bash, zsh or fish", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return completions[args[0]](cmd.Root(), a.Out) },
	}
}

// completions maps the name of a shell to the function that writes its script.
var completions = map[string]func(root *cobra.Command, w io.Writer) error{
	"bash": func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	"zsh":  (*cobra.Command).GenZshCompletion,
	"fish": func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
}
