package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) completionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print what makes a shell complete tgctl's commands",
		Long: `Print a script for your shell. With it, the shell completes commands, flags, and
the ids of open questions.`,
		Example: `  $ tgctl completion bash > ~/.local/share/bash-completion/completions/tgctl
  $ tgctl completion zsh > "${fpath[1]}/_tgctl"
  $ tgctl completion fish > ~/.config/fish/completions/tgctl.fish`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args: func(_ *cobra.Command, args []string) error {
			if err := exactly("the name of a shell")(nil, args); err != nil {
				return err
			}
			switch args[0] {
			case "bash", "zsh", "fish":
				return nil
			}
			return fmt.Errorf("there is no completion for %q, only for bash, zsh and fish", args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out, true)
			case "zsh":
				return root.GenZshCompletion(a.out)
			default:
				return root.GenFishCompletion(a.out, true)
			}
		},
	}
}
