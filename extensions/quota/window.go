package main

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const hour = time.Hour

// window holds the calls of each tool in the last hour. The hour is relative to each request: a
// call stops counting an hour after it was made.
type window struct {
	mu     sync.Mutex // guards the fields below
	limits limits
	calls  map[string][]time.Time // by server/tool; oldest first
}

func (w *window) set(l limits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits = l
}

func (w *window) limit(tool string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.limits.of(tool)
}

// recall adds an earlier call.
func (w *window) recall(tool string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := append(w.calls[tool], at)
	slices.SortFunc(calls, time.Time.Compare)
	w.calls[tool] = calls
}

// take counts a call if the limit permits it. Otherwise it returns when the next call is
// permitted.
func (w *window) take(tool string, now time.Time) (limit int, again time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.move(now)
	limit = w.limits.of(tool)
	calls := w.calls[tool]
	if len(calls) < limit {
		w.calls[tool] = append(calls, now)
		return limit, time.Time{}, true
	}
	if limit == 0 {
		return 0, time.Time{}, false
	}
	return limit, calls[len(calls)-limit].Add(hour), false
}

// usage is how much of its limit a tool has used.
type usage struct {
	tool         string
	calls, limit int
}

// used returns the usage of each called tool, sorted by name.
func (w *window) used(now time.Time) []usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.move(now)
	var all []usage
	for _, tool := range slices.Sorted(maps.Keys(w.calls)) {
		limit := w.limits.of(tool)
		all = append(all, usage{tool, min(len(w.calls[tool]), limit), limit})
	}
	return all
}

// move removes calls from more than an hour ago. w.mu must be held.
func (w *window) move(now time.Time) {
	for tool, calls := range w.calls {
		first, _ := slices.BinarySearchFunc(calls, now.Add(-hour), time.Time.Compare)
		if calls = calls[first:]; len(calls) == 0 {
			delete(w.calls, tool)
		} else {
			w.calls[tool] = calls
		}
	}
}
