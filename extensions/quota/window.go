package main

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const hour = time.Hour

// window is the last hour: when each tool was called in it. It moves on with each
// question, so that a call is free again an hour after the one it follows.
type window struct {
	mu     sync.Mutex // guards what follows
	limits limits
	calls  map[string][]time.Time // by server/tool; the oldest first
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

// recall counts a call that was made before.
func (w *window) recall(tool string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := append(w.calls[tool], at)
	slices.SortFunc(calls, time.Time.Compare)
	w.calls[tool] = calls
}

// take counts a call, if there is room for it. Otherwise it says when there will
// be.
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

// usage is what a tool has used of its limit.
type usage struct {
	tool         string
	calls, limit int
}

// used is the usage of each tool that was called, by name.
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

// move forgets what is over an hour ago. w.mu is held.
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
