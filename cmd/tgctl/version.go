package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// release is set by the build. Commands use ui.Release, which newApp sets to it.
var release = "dev"

// versionJSON is the output of `tgctl version --json`.
type versionJSON struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"` // such as linux/amd64
}

func (a *app) versionCmd() *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  $ tgctl version",
		RunE: func(*cobra.Command, []string) error {
			return a.printVersion(a.AsJSON)
		},
	}, versionJSON{})
}

func (a *app) printVersion(asJSON bool) error {
	if asJSON {
		return a.PrintJSON(versionJSON{Version: ui.Release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH})
	}
	_, err := fmt.Fprintln(a.Out, ui.Version())
	return err
}
