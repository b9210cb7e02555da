package policy

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// schemaKinds lists the files that have a schema.
var schemaKinds = []string{"config", "project", "test"}

func (a *app) schemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [config|project|test]",
		Short: "Print a JSON Schema for editors",
		Long: `Print the JSON Schema of thoughtgate.yaml, of a project's .thoughtgate.yaml, or
of files of expected verdicts. It has exactly the keys that the daemon knows.
policy check finds errors that a schema can't express.`,
		Example: `  $ tgctl policy schema > ~/.config/thoughtgate/schema.json
  $ tgctl policy schema test | jq '.properties | keys'`,
		ValidArgs: schemaKinds,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !slices.Contains(schemaKinds, args[0]) {
				return fmt.Errorf("no schema for %q; use one of: %s", args[0], strings.Join(schemaKinds, ", "))
			}
			return ui.AtMostOne(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := Schema(cmd.Context(), a.App, append(args, "config")[0])
			if err != nil {
				return err
			}
			_, err = a.Out.Write(text)
			return err
		},
	}
}

// Schema asks thoughtgated for a schema, since thoughtgated parses the files.
func Schema(ctx context.Context, a *connect.App, kind string) ([]byte, error) {
	program, err := a.Sibling(connect.DaemonName)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "--schema", kind)
	cmd.Env = a.Environ()
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s --schema: %w: %s", connect.DaemonName, err, strings.TrimSpace(said.String()))
	}
	return out.Bytes(), nil
}
