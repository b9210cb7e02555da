package main

import (
	"bytes"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// sampleJSON is one value of a metric as --json shows it.
type sampleJSON struct {
	Name    string             `json:"name"`
	Kind    string             `json:"kind"` // counter, gauge, histogram, summary
	Labels  map[string]string  `json:"labels"`
	Value   *float64           `json:"value"`             // of a histogram or summary the sum; null for one that is no number
	Count   *uint64            `json:"count,omitempty"`   // of a histogram or summary
	Buckets map[string]float64 `json:"buckets,omitempty"` // how many were at most so much; of a summary the quantiles
}

func sampleToJSON(s *pb.Sample) sampleJSON {
	out := sampleJSON{Name: s.GetName(), Kind: s.GetKind(), Labels: s.GetLabels(), Value: number(s.GetValue())}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if s.GetKind() == "histogram" || s.GetKind() == "summary" {
		out.Count, out.Buckets = &s.Count, map[string]float64{}
		for _, b := range s.GetBuckets() {
			if v := number(b.GetValue()); v != nil {
				out.Buckets[strconv.FormatFloat(b.GetBound(), 'g', -1, 64)] = *v
			}
		}
	}
	return out
}

// number is f as JSON can say it, nil when it can't.
func number(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

func (a *app) metricsCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "metrics [flags]",
		Short: "Print what the daemon has counted",
		Long: `Print what the daemon has counted since it started, in the text format of
Prometheus. There is no port to scrape: name a file in metrics.textfile of
thoughtgate.yaml for node_exporter to read. docs/metrics.md says what each
metric means.`,
		Example: `  $ tgctl metrics | grep ^thoughtgate_approvals
  $ tgctl metrics --json | jq -r 'select(.name == "thoughtgate_shims")'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			if asJSON {
				samples, err := c.MetricSamples(cmd.Context())
				if err != nil {
					return err
				}
				for _, s := range samples {
					if err := a.printJSON(sampleToJSON(s)); err != nil {
						return err
					}
				}
				return nil
			}
			text, err := c.Metrics(cmd.Context())
			if err != nil {
				return err
			}
			// The daemon has escaped what was a stranger's.
			_, err = bytes.NewReader(text).WriteTo(a.out)
			return err
		},
	}
	jsonFlag(cmd, &asJSON, sampleJSON{})
	return cmd
}
