package metrics

import (
	"bytes"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Text returns all metrics in the Prometheus text format.
func (m *Metrics) Text() ([]byte, error) { return text(prometheus.Gatherers{m.ours, m.process}) }

func text(from prometheus.Gatherer) ([]byte, error) {
	families, err := from.Gather()
	if err != nil {
		return nil, fmt.Errorf("collect the metrics: %w", err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return nil, fmt.Errorf("write the metric %s: %w", f.GetName(), err)
		}
	}
	return b.Bytes(), nil
}

// Sample is one value of a metric, or one histogram.
type Sample struct {
	Name   string
	Kind   string // counter, gauge, histogram, summary
	Labels []Label
	Value  float64 // of a histogram or summary: the sum
	Count  uint64  // of a histogram or summary: the number of observations
	// Buckets are the cumulative counts of a histogram, or the quantiles of a summary.
	Buckets []Bucket
}

// Label is one label of a sample.
type Label struct{ Name, Value string }

// Bucket is one bucket of a histogram, of which the last one has no upper bound, or one quantile of
// a summary.
type Bucket struct {
	Bound float64
	Value float64
}

// Samples returns all metrics, in the order of Text.
func (m *Metrics) Samples() ([]Sample, error) {
	families, err := prometheus.Gatherers{m.ours, m.process}.Gather()
	if err != nil {
		return nil, fmt.Errorf("collect the metrics: %w", err)
	}
	var all []Sample
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			all = append(all, sample(f, metric))
		}
	}
	return all, nil
}

func sample(f *dto.MetricFamily, m *dto.Metric) Sample {
	s := Sample{Name: f.GetName()}
	for _, l := range m.GetLabel() {
		s.Labels = append(s.Labels, Label{l.GetName(), l.GetValue()})
	}
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		s.Kind, s.Value = counter, m.GetCounter().GetValue()
	case dto.MetricType_HISTOGRAM:
		h := m.GetHistogram()
		s.Kind, s.Value, s.Count = histogram, h.GetSampleSum(), h.GetSampleCount()
		for _, b := range h.GetBucket() {
			s.Buckets = append(s.Buckets, Bucket{b.GetUpperBound(), float64(b.GetCumulativeCount())})
		}
	case dto.MetricType_SUMMARY:
		h := m.GetSummary()
		s.Kind, s.Value, s.Count = "summary", h.GetSampleSum(), h.GetSampleCount()
		for _, q := range h.GetQuantile() {
			s.Buckets = append(s.Buckets, Bucket{q.GetQuantile(), q.GetValue()})
		}
	default:
		s.Kind, s.Value = gauge, m.GetGauge().GetValue()
	}
	return s
}
