package main

import (
	"slices"
	"testing"
	"time"
)

func TestMedianAndQuantile(t *testing.T) {
	for _, test := range []struct {
		all              []float64
		median, q1, q3   float64
		ninetyNine, most float64
	}{
		{nil, 0, 0, 0, 0, 0},
		{[]float64{7}, 7, 7, 7, 7, 7},
		{[]float64{3, 1}, 2, 1, 3, 3, 3},
		{[]float64{9, 1, 5}, 5, 1, 9, 9, 9},
		{[]float64{4, 3, 2, 1}, 2.5, 1, 3, 4, 4},
		// One bad turn changes the mean and not the median.
		{[]float64{2, 2, 2, 2, 1000}, 2, 2, 2, 1000, 1000},
	} {
		given := slices.Clone(test.all)
		got := []float64{median(test.all), quantile(test.all, .25), quantile(test.all, .75), quantile(test.all, .99), quantile(test.all, 1)}
		want := []float64{test.median, test.q1, test.q3, test.ninetyNine, test.most}
		if !slices.Equal(got, want) {
			t.Errorf("%v: median, quartiles, p99 and maximum are %v, want %v", given, got, want)
		}
		if !slices.Equal(given, test.all) {
			t.Errorf("%v was reordered", given)
		}
	}
	var calls []time.Duration
	for i := range 500 {
		calls = append(calls, time.Duration(500-i))
	}
	if got := quantile(calls, .99); got != 495 { // five of 500 took longer
		t.Errorf("the p99 of 1 to 500 is %d, want 495", got)
	}
}

func TestCompared(t *testing.T) {
	c := compared{
		direct: {10, 10, 40, 10},
		floor:  {20, 20, 50, 9}, // in the last turn the floor was faster than direct
		ours:   {60, 70, 90, 60},
	}
	if got, want := c.added(ours), []float64{50, 60, 50, 50}; !slices.Equal(got, want) {
		t.Errorf("ours adds %v, want %v", got, want)
	}
	// The medians are 50 and 10; the last turn has no ratio.
	if got := c.timesAdded(); *got != (spread{Median: 5, Low: 5, High: 6, Turns: 3}) {
		t.Errorf("times what the floor adds: %+v", got)
	}
	// 65 of 20, from 1.8 to 6.67.
	if got := c.timesFloor(); got.Median != 3.25 || got.Low != 1.8 || got.High != 3.5 || got.Turns != 4 {
		t.Errorf("times the floor: %+v", got)
	}
	for _, c := range []compared{{}, {direct: {5}, floor: {4}, ours: {9}}} {
		if got := c.timesAdded(); got != nil {
			t.Errorf("%v: a floor that adds nothing makes a ratio %+v", c, got)
		}
	}
	r := c.row()
	if r.Direct.Median != 10 || r.Ours.Median != 65 || r.Added.Median != 50 || r.Added.Turns != 4 {
		t.Errorf("got %+v %+v %+v", r.Direct, r.Ours, r.Added)
	}
	// A way that was left out adds nothing.
	if r := (compared{ours: {1, 2}}).row(); r.Direct != nil || r.Floor != nil || r.Added != nil || r.Ours.value() != 1.5 {
		t.Errorf("got %+v", r)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.00", 0.0012: "0.0012", 0.0456: "0.046", 0.456: "0.46", 4.567: "4.57", 45.67: "45.7", 456.7: "457", 456789.1: "456789", -45.67: "-45.7",
	} {
		if got := number(v); got != want {
			t.Errorf("%v is shown as %s, want %s", v, got, want)
		}
	}
}
