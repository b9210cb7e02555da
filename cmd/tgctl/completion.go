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
		Long: `Print a script for your shell. With it, the shell completes commands, flags and
their values, such as verdicts, agents, and servers of the record, and the ids
of what waits.`,
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

// bashWords stands in for what the script needs of the package bash-completion, where that is missing: without it,
// bash would print an error for each tab. Words that bash has split at = and : are joined again.
const bashWords = `if ! declare -F _get_comp_words_by_ref >/dev/null; then
_get_comp_words_by_ref() {
    local i joined=
    words=() cword=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        if ((i > 1)) && [[ ${COMP_WORDS[i]} == [=:]* || $joined ]]; then
            words[${#words[@]}-1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
        joined=
        if [[ ${COMP_WORDS[i]} == [=:] ]]; then joined=1; fi
        if ((i == COMP_CWORD)); then cword=$((${#words[@]} - 1)); fi
    done
    cur=${words[cword]} prev=${words[cword-1]}
}
fi
if ! declare -F __ltrim_colon_completions >/dev/null; then
__ltrim_colon_completions() {
    if [[ $1 == *:* && $COMP_WORDBREAKS == *:* ]]; then COMPREPLY=("${COMPREPLY[@]#"${1%"${1##*:}"}"}"); fi
}
fi

`

// completions maps the name of a shell to the function that writes its script.
var completions = map[string]func(root *cobra.Command, w io.Writer) error{
	"bash": func(root *cobra.Command, w io.Writer) error {
		if _, err := io.WriteString(w, bashWords); err != nil {
			return err
		}
		return root.GenBashCompletionV2(w, true)
	},
	"zsh":  (*cobra.Command).GenZshCompletion,
	"fish": func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
}
