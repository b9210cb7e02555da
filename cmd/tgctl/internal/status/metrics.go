package status

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// MetricsCommand returns the command metrics.
func MetricsCommand(a *connect.App) *cobra.Command {
	return a.WithJSON(&cobra.Command{
		Use:   "metrics [flags]",
		Short: "Print the daemon's metrics",
		Long: `Print the daemon's metrics since its start, in the text format of Prometheus.
There is no port to scrape: name a file in metrics.textfile of thoughtgate.yaml
for node_exporter to read. docs/metrics.md explains each metric.`,
		Example: `  $ tgctl metrics | grep ^thoughtgate_approvals
  $ tgctl metrics --json | jq -r 'select(.name == "thoughtgate_shims")'`,
		RunE: a.OnDaemon(func(ctx context.Context, c *client.Client, _ []string) error {
			if a.AsJSON {
				samples, err := c.MetricSamples(ctx)
				if err != nil {
					return err
				}
				return ui.PrintAllJSON(a, samples)
			}
			text, err := c.Metrics(ctx)
			if err != nil {
				return err
			}
			// The daemon has escaped all text that comes from others.
			_, err = bytes.NewReader(text).WriteTo(a.Out)
			return err
		}),
	}, &pb.Sample{})
}
