package main

// target returns whether a row has reached a target: yes, no, or unknown.
type target func(row) string

const (
	yes     = "yes"
	no      = "no"
	unknown = "unknown" // what it is compared with took no part, or has no figure
)

func when(reached bool) string {
	if reached {
		return yes
	}
	return no
}

func atMost(limit float64) target {
	return func(r row) string { return when(r.Ours.value() <= limit) }
}

func atLeast(limit float64) target {
	return func(r row) string { return when(r.Ours.value() >= limit) }
}

func addsAtMost(limit float64) target {
	return func(r row) string { return when(r.Added != nil && r.Added.Median <= limit) }
}

func ratioAtMost(limit float64) target {
	return func(r row) string { return when(r.Ratio != nil && r.Ratio.Median <= limit) }
}

func ratioAtLeast(limit float64) target {
	return func(r row) string { return when(r.Ratio.value() >= limit) }
}

// peakAtMost is unknown if the peak is unknown, see memoryOf.
func peakAtMost(limit float64) target {
	return func(r row) string {
		if r.Peak == 0 {
			return unknown
		}
		return when(r.Peak <= limit)
	}
}

// timesBase is reached if the figure is at least times that of the base.
func timesBase(times float64) target {
	return func(r row) string {
		base := r.base()
		if base.Figure == nil {
			return unknown
		}
		return when(r.Ours.value() >= times*base.Figure.Median)
	}
}

// addsOfBase is reached if the gate adds no more than the fraction part of what the base adds.
func addsOfBase(part float64) target {
	return func(r row) string {
		base := r.base()
		if base.Added == nil || r.Added == nil {
			return unknown
		}
		return when(r.Added.Median <= part*base.Added.Median)
	}
}

// addsLessThanPeers is reached if each peer adds more.
func addsLessThanPeers(r row) string {
	answer := unknown
	for _, o := range r.Others {
		if o.Name == baseName || o.Added == nil {
			continue
		}
		if r.Added == nil || r.Added.Median >= o.Added.Median {
			return no
		}
		answer = yes
	}
	return answer
}

// every is reached if all targets are.
func every(targets ...target) target {
	return func(r row) string { return decided(r, targets, no, yes) }
}

// either is reached if one of the targets is.
func either(targets ...target) target {
	return func(r row) string { return decided(r, targets, yes, no) }
}

// decided returns first if one of the targets returns that, otherwise unknown if one returns
// that, and otherwise last.
func decided(r row, targets []target, first, last string) string {
	answer := last
	for _, t := range targets {
		switch t(r) {
		case first:
			return first
		case unknown:
			answer = unknown
		}
	}
	return answer
}
